"""Chapter 17, Models of today: what its notebook alone needs."""

from chapters import checks_of, claims_of
from chapters.c17_models_of_today import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("17")
