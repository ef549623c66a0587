"""Chapter 13, Why position: what its notebook alone needs.

exercises      sinusoids, the matrix that shifts them, ALiBi's slopes and its bias
probes.toml    what they are tried on
extrapolation  trained on 32 tokens, tested on up to 512
reading        a model that reads text, with four encodings
figures        the sinusoidal code, drawn
widgets        codes of a position to drag, and what an encoding tells attention by distance
mistakes/      what is known to go wrong in each exercise
claims.toml    what the chapter claims
recorded/      what was measured, with where it comes from
"""

from chapters import checks_of, claims_of, records_of
from chapters.c13_why_position import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("13")
load = records_of("13")
