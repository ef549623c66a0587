"""Chapter 15, Longer context: what its notebook alone needs."""

from chapters import checks_of, claims_of, records_of
from chapters.c15_longer_context import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("15")
load = records_of("15")
