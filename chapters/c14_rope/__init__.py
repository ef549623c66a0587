"""Chapter 14, RoPE: what its notebook alone needs.

exercises    rotary embeddings, the permutation between layouts, a key for one distance
probes.toml  what `rope` and `aimed_key` are tried on
figures      two hands that move together, how far a sum reaches, what pairs are for
widgets      the clocks of a rotary embedding
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
"""

from chapters import cached_results_of, checks_of, claims_of
from chapters.c14_rope import exercises

__all__ = ["cached_result", "check", "claims"]

check = checks_of(exercises)
claims = claims_of("14")
cached_result = cached_results_of("14")
