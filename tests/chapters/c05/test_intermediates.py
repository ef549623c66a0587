"""The table of a derivation: each step held against autograd, and the first wrong one named."""

import pytest
import torch

from chapters.c05_backward_by_hand import intermediates


def test_each_step_of_a_derivation_is_held_against_autograds_and_the_first_wrong_one_is_named():
    """x is used twice on the way to y, so its gradient has two shares."""
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.float64, requires_grad=True)
    total, dy = x.sum(1, keepdim=True), torch.tensor([[1.0, 2.0], [-1.0, 4.0]], dtype=torch.float64)
    steps = {"x": x, "total": total, "y": x * total}
    dtotal = (dy * x).sum(1, keepdim=True)
    right = {"total": dtotal, "x": dy * total + dtotal}
    table = intermediates.gradient_table(right, steps, dy)
    assert [row[:3] for row in table.rows] == [("total", "(2, 1)", "yes"), ("x", "(2, 2)", "yes")]
    for wrong, name in (
        ({"x": dy * total}, "x"),
        ({"total": dtotal * float("nan")}, "total"),
        ({"total": dtotal.squeeze()}, "total"),
    ):
        with pytest.raises(AssertionError, match=f"gradient of {name}"):
            intermediates.gradient_table({**right, **wrong}, steps, dy)


def test_a_name_that_is_no_step_is_refused():
    x = torch.ones(2)
    with pytest.raises(ValueError, match="by_hand"):
        intermediates.gradient_table({"dx": x}, {"x": x}, x)
