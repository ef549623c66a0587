"""Chapter 00: centring the rows of a table."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import DOUBLE, Call, Probe, integers

__all__ = ["centre"]


def reference(x):
    return x - x.mean(-1, keepdim=True)


def _rows(name: str, stage: str, x: Tensor, **others: Any) -> Probe:
    return Probe(name, stage, Call({"x": x}, {"x": "BC"}), **others)


centre = Check(
    "centre",
    reference,
    [
        _rows("the worked number", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])),
        _rows("two rows of three", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 40.0]])),
        _rows("four rows of four", "values", integers(4, 4, seed=60)),
        _rows("five rows of six", "values", integers(5, 6, seed=61)),
        _rows("gradient of x", "gradient", integers(3, 4, seed=62), gradients=("x",)),
        _rows("float64", "float64", integers(3, 4, seed=63).double() / 7, tolerance=DOUBLE),
    ],
    load("centre", reference),
    is_possible=lambda call: call.arguments["x"].shape[1] >= 3,
)
