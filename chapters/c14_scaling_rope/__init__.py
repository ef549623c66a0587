"""Chapter 14, Scaling RoPE: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c14_scaling_rope import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("14")
