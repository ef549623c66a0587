"""Rows that tell five layer norms apart, and the judge of who finds them (chapter 20)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from chapters.c20_on_trial.writeup_layer_norms import LAYERS
from course_utils.check.report import Report
from course_utils.check.sandbox import Sandbox, describe_error

__all__ = ["Judge", "telling_rows"]

WIDTH = 64
APART = 0.05  # far beyond rounding, and a twentieth of the spread that a norm makes


def telling_rows() -> Tensor:
    """Return rows (2, 64) on which no two of the five layers agree: quiet ones for ε and its place,
    and some far from zero for a variance that is the difference of two large numbers."""
    alternating = torch.tensor([1.0, -1.0]).repeat(WIDTH // 2)
    return torch.stack([1e-4 * alternating, 1e4 + alternating])


@dataclass(frozen=True)
class Judge:
    """Judges rows by the outputs of every two layers; of two that agree it says on what."""

    name: str

    def __call__(self, function: Callable[[], Any], sandbox: Sandbox) -> Report:
        """Return whether every two layers part by 0.05 somewhere, one's NaN included."""
        outcome = sandbox.call(function)
        if outcome.error is not None:
            return self._report(f"It fails: {describe_error(outcome.error)}.")
        rows = outcome.value
        if complaint := _complaint(rows):
            return self._report(complaint)
        outputs = {name: layer(rows, (WIDTH,)) for name, layer in LAYERS.items()}
        alike = [
            (one, other)
            for one, other in combinations(LAYERS, 2)
            if _gap(outputs[one], outputs[other]) < APART
        ]
        if not alike:
            return self._report("", "No two of the five agree.")
        agree = ", ".join(f"{first} and {second}" for first, second in alike)
        who = "all five" if len(alike) == 10 else agree
        return self._report(f"Within {APART} on every row: {who}. {_why(rows, *alike[0])}")

    def _report(self, against: str, right: str = "") -> Report:
        return Report(self.name, passed=not against, attempted=True, message=against or right)


def _complaint(rows: Any) -> str:
    """Return why these are no rows for the five layers, or nothing."""
    asked = f"a float32 tensor of shape (B, {WIDTH})"
    if not isinstance(rows, Tensor):
        return f"It must return {asked}: got {type(rows).__name__}."
    if rows.dtype != torch.float32 or rows.ndim != 2 or rows.shape[1] != WIDTH or not len(rows):
        dtype = str(rows.dtype).removeprefix("torch.")
        return f"It must return {asked}: got {dtype} of shape {tuple(rows.shape)}."
    if not rows.isfinite().all():
        return (
            "Rows that hold NaN or infinity are wrong in every layer: all numbers must be finite."
        )
    return ""


def _gap(first: Tensor, second: Tensor) -> float:
    """Return how far two outputs are apart; infinity where only one of them is NaN."""
    is_alike = (first == second) | (first.isnan() & second.isnan())
    gap = (first - second).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return gap.masked_fill(is_alike, 0.0).max().item()


def _why(rows: Tensor, one: str, other: str) -> str:
    """Return what two layers that agree divide by."""
    if not rows.std(-1, correction=0).any():
        return "In a constant row nothing is left to divide but the rounding of its mean, if that."
    layers = LAYERS[one], LAYERS[other]
    told = (f"{layer.source}, {layer.formula} with ε = {layer.eps:g}" for layer in layers)
    return f"Take {', and '.join(told)}: at which σ, or which μ, do these two part?"
