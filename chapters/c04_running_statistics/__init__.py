"""Chapter 04, Running statistics: what its notebook alone needs.

exercises    one step of a running average, an average without its start, pooled statistics
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
"""

from chapters import cached_results_of, checks_of, claims_of
from chapters.c04_running_statistics import exercises

__all__ = ["cached_result", "check", "claims"]

check = checks_of(exercises)
claims = claims_of("04")
cached_result = cached_results_of("04")
