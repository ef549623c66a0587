"""Chapter 05, Backward by hand: what its notebook alone needs.

exercises      the backward passes of layer, batch and RMS norm
intermediates  gradients of named intermediates, by hand beside autograd's
widgets        a gradient on its way back through a norm
mistakes/      what is known to go wrong in each exercise
claims.toml    what the chapter claims
probes.toml    what is tried in each exercise
gpu.jsonl      what the notebook measured on a GPU
"""

from chapters import checks_of, claims_of, gpu_results_of
from chapters.c05_backward_by_hand import exercises

__all__ = ["check", "claims", "gpu_result"]

check = checks_of(exercises)
claims = claims_of("05")
gpu_result = gpu_results_of("05")
