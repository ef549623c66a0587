"""Chapter 18, Models of today: what its notebook alone needs.

exercises         three keys to a frequency; the receptive field of a stack; the mask of packed
                  documents; softmax with a sink
published_models  what a published configuration builds, layer by layer
figures           the layers of several models; masks, reach and the gate of a sink
widgets           two models, and what the last token sees in a layer of each
mistakes/         what is known to go wrong in each exercise
claims.toml       what the chapter claims
layers.json       the layers of all models of the chapter, as they were read
real_model.jsonl  what SmolLM2 says, for those who lack it
"""

from chapters import cached_results_of, checks_of, claims_of
from chapters.c18_models_of_today import exercises

__all__ = ["cached_result", "check", "claims"]

check = checks_of(exercises)
claims = claims_of("18")
cached_result = cached_results_of("18")
