"""Chapter 11, Fused kernels: what its notebook alone needs.

exercises    three Triton kernels, graded in Triton's interpreter
traffic      what a right kernel moves beside what it must
figures      the figures of the chapter on kernels
widgets      the slots of a kernel's program, and what a mask leaves in them
workbench    what one needs to write kernels
compiled     what Triton's compiler makes of a kernel for a GPU that need not be there
on_gpu       a kernel on a GPU, timed, and the GPU's counters of its bytes
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
gpu.jsonl    what the notebook measured on a GPU
"""

from chapters import checks_of, claims_of, gpu_results_of
from chapters.c11_fused_kernels import exercises

__all__ = ["check", "claims", "gpu_result"]

check = checks_of(exercises)
claims = claims_of("11")
gpu_result = gpu_results_of("11")
