"""How long things take and what they move.

timers.py     the time of a call: of single runs, in turns with what it is compared with
roofline.py   what a machine can do at most
dispatch.py   the operators of a call, the bytes that they move, and what is kept for the backward
              pass
"""

from course_utils.rooms import submodules
from course_utils.timing.dispatch import Step, nesting, saved_bytes, traffic
from course_utils.timing.roofline import Roofline
from course_utils.timing.timers import (
    Timing,
    copy_bandwidth,
    forward_and_backward,
    keep_freed_memory,
    measure,
    measure_in_turns,
)

__all__ = [
    "Roofline",
    "Step",
    "Timing",
    "copy_bandwidth",
    "forward_and_backward",
    "keep_freed_memory",
    "measure",
    "measure_in_turns",
    "nesting",
    "saved_bytes",
    "traffic",
]

__getattr__ = submodules(__name__)
