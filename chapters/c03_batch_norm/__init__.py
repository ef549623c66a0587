"""Chapter 03, Batch norm: what its notebook alone needs.

exercises    batch norm, and folding it into the layer before it
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c03_batch_norm import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("03")
