"""Chapter 20, Words and conventions: what its notebook alone needs."""

from chapters import claims_of

__all__ = ["claims"]

claims = claims_of("20")
