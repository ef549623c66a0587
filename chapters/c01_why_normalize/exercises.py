"""Chapter 01: standardizing over any dimensions."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes

__all__ = ["normalize"]


def _normalize(x, dims, eps=1e-5):
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    return (x - mean) / std


def _over(x: Tensor, dims: int | Tensor, **eps: float) -> Call:
    sequence_or_number = tuple(dims.tolist()) if isinstance(dims, Tensor) else dims
    return Call({"x": x, "dims": sequence_or_number, **eps}, {"x": "BCHW"[: x.ndim]})


def _averages_three_values(call: Call) -> bool:
    x, dims = call.arguments["x"], call.arguments["dims"]
    return x.numel() >= 3 * x.sum(dims).numel()


normalize = Exercise(
    "normalize",
    _normalize,
    read_probes(__file__, "normalize", _over),
    load("normalize", _normalize),
    may_shrink_to=_averages_three_values,
)
