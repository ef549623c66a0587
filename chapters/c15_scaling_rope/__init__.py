"""Chapter 15, Scaling RoPE: what its notebook alone needs.

exercises    the frequencies of scaled RoPE
probes.toml  what they are tried on
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c15_scaling_rope import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("15")
