"""Chapter 21, Find the bug: what its notebook alone needs.

bugs/        pieces of code with one bug each, modelled on published defects
exercises    the puzzles as exercises, A to N
widgets      one input through the worked piece and its mended version
claims.toml  what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c21_find_the_bug import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("21")
