"""Chapter 09, Where the time goes: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c09_where_the_time_goes import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("09")
