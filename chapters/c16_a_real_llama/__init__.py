"""Chapter 16, A real Llama: what its notebook alone needs.

claims.toml  what the chapter claims
"""

from chapters import cached_results_of, claims_of

__all__ = ["cached_result", "claims"]

claims = claims_of("16")
cached_result = cached_results_of("16")
