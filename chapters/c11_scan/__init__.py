"""Chapter 11, Scan: what its notebook alone needs."""

from chapters import checks_of, claims_of, records_of
from chapters.c11_scan import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("11")
load = records_of("11")
