"""Chapter 22, Words and conventions: what its notebook alone needs.

conventions/  what PyTorch, transformers and others mean by the same words
glossary      the words of the course (``glossary.toml``)
claims.toml   what the chapter claims
"""

from chapters import claims_of

__all__ = ["claims"]

claims = claims_of("22")
