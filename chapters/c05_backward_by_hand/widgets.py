"""A gradient on its way back through a norm: what of it is taken off, and what comes through.
Chapter 05."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots import grouped_bars
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["gradient_projection"]

NORMS = {"layer": "layer norm", "rms": "RMS norm"}
SHAPES = {
    "free": "as dragged",
    "constant": "a constant",
    "x_hat": "along x̂",
    "both": "a constant and x̂",
}
ROW = (1.2, -0.4, 0.9, 2.1, -1.5, 0.3, -0.8, 1.7)
GRADIENT = (1.9, 0.2, -0.4, 2.6, -0.8, 1.2, 0.5, -1.1)
LIMIT = 3.0  # no bar can be dragged beyond
EPS = 1e-5
STOPS = {"deviation": [0.0001, 0.0003, 0.001, 0.002, 0.00316, 0.005, 0.01, 0.03, 0.1, 1.0, 10.0]}


def gradient_projection(
    norm: str = "layer", shape: str = "free", features: int = 6
) -> CourseWidget:
    """Return a gradient as bars that can be dragged, what a norm takes off it, and what comes
    through.

    Args:
        norm: ``"layer"`` or ``"rms"``.
        shape: ``"free"``, or what to set the gradient to: ``"constant"``, ``"x_hat"`` or
            ``"both"``.
        features: how many values the row has, 2 to 8.
    """
    choices = {"norm": NORMS, "shape": SHAPES, "features": range(2, len(ROW) + 1)}
    chosen = one_of(choices, norm=norm, shape=shape, features=features)
    data = {
        "row": list(ROW),
        "eps": EPS,
        "limit": LIMIT,
        "norms": NORMS,
        "shapes": SHAPES,
        "stops": STOPS,
    }
    return _GradientProjection(
        {"gradient": list(GRADIENT), "deviation": 1.0, **chosen, "picked": 0}, data
    )


class _GradientProjection(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("gradient_projection.js"))

    @property
    def x(self) -> Tensor:
        """The row that was normalized, for layer norm without its mean: (features,), float64."""
        row = torch.tensor(ROW[: self.state["features"]], dtype=torch.float64)
        row = row - row.mean() if self.state["norm"] == "layer" else row
        return row / row.square().mean().sqrt() * self.state["deviation"]

    @property
    def dy(self) -> Tensor:
        """The gradient that arrives: (features,), float64."""
        gradient = torch.tensor(self.state["gradient"], dtype=torch.float64)
        gradient, x_hat = gradient[: self.state["features"]], self._x_hat()
        along_x_hat = 1.5 * x_hat / x_hat.abs().max()
        return {
            "free": gradient,
            "constant": torch.full_like(gradient, 1.5),
            "x_hat": along_x_hat,
            "both": 1 + along_x_hat,
        }[self.state["shape"]]

    def _x_hat(self) -> Tensor:
        return self.x / np.sqrt(self.state["deviation"] ** 2 + EPS)

    def picture(self) -> tuple[Figure, str]:
        norm, shape, deviation = (self.state[name] for name in ("norm", "shape", "deviation"))
        n = self.state["features"]
        x_hat, g = self._x_hat().numpy(), self.dy.numpy()
        constant = g.mean() if norm == "layer" else 0.0
        along = (g * x_hat).mean() * x_hat
        left = g - constant - along  # dx / r
        length, length_left = np.linalg.norm(g), np.linalg.norm(left)
        mean = {"its mean": np.full(n, constant)} if norm == "layer" else {}
        parts = {"g arrives": g, **mean, "its part along x̂": along, "dx / r leaves": left}
        figure = grouped_bars(
            parts, [str(place + 1) for place in range(n)], "gradient", number_format=None
        )
        removed = (
            ("its mean and its part along x̂ are") if norm == "layer" else "its part along x̂ is"
        )
        return figure, (
            f"A gradient of {n} values ({SHAPES[shape]}) on its way back through {NORMS[norm]}, "
            "row of deviation "
            f"{format_number(deviation)}: {removed} taken off, and of a length of {length:.2f} a "
            "length of "
            f"{length_left:.2f} is left."
        )
