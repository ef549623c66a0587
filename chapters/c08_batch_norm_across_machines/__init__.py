"""Chapter 08, Batch norm across machines: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c08_batch_norm_across_machines import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("08")
