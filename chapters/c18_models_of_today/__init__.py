"""Chapter 18, Models of today: what its notebook alone needs.

exercises         softmax with a learned sink for each head
published_models  what a published configuration builds, layer by layer
figures           the layers of several models beside each other
mistakes/         what is known to go wrong in each exercise
claims.toml       what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c18_models_of_today import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("18")
