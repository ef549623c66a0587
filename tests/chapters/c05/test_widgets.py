"""The widget of chapter 05: the gradient that leaves a norm, and a bar that is moved."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chapters.c05_backward_by_hand import widgets as gradients
from chapters.c05_backward_by_hand.widgets import gradient_projection


def test_what_leaves_is_autograds_gradient_over_r_and_the_parts_add_up(figures):
    widget = gradient_projection()
    for state, answer in figures("gradient_projection", "gradientFigure", 100):
        row = torch.tensor(gradients.ROW[: state["features"]], dtype=torch.float64)
        row = row - row.mean() if state["norm"] == "layer" else row
        x = (row * state["deviation"] / row.square().mean().sqrt()).requires_grad_()
        norm = F.layer_norm if state["norm"] == "layer" else F.rms_norm
        x_hat = norm(x, x.shape, eps=gradients.EPS)
        g = torch.tensor(answer["gradient"], dtype=torch.float64)
        dx = torch.autograd.grad(x_hat, x, g)[0]
        np.testing.assert_allclose(answer["xHat"], x_hat.detach(), atol=1e-12)
        np.testing.assert_allclose(
            answer["left"], dx * (state["deviation"] ** 2 + gradients.EPS) ** 0.5, atol=1e-12
        )
        widget.state = state
        np.testing.assert_allclose(widget.x, x.detach(), atol=1e-12)
        np.testing.assert_allclose(widget.dy, answer["gradient"], atol=1e-12)
        parts = np.add(answer["left"], answer["along"]) + answer["constant"]
        np.testing.assert_allclose(parts, answer["gradient"], atol=1e-12)
        arriving = float((g * x_hat.detach()).mean())
        # what epsilon lets through
        assert answer["leftAlong"] == pytest.approx(answer["share"] * arriving, abs=1e-12)
        assert answer["leftLength"] == pytest.approx(np.linalg.norm(answer["left"]), abs=1e-12)
        if state["shape"] == "free":
            assert answer["gradient"] == state["gradient"][: state["features"]]
