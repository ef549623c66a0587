"""Chapter 00: centring the rows of a table."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import DOUBLE, Call, Probe, integers

__all__ = ["centre"]


def _centre(x):
    return x - x.mean(-1, keepdim=True)


def _table(name: str, stage: str, x: Tensor, **others: Any) -> Probe:
    return Probe(name, stage, Call({"x": x}, {"x": "BC"}), **others)


centre = Exercise(
    "centre",
    _centre,
    [
        _table("the worked number", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])),
        _table("two rows of three", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 40.0]])),
        _table("four rows of four", "values", integers(4, 4, seed=60)),
        _table("five rows of six", "values", integers(5, 6, seed=61)),
        _table("gradient of x", "gradient", integers(3, 4, seed=62), gradients=("x",)),
        _table("float64", "float64", integers(3, 4, seed=63).double() / 7, tolerance=DOUBLE),
    ],
    load("centre", _centre),
    may_shrink_to=lambda call: call.arguments["x"].shape[1] >= 3,
)
