"""Chapter 18, On trial: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c18_on_trial import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("18")
