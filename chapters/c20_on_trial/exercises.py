"""Chapter 20: a number for how far an output is from the truth, and rows that tell layers apart."""

import torch
from torch import Tensor

from chapters.c20_on_trial import telling
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Tolerance, read_probes
from course_utils.check.probes import largest_error as course_largest_error

__all__ = ["largest_error", "telling_rows"]

EXACT = Tolerance(1e-9, 1e-12)  # a difference of two numbers in float64, and nothing else


def reference(y, truth):
    difference = y.double() - truth
    error = difference.abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return error.max().item()


def _largest_error(y, truth):
    return course_largest_error(y.double(), truth)


def _outputs(truth: Tensor, y: Tensor | None = None, thirds_in: str = "") -> Call:
    """Return ``y`` beside its truth; without one, thirds of the truth with fewer digits."""
    truth = truth.double()
    if y is None:
        truth = truth / 3 * 100
        y = truth.to(getattr(torch, thirds_in))
    return Call({"y": y, "truth": truth}, {"y": "RC", "truth": "RC"})


largest_error = Exercise(
    "largest_error",
    _largest_error,
    read_probes(__file__, "largest_error", _outputs, EXACT),
    load("largest_error", reference),
    any_dtype=True,
)

telling_rows = Exercise("telling_rows", telling.telling_rows, judge=telling.Judge("telling_rows"))
