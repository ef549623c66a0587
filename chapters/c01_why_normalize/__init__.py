"""Chapter 01, Why normalize: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c01_why_normalize import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("01")
