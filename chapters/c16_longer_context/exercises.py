"""Chapter 16: how many dimensions make a whole turn in a window."""

import math

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, read_probes

__all__ = ["critical_dimension"]


def _critical_dimension(head_dim, base, window):
    # solves window · base^(-2i/D) = 2π for i
    pairs = head_dim / 2 * math.log(window / (2 * math.pi), base)
    return min(head_dim, max(0, 2 * math.ceil(pairs)))


critical_dimension = Exercise(
    "critical_dimension",
    _critical_dimension,
    read_probes(__file__, "critical_dimension", tolerance=COUNTED, plain=True),
    load("critical_dimension", _critical_dimension),
    may_shrink_to=lambda call: call.arguments["head_dim"] > 1 and call.arguments["window"] > 1,
)
