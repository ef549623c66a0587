"""Chapter 03, Batch norm: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c03_batch_norm import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("03")
