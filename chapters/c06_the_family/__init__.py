"""Chapter 06, The family: what its notebook alone needs.

exercises     group, instance and RMS norm
figures       the family of norms as a map
mistakes/     what is known to go wrong in each exercise
claims.toml   what the chapter claims
probes.toml   what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c06_the_family import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("06")
