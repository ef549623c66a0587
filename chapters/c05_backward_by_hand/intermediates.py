"""Gradients of named intermediates, by hand beside autograd's: which line of a derivation is the
first to be wrong."""

from collections.abc import Mapping

import torch
from torch import Tensor

from course_utils.table import Table

__all__ = ["gradient_table"]


def gradient_table(
    by_hand: Mapping[str, Tensor], steps: Mapping[str, Tensor], dy: Tensor, within: float = 1e-12
) -> Table:
    """Return a table of the gradients in ``by_hand`` beside autograd's, and refuse the first that
    differs. Chapter 05.

    ``by_hand`` has gradients by the names of ``steps``, in the order in which they were derived;
    ``steps`` are what the forward pass computed, by name, all in one graph, the result last; ``dy``
    is the gradient of the result. The caption names the steps before the result that have no
    gradient in ``by_hand``.

    Raises:
        ValueError: ``by_hand`` has no gradients, or one of something that is no step.
        AssertionError: a gradient has another shape, or an element is off by more than ``within``.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> square = x * x
    >>> steps = {"x": x, "square": square, "y": square + 1}
    >>> gradient_table({"square": torch.ones(2), "x": 2 * x}, steps, dy=torch.ones(2))
    Gradients by hand, beside autograd's
    gradient  shape  same bits  largest difference
    --------  -----  ---------  ------------------
    square    (2,)   yes                         0
    x         (2,)   yes                         0
    """
    if not by_hand or not by_hand.keys() <= steps.keys():
        known, given = ", ".join(steps), ", ".join(map(repr, by_hand)) or "none"
        raise ValueError(f"by_hand must have gradients of some of {known}: got {given}")
    *before, result = steps
    expected = torch.autograd.grad(
        steps[result], [steps[name] for name in by_hand], dy, retain_graph=True
    )
    rows = []
    for (name, mine), truth in zip(by_hand.items(), expected, strict=True):
        if mine.shape != truth.shape:
            raise AssertionError(
                f"gradient of {name}: shape {tuple(mine.shape)}, expected {tuple(truth.shape)}"
            )
        largest = (mine - truth).abs().nan_to_num(nan=float("inf")).max().item()
        if not largest <= within:
            raise AssertionError(
                f"gradient of {name}: off by {largest:.3g}, expected within {within:g}"
            )
        rows.append(
            (name, str(tuple(mine.shape)), "yes" if torch.equal(mine, truth) else "no", largest)
        )
    missing = [name for name in before if name not in by_hand]
    caption = "Gradients by hand, beside autograd's" + (
        f"; missing: {', '.join(missing)}" if missing else ""
    )
    return Table(("gradient", "shape", "same bits", "largest difference"), rows, caption)
