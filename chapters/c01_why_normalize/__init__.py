"""Chapter 01, Why normalize: what its notebook alone needs.

exercises    standardizing over any dimensions
figures      how sizes go with depth, what the layers hold, the valley of inputs with a mean
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c01_why_normalize import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("01")
