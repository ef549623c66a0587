"""Chapter 15: how many dimensions make a whole turn in a window."""

import math

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, Probe

__all__ = ["critical_dimension"]


def _critical_dimension(head_dim, base, window):
    # solves window · base^(-2i/D) = 2π for i
    pairs = head_dim / 2 * math.log(window / (2 * math.pi), base)
    return min(head_dim, max(0, 2 * math.ceil(pairs)))


def _turning(stage: str, head_dim: int, base: float, window: int) -> Probe:
    name = f"D = {head_dim}, base {base:,g}, {window:,} tokens"
    return Probe(
        name, stage, Call({"head_dim": head_dim, "base": base, "window": window}), tolerance=COUNTED
    )


critical_dimension = Exercise(
    "critical_dimension",
    _critical_dimension,
    [
        _turning("models", 32, 100.0, 128),
        _turning("models", 128, 10_000.0, 4096),
        _turning("models", 128, 500_000.0, 8192),
        _turning("models", 64, 10_000.0, 2048),
        _turning("models", 64, 10_000.0, 20),
        _turning("edges", 8, 10.0, 4096),
        _turning("edges", 8, 10.0, 1),
        _turning("edges", 32, 100.0, 7),
    ],
    load("critical_dimension", _critical_dimension),
    may_shrink_to=lambda call: call.arguments["head_dim"] > 1 and call.arguments["window"] > 1,
)
