"""The check of chapter 16: one number for how far an output is from the truth, and what it must not overlook."""

import torch

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.comparison import Tolerance
from course_utils.check.comparison import largest_error as _largest_error
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue

__all__ = ["largest_error"]

MISTAKES = Catalogue()
EXACT = Tolerance(1e-9, 1e-12)  # a difference of two numbers in float64, and nothing else


def _to_infinity(error):
    return error.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=torch.inf)


MISTAKES.add(
    "signed",
    "the sign kept",
    "It returns the largest difference with its sign, so an output that is too small everywhere looks right.",
    "One published comparison prints just that: the largest of its differences, beside a list that holds a larger one "
    "below zero.",
    "For y = [0, −3] and a truth of [0, 0], how far off is y?",
    lambda y, truth: _to_infinity(y.double() - truth).max().item(),
    lambda y, truth: (y.double() - truth).max().item(),
    lambda y, truth: _to_infinity(truth - y.double()).max().item(),
    lambda y, truth: (truth - y.double()).max().item(),
)
MISTAKES.add(
    "averaged",
    "an average in place of the largest",
    "It averages over the elements, so one element that is far off is lost among the others.",
    "A bug that strikes one row in a thousand is a bug. An average is a thousandth of it.",
    "A single element of a hundred is off by 1. What do you return?",
    lambda y, truth: _to_infinity((y.double() - truth).abs()).mean().item(),
    lambda y, truth: (y.double() - truth).abs().mean().item(),
    lambda y, truth: (y.double() - truth).square().mean().item(),
    lambda y, truth: (y.double() - truth).square().mean().sqrt().item(),
)
MISTAKES.add(
    "added_up",
    "a sum in place of the largest",
    "It adds up over the elements, so the number grows with the size of the input.",
    "Rounding in a large tensor then looks worse than a mistake in a small one.",
    "Put the same rows in twice. Should the number change?",
    lambda y, truth: (y.double() - truth).abs().sum().item(),
    lambda y, truth: (y.double() - truth).norm().item(),
    lambda y, truth: (y.double() - truth).square().sum().item(),
)
MISTAKES.add(
    "relative",
    "divided by the truth",
    "It divides by the true value, which is zero or nearly so for some elements of a normalized row.",
    "Normalized values lie around zero by design: there a rounding error is as large as the value.",
    "What does it return where the truth is 0?",
    lambda y, truth: _to_infinity((y.double() - truth).abs() / truth.abs()).max().item(),
    lambda y, truth: ((y.double() - truth).abs() / truth.abs()).max().item(),
    lambda y, truth: ((y.double() - truth).abs() / (truth.abs() + 1e-12)).max().item(),
    lambda y, truth: ((y.double() - truth).abs() / truth.abs().max()).max().item(),
)
MISTAKES.add(
    "squared",
    "squared",
    "It returns the square of the error.",
    "An error of 1e-3 then looks like 1e-6, which passes for rounding.",
    "y is off by a tenth. What do you return?",
    lambda y, truth: _to_infinity((y.double() - truth).square()).max().item(),
    lambda y, truth: (y.double() - truth).square().max().item(),
)
MISTAKES.add(
    "rounded_truth",
    "the truth rounded",
    "It makes the truth coarser than float64 before it compares the two.",
    "The judge must know more than the judged: rounded alike, both can be wrong and equal.",
    "y is float16. In which dtype does your subtraction happen?",
    lambda y, truth: _to_infinity((y - truth.to(y.dtype)).abs()).max().item(),
    lambda y, truth: (y - truth.to(y.dtype)).abs().max().item(),
    lambda y, truth: _to_infinity((y - truth.to(y.dtype)).abs().double()).max().item(),
    lambda y, truth: _to_infinity((y.float() - truth.float()).abs()).max().item(),
    lambda y, truth: (y.float() - truth.float()).abs().max().item(),
)
MISTAKES.add(
    "extremes_only",
    "only the extremes compared",
    "It compares the largest values of the two, not the two element by element.",
    "The same numbers in another order would then count as equal.",
    "For y = [1, 2] and a truth of [2, 1], how far off is y?",
    lambda y, truth: (y.double().max() - truth.max()).abs().item(),
    lambda y, truth: (y.double().abs().max() - truth.abs().max()).abs().item(),
)
MISTAKES.add(
    "nan_ignored",
    "NaN left out",
    "Where y is NaN it finds no error at all.",
    "A NaN is the worst that a layer can return. The maximum in plain Python, and comparisons with it, pass it over.",
    "What is the error of y = [NaN, 0] against [0, 0]?",
    lambda y, truth: (y.double() - truth).abs().nan_to_num(nan=0.0, posinf=torch.inf).max().item(),
    lambda y, truth: max([0.0, *(error for error in (y.double() - truth).abs().flatten().tolist() if error == error)]),
    lambda y, truth: (y.double() - truth).abs().nan_to_num().max().item(),
)
MISTAKES.add(
    "nan_returned",
    "NaN returned",
    "For an output with NaN it returns NaN, where infinity is asked for.",
    "NaN is neither above nor below any bound: «error > tolerance» is false, and the layer passes.",
    "What is float('nan') > 1e-5?",
    lambda y, truth: (y.double() - truth).abs().max().item(),
)


def _oracle(y, truth):
    return _largest_error(y.double(), truth)


def _probe(stage: str, name: str, y: torch.Tensor, truth: torch.Tensor) -> Probe:
    return Probe(name, stage, Call({"y": y, "truth": truth}, {"y": "RC", "truth": "RC"}), tolerance=EXACT)


def _off_by(error: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an output and its truth that differ in one element, and by a sixteenth in another."""
    truth = integers(4, 6, seed=160).double()
    y = truth.clone()
    y[0, 0] -= 0.0625
    y[1, 2] += error
    return y.float(), truth


_THIRDS = integers(3, 5, seed=161).double() / 3 * 100

largest_error = Check(
    "largest_error",
    _oracle,
    [
        _probe("ordinary outputs", "one element too large by 0.5", *_off_by(0.5)),
        _probe("ordinary outputs", "one element too small by 0.5", *_off_by(-0.5)),
        _probe("ordinary outputs", "the columns in another order", _off_by(0.5)[0].flip(1), _off_by(0.5)[1]),
        _probe("half precision", "thirds, rounded to float16", _THIRDS.half(), _THIRDS),
        _probe("half precision", "thirds, rounded to bfloat16", _THIRDS.bfloat16(), _THIRDS),
        _probe("NaN and infinity", "one element NaN", *_off_by(float("nan"))),
        _probe("NaN and infinity", "one element infinite", *_off_by(float("inf"))),
    ],
    MISTAKES,
    any_dtype=True,
)
