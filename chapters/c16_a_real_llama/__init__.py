"""Chapter 16, A real Llama: what its notebook alone needs.

claims.toml  what the chapter claims
"""

from chapters import claims_of

__all__ = ["claims"]

claims = claims_of("16")
