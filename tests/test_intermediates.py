"""Gradients of intermediates: the right ones pass, and the first wrong one is named."""

import pytest
import torch

from course_utils.norms import intermediates


def two_uses():
    """x is used twice on the way to y, so its gradient has two shares."""
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.float64, requires_grad=True)
    total = x.sum(1, keepdim=True)
    return {"x": x, "total": total, "y": x * total}


DY = torch.tensor([[1.0, 2.0], [-1.0, 4.0]], dtype=torch.float64)


def by_hand(steps):
    total = (DY * steps["x"]).sum(1, keepdim=True)
    return {"total": total, "x": DY * steps["total"] + total}


def test_right_gradients_come_back_as_a_table_in_the_order_they_were_derived():
    steps = two_uses()
    table = intermediates.compare(by_hand(steps), steps, DY)
    assert [row[:3] for row in table.rows] == [("total", "(2, 1)", "yes"), ("x", "(2, 2)", "yes")]
    assert intermediates.compare(by_hand(steps), steps, DY).rows == table.rows  # the graph is still there


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {**d, "x": d["x"] - d["total"]}, "gradient of x: off by "),
        (lambda d: {**d, "total": d["total"] * float("nan")}, "gradient of total: off by inf"),
        (lambda d: {**d, "total": d["total"].squeeze()}, r"gradient of total: shape \(2,\), expected \(2, 1\)"),
    ],
)
def test_the_first_wrong_gradient_is_named(change, message):
    steps = two_uses()
    with pytest.raises(AssertionError, match=message):
        intermediates.compare(change(by_hand(steps)), steps, DY)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: {}, ValueError, "by_hand must have gradients of some of x, total, y: got none"),
        (lambda d: {**d, "dx": d["x"]}, ValueError, "some of x, total, y: got 'total', 'x', 'dx'"),
        (lambda d: {**d, "x": 1.0}, TypeError, "by_hand must hold tensors: got 1.0 for 'x'"),
        (lambda d: ["x"], TypeError, r"by_hand must be a mapping from names to tensors: got \['x'\]"),
    ],
)
def test_what_is_no_gradient_of_a_step_is_refused(change, error, message):
    steps = two_uses()
    with pytest.raises(error, match=message):
        intermediates.compare(change(by_hand(steps)), steps, DY)


def test_the_caption_names_the_steps_without_a_gradient():
    steps = two_uses()
    caption = "Gradients by hand, beside autograd's"
    assert intermediates.compare(by_hand(steps), steps, DY).caption == caption
    assert intermediates.compare({"x": by_hand(steps)["x"]}, steps, DY).caption == f"{caption}; missing: total"
