"""Chapter 04: one step of a running average, an average without its start, and a pool's statistics
from its parts'."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes

__all__ = ["corrected", "ema", "pooled"]


def _ema(average, value, momentum, convention="torch"):
    new = momentum if convention == "torch" else 1 - momentum
    old = 1 - new
    return old * average + new * value


def _step(average: Any, value: Any, **how: Any) -> Call:
    letters = "RC"[-average.dim() :] if isinstance(average, torch.Tensor) and average.dim() else ""
    axes = {"average": letters, "value": letters} if letters else {}
    return Call({"average": average, "value": value, **how}, axes)


ema = Exercise("ema", _ema, read_probes(__file__, "ema", _step), load("ema", _ema))


def _corrected(values, momentum):
    average, left, results = torch.zeros_like(values[0]), 1.0, []
    for value in values:
        average = (1 - momentum) * average + momentum * value
        left = left * (1 - momentum)
        results.append(average / (1 - left))
    return torch.stack(results)


corrected = Exercise(
    "corrected",
    _corrected,
    read_probes(__file__, "corrected", lambda **how: Call(how, {"values": "TC"})),
    load("corrected", _corrected),
)


def _pooled(counts, means, variances):
    weights = (counts / counts.sum())[:, None]
    mean = (weights * means).sum(0)
    within = (weights * variances).sum(0)
    between = (weights * (means - mean) ** 2).sum(0)
    return mean, within + between


def _parts(counts: Tensor, means: Tensor, variances: Tensor) -> Call:
    axes = {"counts": "B", "means": "BC", "variances": "BC"}
    return Call({"counts": counts, "means": means, "variances": variances}, axes)


pooled = Exercise(
    "pooled",
    _pooled,
    read_probes(__file__, "pooled", _parts),
    load("pooled", _pooled),
    returns=("mean", "variance"),
)
