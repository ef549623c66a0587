"""Chapter 12, Why position: what its notebook alone needs."""

from chapters import checks_of, claims_of, records_of
from chapters.c12_why_position import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("12")
load = records_of("12")
