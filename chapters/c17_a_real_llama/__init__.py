"""Chapter 17, A real Llama: what its notebook alone needs.

claims.toml  what the chapter claims
exercises    grouped-query attention with a cache; which mistake is in a model
mistakes/    what is known to go wrong in the first
suspects     the four models of the exercise, and its judge
parts        whose parts are put into a model, and a rope in the order of its weights
small_models four families with random weights, and a Llama scaled in six ways
figures      what a model writes with each part, token by token
widgets      the same for nine mistakes and six prompts, and which blocks differ
"""

from chapters import cached_results_of, checks_of, claims_of
from chapters.c17_a_real_llama import exercises
from chapters.c17_a_real_llama.parts import in_halves, whose
from chapters.c17_a_real_llama.suspects import suspect

__all__ = ["cached_result", "check", "claims", "in_halves", "suspect", "whose"]

check = checks_of(exercises)
claims = claims_of("17")
cached_result = cached_results_of("17")
