"""Chapter 10, Where the time goes: what its notebook alone needs.

bench        the command ``course bench``
exercises    the rate of a call, the fewest bytes and the least time of a norm, what a call waits
             for, what a norm keeps for its backward pass, where in a trace nothing runs, when a
             queue of kernels is done
figures      the figures of the chapter on time
ladder/      the ladder of each operation in every way the course knows, from loops to kernels
on_gpu       launches and kernels on a GPU: one by one, in a graph, in a trace
records      results of the ladder that were measured elsewhere, with where they come from
widgets      a layer norm's bytes and operations on this machine, and what they take at least;
             kernels that wait for their launch
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
recorded/    what was measured, with where it comes from
gpu.jsonl    what the notebook measured on a GPU
probes.toml  what is tried in each exercise
cases.toml   the operations, shapes and dtypes that ``course bench`` measures
"""

from chapters import checks_of, claims_of, gpu_results_of
from chapters.c10_where_the_time_goes import exercises

__all__ = ["check", "claims", "gpu_result"]

check = checks_of(exercises)
claims = claims_of("10")
gpu_result = gpu_results_of("10")
