"""Chapter 01: standardizing over any dimensions."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import AS_PRINTED, numbers
from course_utils.check.probes import DOUBLE, Call, Probe, integers

__all__ = ["normalize"]


def _normalize(x, dims, eps=1e-5):
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    return (x - mean) / std


def in_turn(x, dims, eps=1e-5):
    for dim in (dims,) if isinstance(dims, int) else dims:
        x = _normalize(x, dim, eps)
    return x


def _over(
    name: str, stage: str, x: Tensor, letters: str, dims, *, eps: float | None = None, **others: Any
) -> Probe:
    epsilon = {} if eps is None else {"eps": eps}
    return Probe(name, stage, Call({"x": x, "dims": dims, **epsilon}, {"x": letters}), **others)


def _averages_three_values(call: Call) -> bool:
    x, dims = call.arguments["x"], call.arguments["dims"]
    return x.numel() >= 3 * x.sum(dims).numel()


normalize = Exercise(
    "normalize",
    _normalize,
    [
        _over("rows of a square table", "statistics", numbers(4, 4, seed=70), "BC", 1),
        _over("a negative dimension", "statistics", numbers(5, 6, seed=71), "BC", -1),
        _over("columns", "statistics", numbers(5, 6, seed=72), "BC", 0),
        _over("both dimensions", "statistics", numbers(3, 4, seed=73), "BC", (0, 1)),
        _over("channels of images", "statistics", numbers(4, 3, 2, 5, seed=74), "BCHW", (0, 2, 3)),
        _over(
            "samples of images", "statistics", numbers(2, 3, 4, 2, seed=75), "BCHW", (-3, -2, -1)
        ),
        _over(
            "the worked number",
            "epsilon",
            torch.tensor([[1.0, 3.0], [5.0, 5.0]]),
            "BC",
            1,
            tolerance=AS_PRINTED,
        ),
        _over("values near 0.001", "epsilon", integers(4, 5, seed=76, scale=2.0**-12), "BC", 1),
        _over("eps=0.5", "epsilon", integers(4, 5, seed=77), "BC", 1, eps=0.5),
        _over("rows of equal values", "epsilon", torch.tensor([[4.0] * 4, [0.0] * 4]), "BC", 1),
        _over("gradient of x", "gradient", integers(3, 4, seed=78), "BC", 1, gradients=("x",)),
        _over(
            "float64", "float64", integers(3, 4, seed=79).double() / 7, "BC", 1, tolerance=DOUBLE
        ),
    ],
    load("normalize", _normalize),
    may_shrink_to=_averages_three_values,
)
