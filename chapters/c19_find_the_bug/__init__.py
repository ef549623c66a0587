"""Chapter 19, Find the bug: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c19_find_the_bug import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("19")
