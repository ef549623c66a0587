"""Gradients of named intermediates, by hand beside autograd's: which line of a derivation is the first to be wrong."""

from collections.abc import Mapping

import torch
from torch import Tensor

from course_utils.book.tables import Table

__all__ = ["compare"]


def compare(by_hand: Mapping[str, Tensor], steps: Mapping[str, Tensor], dy: Tensor, within: float = 1e-12) -> Table:
    """Return a table of the gradients in ``by_hand`` beside autograd's, and refuse the first that differs.

    Args:
        by_hand: gradients by the names of ``steps``, in the order in which they were derived.
        steps: what the forward pass computed, by name, all in one graph, the result last.
        dy: the gradient of the result.
        within: how far off an element may be.

    Returns:
        A line for each gradient: its shape, whether it has autograd's bits, the largest difference. The caption names
        the steps before the result that have no gradient in ``by_hand``.

    Raises:
        TypeError: ``by_hand`` or ``steps`` is no mapping from names to tensors.
        ValueError: ``by_hand`` has no gradients, or one of something that is no step.
        AssertionError: a gradient has another shape, or is off by more; the message names it.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> square = x * x
    >>> compare({"square": torch.ones(2), "x": 2 * x}, {"x": x, "square": square, "y": square + 1}, torch.ones(2))
    Gradients by hand, beside autograd's
    gradient  shape  same bits  largest difference
    --------  -----  ---------  ------------------
    square    (2,)   yes                         0
    x         (2,)   yes                         0
    """
    _require_tensors("by_hand", by_hand)
    _require_tensors("steps", steps)
    if not by_hand or not by_hand.keys() <= steps.keys():
        known, given = ", ".join(steps), ", ".join(map(repr, by_hand)) or "none"
        raise ValueError(f"by_hand must have gradients of some of {known}: got {given}")
    *before, result = steps
    expected = torch.autograd.grad(steps[result], [steps[name] for name in by_hand], dy, retain_graph=True)
    rows = []
    for (name, mine), truth in zip(by_hand.items(), expected, strict=True):
        if mine.shape != truth.shape:
            raise AssertionError(f"gradient of {name}: shape {tuple(mine.shape)}, expected {tuple(truth.shape)}")
        largest = (mine - truth).abs().nan_to_num(nan=float("inf")).max().item()
        if not largest <= within:
            raise AssertionError(f"gradient of {name}: off by {largest:.3g}, expected within {within:g}")
        rows.append((name, str(tuple(mine.shape)), "yes" if torch.equal(mine, truth) else "no", largest))
    missing = [name for name in before if name not in by_hand]
    caption = "Gradients by hand, beside autograd's" + (f"; missing: {', '.join(missing)}" if missing else "")
    return Table(("gradient", "shape", "same bits", "largest difference"), rows, caption)


def _require_tensors(argument: str, named: Mapping[str, Tensor]) -> None:
    if not isinstance(named, Mapping):
        raise TypeError(f"{argument} must be a mapping from names to tensors: got {named!r}")
    for name, value in named.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{argument} must hold tensors: got {value!r} for {name!r}")
