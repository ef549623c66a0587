"""Chapter 04, Running statistics: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c04_running_statistics import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("04")
