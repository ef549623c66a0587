"""Chapter 16, Longer context: what its notebook alone needs.

checkpoints          tensors on disk that say what they are
exercises            what a copy costs over a jump; how far a model copies; order and memory
figures              both abilities, against length or steps
hybrid_context       does a model reach further that is trained without some of its rotations?
long_context         what does each way of scaling do to a small model at lengths that it never saw?
long_context_tuning  how fast does a short fine-tune repair each way of scaling?
longrope             LongRoPE's search
longrope_search      does a search over the factors of the pairs beat YaRN's formula?
smollm2_length       what does each way of scaling do to SmolLM2?
smollm2_memory       what does it remember over a jump of positions?
smollm2_agreement    which pairs keep it from that?
reading              rows of the records, selected and paired
widgets              loss and memory of SmolLM2 beside each other
tags                 the task of the long-context experiment, "tags"
probes.toml          what the exercise is tried on
methods.toml         the ways of scaling, as a config has them
mistakes/            what is known to go wrong in each exercise
claims.toml          what the chapter claims
recorded/            what was measured, with where it comes from
"""

from chapters import cached_results_of, checks_of, claims_of, records_of
from chapters.c16_longer_context import exercises

__all__ = ["cached_result", "check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("16")
load = records_of("16")
cached_result = cached_results_of("16")
