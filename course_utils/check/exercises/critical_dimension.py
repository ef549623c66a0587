"""Chapter 14: how many dimensions complete a whole turn inside the trained window (Shang et al. 2025, §2)."""

import math

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["critical_dimension"]


def _critical_dimension(head_dim, base, window):
    pairs = head_dim / 2 * math.log(window / (2 * math.pi), base)  # solves window · base^(-2k/D) = 2π for k
    return min(head_dim, max(0, 2 * math.ceil(pairs)))


def _probe(stage: str, head_dim: int, base: float, window: int) -> Probe:
    name = f"D = {head_dim}, base {base:,g}, {window:,} tokens"
    call = Call({"head_dim": head_dim, "base": base, "window": window})
    return Probe(name, stage, call, tolerance=Tolerance(0.0, 1e-9))  # dimensions are counted


critical_dimension = Check(
    "critical_dimension",
    _critical_dimension,
    [
        _probe("models", 32, 100.0, 128),
        _probe("models", 128, 10_000.0, 4096),
        _probe("models", 128, 500_000.0, 8192),
        _probe("models", 64, 10_000.0, 2048),
        _probe("models", 64, 10_000.0, 20),
        _probe("edges", 8, 10.0, 4096),
        _probe("edges", 8, 10.0, 1),
        _probe("edges", 32, 100.0, 7),
    ],
    load("critical_dimension", _critical_dimension),
    is_possible=lambda call: call.arguments["head_dim"] > 1 and call.arguments["window"] > 1,
)
