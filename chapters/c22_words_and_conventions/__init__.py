"""Chapter 22, Words and conventions: what its notebook alone needs.

conventions/  what PyTorch, transformers and others mean by the same words
exercises     another norm's weight and ε for nn.RMSNorm
glossary      the words of the course (``glossary.toml``)
mistakes/     what is known to go wrong in the exercise
claims.toml   what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c22_words_and_conventions import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("22")
