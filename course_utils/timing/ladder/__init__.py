"""The ladder of chapters 09 and 10: each operation in every way the course knows, from loops to kernels.

operation.py   what an operation is, and its rungs; measuring.py holds each against float64 and times it
layer_norm.py, rms_norm.py, batch_norm.py, rope.py   an operation each, with a function for each rung
"""

from course_utils.timing.ladder.measuring import (
    OPERATIONS,
    Case,
    CheckFailed,
    Outcome,
    check_and_time,
    new_process,
)
from course_utils.timing.ladder.operation import Implementation, Operation

__all__ = [
    "OPERATIONS",
    "Case",
    "CheckFailed",
    "Implementation",
    "Operation",
    "Outcome",
    "check_and_time",
    "new_process",
]
