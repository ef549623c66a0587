"""Chapter 16, A real Llama: what its notebook alone needs.

claims.toml  what the chapter claims
parts        whose parts are put into a model, and a rope in the order of its weights
"""

from chapters import cached_results_of, claims_of
from chapters.c16_a_real_llama.parts import in_halves, whose

__all__ = ["cached_result", "claims", "in_halves", "whose"]

claims = claims_of("16")
cached_result = cached_results_of("16")
