"""Chapter 15, Scaling RoPE: what its notebook alone needs.

exercises    the frequencies of scaled RoPE
halved       which pairs of SmolLM2 break it beyond its window?
probes.toml  what they are tried on
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
studies.toml what the study asks, and its settings; recorded/ has what it measured

The methods themselves, YaRN's ramp among them, are course_utils/rope/scaling.py.
"""

from chapters import cached_results_of, checks_of, claims_of, records_of
from chapters.c15_scaling_rope import exercises

__all__ = ["cached_result", "check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("15")
load = records_of("15")
cached_result = cached_results_of("15")
