"""Where a transformer has its norms: six diagrams of a block; one large number among thousands.
Chapter 07."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from numpy.typing import NDArray

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["block_diagrams", "massive_activation"]

NORM, STREAM = PALETTE[1], PALETTE[0]
# in units of a panel: the stream, the branch beside it, where it leaves and returns
_STREAM, _BRANCH, _LEAVES, _RETURNS, _TOP = 2.0, 6.5, 0.9, 6.5, 9.2
_PLACES = {  # of the boxes of a branch, from below: their heights, and whether each is a norm
    "post": ((3.9, False),),
    "pre": ((2.6, True), (4.9, False)),
    "sandwich": ((1.7, True), (3.6, False), (5.5, True)),
    "after": ((2.9, False), (5.2, True)),
}


def block_diagrams(titles: Sequence[tuple[str, str, str, str]]) -> Figure:
    """Draw six blocks, two in a row: the stream as a thick line from below, the branch beside it,
    norms in colour.

    Args:
        titles: of each block its place, a key of ``_PLACES``, "parallel" or "QK", its name, its
            formula, and what uses it.
    """
    figure, grid = new_figure(8.4, nrows=3, ncols=2)
    figure.set_figwidth(5.6)  # legible on a phone
    for axes, (place, name, formula, used_by) in zip(grid.flat, titles, strict=True):
        axes.set_axis_off()
        axes.set(xlim=(0, 12.5), ylim=(-0.7, 12.3), aspect="equal")
        axes.text(0.2, 11.9, name, weight="bold", fontsize=13, va="center")
        axes.text(0.2, 10.9, formula, fontsize=11.5, va="center")
        axes.text(0.2, 9.95, used_by, color=MUTED, va="center")
        _draw_stream(axes, on_stream=place)
        if place in ("QK", "parallel"):
            (_draw_attention if place == "QK" else _draw_side_by_side)(axes)
            continue
        _draw_line(axes, [(_STREAM, _LEAVES), (_BRANCH, _LEAVES), (_BRANCH, _RETURNS)])
        for height, is_norm in _PLACES[place]:
            if is_norm:
                _draw_box(axes, _BRANCH, height, "norm", is_norm)
            else:
                _draw_box(axes, _BRANCH, height, "attention\nor MLP", is_norm, height=2.1)
    return figure


def massive_activation(stream: NDArray, name: str) -> Figure:
    """Draw the sizes of all numbers of a stream (tokens, features) as ridges, a token behind the
    other, the first in front; ``name`` is written at the largest."""
    tokens, features = stream.shape
    sizes = np.abs(stream)
    largest = sizes.max()
    token, feature = np.unravel_index(sizes.argmax(), sizes.shape)
    figure, axes = new_figure(3.6)
    figure.set_figwidth(5.6)  # legible on a phone
    axes.set_axis_off()
    across = np.arange(features) / features
    depth, aslant = 0.45 / tokens, 0.35 / tokens  # how far a token lies behind the one before it
    for row in reversed(range(tokens)):
        ridge = sizes[row] / largest + depth * row
        axes.fill_between(across + aslant * row, depth * row, ridge, color=PAPER, zorder=-row)
        colour = PALETTE[1] if row == token else PALETTE[0]
        axes.plot(across + aslant * row, ridge, color=colour, lw=0.9, ls="-", zorder=-row)
    peak = across[feature] + aslant * token
    axes.text(peak - 0.02, 1.0, name, ha="right", va="top", weight="bold")
    for place in (0, 200, 400):
        axes.text(place / features, -0.04, str(place), ha="center", va="top", color=MUTED)
    axes.text(0.5, -0.13, "feature", ha="center", va="top")
    end = 1 + aslant * (tokens - 1)
    axes.text(1.02, 0.0, "token 0", va="center", color=PALETTE[1])
    axes.text(end + 0.02, depth * (tokens - 1), f"token {tokens - 1}", va="center")
    axes.set(xlim=(-0.02, end + 0.2), ylim=(-0.2, 1.05))
    return figure


def _draw_stream(axes: Axes, on_stream: str) -> None:
    arrow = {"arrowstyle": "-|>,head_width=0.45,head_length=0.8", "color": STREAM, "linewidth": 4}
    arrow |= {"shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (_STREAM, _TOP), (_STREAM, -0.6), arrowprops=arrow)
    _draw_line(axes, [(_BRANCH, _RETURNS), (_STREAM + 0.45, _RETURNS)], arrow=True)
    axes.add_patch(
        Circle((_STREAM, _RETURNS), 0.42, facecolor=PAPER, edgecolor=INK, lw=2, zorder=3)
    )
    axes.text(_STREAM, _RETURNS - 0.03, "+", fontsize=13, ha="center", va="center", zorder=4)
    if on_stream == "post":
        _draw_box(axes, _STREAM, 7.45, "norm", is_norm=True, width=2.6, height=0.9)


def _draw_side_by_side(axes: Axes) -> None:
    _draw_line(axes, [(_STREAM, _LEAVES), (_BRANCH, _LEAVES), (_BRANCH, 3.3)])
    _draw_line(axes, [(_BRANCH, 5.7), (_BRANCH, _RETURNS)])
    for name, x, width in (("attention", 4.6, 4.2), ("MLP", 8.4, 2.8)):
        _draw_line(axes, [(_BRANCH, 3.3), (x, 3.3), (x, 5.7), (_BRANCH, 5.7)])
        _draw_box(axes, x, 4.5, name, is_norm=False, width=width)
    _draw_box(axes, _BRANCH, 2.2, "norm", is_norm=True)


def _draw_attention(axes: Axes) -> None:
    columns = {"q": 3.7, "k": 6.5, "v": 9.1}
    _draw_line(axes, [(_STREAM, _LEAVES), (_BRANCH, _LEAVES), (_BRANCH, _RETURNS)])
    for name, x in columns.items():
        _draw_line(axes, [(_BRANCH, 2.55), (x, 2.55), (x, 5.6)])
        if name == "v":
            axes.text(x, 4.0, " v ", ha="center", va="center", backgroundcolor=PAPER)
        else:
            axes.text(x - 0.3, 3.0, name, ha="right", va="center")
            _draw_box(axes, x, 4.0, "norm", is_norm=True, width=2.6, height=1.0)
    _draw_box(axes, _BRANCH, 1.6, "norm", is_norm=True, height=1.0)
    _draw_box(axes, _BRANCH, 5.6, "softmax(q·k) v", is_norm=False, width=6.4)


def _draw_box(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    is_norm: bool,
    width: float = 4.8,
    height: float = 1.2,
) -> None:
    corner = (x - width / 2, y - height / 2)
    look: dict[str, Any] = {
        "facecolor": NORM if is_norm else PAPER,
        "edgecolor": NORM if is_norm else INK,
    }
    shape = "round,pad=0,rounding_size=0.25"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, lw=2, zorder=3, **look))
    style: dict[str, Any] = {"color": "white", "weight": "bold"} if is_norm else {"color": INK}
    axes.text(x, y - 0.04, text, ha="center", va="center", zorder=4, **style)


def _draw_line(axes: Axes, points: Sequence[tuple[float, float]], arrow: bool = False) -> None:
    axes.plot(*zip(*points, strict=True), color=INK, lw=1.8, linestyle="-", solid_joinstyle="round")
    if arrow:
        look = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", points[-1], points[-2], arrowprops=look)
