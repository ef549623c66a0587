"""Chapter 07, Norms at work: what its notebook alone needs."""

from chapters import checks_of, claims_of, records_of
from chapters.c07_norms_at_work import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("07")
load = records_of("07")
