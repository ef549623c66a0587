"""Chapter 00, Start here: what its notebook alone needs.

exercises    centring the rows of a table
figures      the map of the course
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c00_start_here import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("00")
