"""Chapter 05, Backward by hand: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c05_backward_by_hand import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("05")
