"""Layer norm as a plane and a circle, and what it makes of the rows of a trained model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import INK, MUTED, PALETTE, new_figure

__all__ = ["plane_and_circle", "rows_of_a_model"]

# two directions in the plane of mean 0, and one across it
_BASIS = torch.tensor([[1.0, -1, 0], [1, 1, -2], [1, 1, 1]])
_BASIS /= _BASIS.norm(dim=1, keepdim=True)
_PAGE = torch.tensor([[1.0, 0.0], [0.3, 0.5], [0.0, 1.0]])  # where they point on the page


def plane_and_circle() -> Figure:
    """Draw five points of three features on their way to the plane and along it to the circle."""
    turn = torch.tensor([2.6, 2.6, 5.2, 0.4, 0.4])
    radius = torch.tensor([1.0, 1, 2.5, 1, 2.6])
    up = torch.tensor([1.6, -1.5, 1.6, 1.9, 1.2])  # along (1, 1, 1)
    rows = torch.stack([radius * turn.cos(), radius * turn.sin(), up], dim=1) @ _BASIS
    flat = rows - rows.mean(1, keepdim=True)
    ends = flat / flat.square().mean(1, keepdim=True).sqrt()
    angle = torch.linspace(0, 6.2832, 200)[:, None]
    circle = 3**0.5 * (angle.cos() * _BASIS[0] + angle.sin() * _BASIS[1])
    plane = torch.tensor([[3.2, 2.8], [3.2, -2.8], [-3.2, -2.8], [-3.2, 2.8]]) @ _BASIS[:2]

    figure, axes = new_figure(height=3.1, subplot_kw={"aspect": "equal"})
    figure.set_figwidth(5.6)  # so that its words can be read on a phone
    axes.fill(*_drawn(plane), color=PALETTE[0], alpha=0.12, linewidth=0)
    axes.plot(*_drawn(circle), color=MUTED, linewidth=1.6, linestyle="-")
    arrow = {"arrowstyle": "<-", "color": MUTED, "shrinkA": 0, "shrinkB": 0}
    tip = _drawn(2.2 * _BASIS[2])
    axes.annotate("(1, 1, 1)", (0, 0), tip, color=MUTED, ha="center", arrowprops=arrow)
    for path, style, colour in (([rows, flat], ":", PALETTE[0]), ([flat, ends], "-", PALETTE[1])):
        for start, end in zip(*path, strict=True):
            axes.plot(*_drawn(torch.stack([start, end])), color=colour, linestyle=style)
    for points, name, marker, colour, offset in (
        (rows, "x", "o", INK, (9, 0)),
        (flat, "x − μ, centred", "s", PALETTE[0], (9, 0)),
        (ends, "x̂, and scaled", "D", PALETTE[1], (4, -14)),
    ):
        axes.plot(*_drawn(points), marker=marker, color=colour, linestyle="none")
        look = {"textcoords": "offset points", "va": "center", "color": colour}
        axes.annotate(name, [float(at) for at in _drawn(points[-1])], offset, **look)
    axes.annotate("mean 0", (-3.8, -1.3), color=PALETTE[0])
    axes.annotate("variance 1", (-2.9, 0.75), color=MUTED)
    axes.set_axis_off()
    return figure


def _drawn(points: Tensor) -> tuple[Tensor, ...]:
    return (points @ _BASIS.T @ _PAGE).unbind(-1)


def rows_of_a_model(entering: Mapping[int, Tensor], leaving: Mapping[int, Tensor]) -> Figure:
    """Draw the deviation of each row that enters a norm, and the largest entry of what leaves it.

    Args:
        entering: by block, rows (T, C), of which the first is drawn apart.
        leaving: the same rows, normalized.
    """
    figure, (left, right) = new_figure(3.8, ncols=2, sharex=True)
    deviations = [rows.std(-1) for rows in entering.values()]
    largest = [rows.abs().amax(-1) for rows in leaving.values()]
    _dots(left, deviations)
    _dots(right, largest)
    features = next(iter(entering.values())).shape[-1]
    right.axhline((features - 1) ** 0.5, color=MUTED, linewidth=1, linestyle="--")
    right.text(
        -0.4, (features - 1) ** 0.5 + 1, f"the most there can be, √{features - 1}", color=MUTED
    )
    left.set(yscale="log", title="deviation of a row that enters", ylim=(0.05, 4_000))
    right.set(title="largest entry of a row that leaves", ylim=(0, features**0.5 + 4))
    place = (2.1, float(deviations[2][0]))
    left.annotate("token 0", place, (5, 6), textcoords="offset points", color=PALETTE[1])
    left.annotate("31 other tokens", (2.0, 1.5), color=PALETTE[0], ha="center")
    for axes in (left, right):
        axes.set_xticks(range(len(entering)), labels=list(map(str, entering)))
        axes.set_xlabel("block")
        axes.set_xlim(-0.5, len(entering) - 0.3)
    return figure


def _dots(axes: Axes, values: list[Tensor]) -> None:
    for place, of_rows in enumerate(values):
        others = of_rows[1:].numpy()
        aside = np.linspace(-0.18, 0.18, len(others))
        dots: dict[str, Any] = {"linestyle": "none", "markersize": 4, "alpha": 0.7}
        axes.plot(place + aside, others, marker="o", color=PALETTE[0], **dots)
        axes.plot(place, float(of_rows[0]), marker="D", color=PALETTE[1], linestyle="none")
