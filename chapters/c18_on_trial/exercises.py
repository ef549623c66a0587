"""Chapter 18: a number for how far an output is from the truth, and what it must not overlook."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, integers
from course_utils.check.probes import largest_error as course_largest_error

__all__ = ["largest_error"]

EXACT = Tolerance(1e-9, 1e-12)  # a difference of two numbers in float64, and nothing else


def reference(y, truth):
    error = (y.double() - truth).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return error.max().item()


def _largest_error(y, truth):
    return course_largest_error(y.double(), truth)


def _probe(stage: str, name: str, y: torch.Tensor, truth: torch.Tensor) -> Probe:
    return Probe(
        name, stage, Call({"y": y, "truth": truth}, {"y": "RC", "truth": "RC"}), tolerance=EXACT
    )


def _off_by(error: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an output and its truth that differ in one element, and by a sixteenth in another."""
    truth = integers(4, 6, seed=160).double()
    y = truth.clone()
    y[0, 0] -= 0.0625
    y[1, 2] += error
    return y.float(), truth


_THIRDS = integers(3, 5, seed=161).double() / 3 * 100
_WORKED = torch.tensor([[1.0, -3.0]]), torch.tensor([[1.0, 0.0]], dtype=torch.float64)

largest_error = Exercise(
    "largest_error",
    _largest_error,
    [
        _probe("ordinary outputs", "one element too large by 0.5", *_off_by(0.5)),
        _probe("ordinary outputs", "one element too small by 0.5", *_off_by(-0.5)),
        _probe(
            "ordinary outputs",
            "the columns in another order",
            _off_by(0.5)[0].flip(1),
            _off_by(0.5)[1],
        ),
        _probe("ordinary outputs", "the worked number", *_WORKED),
        _probe("half precision", "thirds, rounded to float16", _THIRDS.half(), _THIRDS),
        _probe("half precision", "thirds, rounded to bfloat16", _THIRDS.bfloat16(), _THIRDS),
        _probe("NaN and infinity", "one element NaN", *_off_by(float("nan"))),
        _probe("NaN and infinity", "one element infinite", *_off_by(float("inf"))),
    ],
    load("largest_error", reference),
    any_dtype=True,
)
