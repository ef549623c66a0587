"""Chapter 12, Scan: what its notebook alone needs.

exercises     a linear recurrence, all steps at once
rnn_time      how does the time of a recurrent network grow with the length?
widgets       the rounds in which a row of steps is joined
mistakes/     what is known to go wrong in each exercise
claims.toml   what the chapter claims
recorded/     what was measured, with where it comes from
studies.toml  which studies there are, and the settings of their runs
probes.toml   what is tried in each exercise
gpu.jsonl     what the notebook measured on a GPU
"""

from chapters import checks_of, claims_of, gpu_results_of, records_of
from chapters.c12_scan import exercises

__all__ = ["check", "claims", "gpu_result", "load"]

check = checks_of(exercises)
claims = claims_of("12")
load = records_of("12")
gpu_result = gpu_results_of("12")
