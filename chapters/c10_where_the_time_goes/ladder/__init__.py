"""The ladder of chapters 10 and 11: each operation in every way the course knows, from loops to
kernels.

operation.py   what an operation is, and its rungs; measuring.py holds each against float64 and
               times it
layer_norm.py, rms_norm.py, batch_norm.py, rope.py   an operation each, with a function for each
                                                     rung

Records on a CPU also have the row "compiled, tuned": layer and RMS norm written for what the
compiler makes of them. It needed the compiler's internals and is no longer in the course; what it
took to come level with the built-in was this:

- Mean and variance are summed in one go, as E[d²] − E[d]² of the deviations d from the mean of the
  row's first 16 features: a sum waits for its last addition, two sums wait together. Taken of x
  itself the formula cancels; taken of d its error is at most features / 16 times that of two
  passes, wherever the row lies.
- The compiler inlines the reciprocal root into the loop that uses it, and takes it again for every
  16 elements. What is the result of a reduction it computes once: a maximum of the root with
  numbers below it is one.
- The gradient of the weight sums over rows, down a column, a cache line of each of thousands of
  rows: sums of blocks of 8 neighbouring rows come first, then of 16 of those, then the rest.
- ``torch.compile`` makes sure before every call that what it compiled still applies: a fifth of the
  time of the built-in's whole forward pass of (4096, 1024). Looking up sizes, strides and dtypes
  alone is not public.
- What is left: the address of the output (a load waits for an earlier store whose address ends in
  the same 12 bits), and a backward pass that reads x and dy twice, since a sum along the rows and
  one across them are not fused.
"""

from chapters.c10_where_the_time_goes.ladder.measuring import (
    OPERATIONS,
    Case,
    CheckFailed,
    Outcome,
    check_and_time,
    new_process,
    why_no_kernel,
)
from chapters.c10_where_the_time_goes.ladder.operation import Implementation, Operation

__all__ = [
    "OPERATIONS",
    "Case",
    "CheckFailed",
    "Implementation",
    "Operation",
    "Outcome",
    "check_and_time",
    "new_process",
    "why_no_kernel",
]
