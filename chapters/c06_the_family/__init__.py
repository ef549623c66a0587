"""Chapter 06, The family: what its notebook alone needs."""

from chapters import checks_of, claims_of, records_of
from chapters.c06_the_family import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("06")
load = records_of("06")
