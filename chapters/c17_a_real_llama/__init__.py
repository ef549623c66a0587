"""Chapter 17, A real Llama: what its notebook alone needs.

claims.toml  what the chapter claims
parts        whose parts are put into a model, and a rope in the order of its weights
"""

from chapters import cached_results_of, claims_of
from chapters.c17_a_real_llama.parts import in_halves, whose

__all__ = ["cached_result", "claims", "in_halves", "whose"]

claims = claims_of("17")
cached_result = cached_results_of("17")
