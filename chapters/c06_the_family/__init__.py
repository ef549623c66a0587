"""Chapter 06, The family: what its notebook alone needs.

copying      do QK norm and dynamic tanh do for a small transformer what their papers say
exercises    group, instance and RMS norm
figures      the family of norms as a map
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
recorded/    what was measured, with where it comes from
"""

from chapters import cached_results_of, checks_of, claims_of, records_of
from chapters.c06_the_family import exercises

__all__ = ["cached_result", "check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("06")
load = records_of("06")
cached_result = cached_results_of("06")
