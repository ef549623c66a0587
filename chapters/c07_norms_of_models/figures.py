"""Where a transformer has its norms: six diagrams of a block. Chapter 07."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["block_diagrams"]

NORM, STREAM = PALETTE[1], PALETTE[0]
# in units of a panel: the stream, the branch beside it, where it leaves and returns
_STREAM, _BRANCH, _LEAVES, _RETURNS, _TOP = 2.0, 6.5, 0.9, 6.5, 8.6
_PLACES = {  # of the boxes of a branch, from below: their heights, and whether each is a norm
    "post": ((3.9, False),),
    "pre": ((2.6, True), (4.9, False)),
    "sandwich": ((1.9, True), (3.6, False), (5.3, True)),
    "peri": ((1.9, True), (3.6, False), (5.3, True)),
    "after": ((2.9, False), (5.2, True)),
}


def block_diagrams(titles: Sequence[tuple[str, str, str, str]]) -> Figure:
    """Draw six blocks, two in a row: the stream as a thick line from below, the branch beside it,
    norms in colour.

    Args:
        titles: of each block its place, a key of ``_PLACES`` or "QK", its name, its formula, and
            what uses it.
    """
    figure, grid = new_figure(12.2, nrows=3, ncols=2)
    for axes, (place, name, formula, used_by) in zip(grid.flat, titles, strict=True):
        axes.set_axis_off()
        axes.set(xlim=(0, 10), ylim=(-0.7, 10.7), aspect="equal")
        axes.text(0.2, 10.3, name, weight="bold", fontsize=16, va="center")
        axes.text(9.9, 10.3, formula, fontsize=13, va="center", ha="right")
        axes.text(0.2, 9.5, used_by, color=MUTED, fontsize=13, va="center")
        _draw_stream(axes, on_stream=place)
        if place == "QK":
            _draw_attention(axes)
            continue
        _draw_line(axes, [(_STREAM, _LEAVES), (_BRANCH, _LEAVES), (_BRANCH, _RETURNS)])
        for height, is_norm in _PLACES[place]:
            _draw_box(axes, _BRANCH, height, "norm" if is_norm else "attention\nor MLP", is_norm)
    return figure


def _draw_stream(axes: Axes, on_stream: str) -> None:
    arrow = {"arrowstyle": "-|>,head_width=0.45,head_length=0.8", "color": STREAM, "linewidth": 5}
    arrow |= {"shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (_STREAM, _TOP), (_STREAM, -0.6), arrowprops=arrow)
    _draw_line(axes, [(_BRANCH, _RETURNS), (_STREAM + 0.45, _RETURNS)], arrow=True)
    axes.add_patch(
        Circle((_STREAM, _RETURNS), 0.42, facecolor=PAPER, edgecolor=INK, lw=2, zorder=3)
    )
    axes.text(_STREAM, _RETURNS - 0.03, "+", fontsize=18, ha="center", va="center", zorder=4)
    if on_stream == "post":
        _draw_box(axes, _STREAM, 7.45, "norm", is_norm=True, width=2.6, height=0.9)
    if on_stream == "peri":  # once, on what the embedding gives
        _draw_box(axes, _STREAM, -0.15, "norm", is_norm=True, width=2.6, height=0.9)
        axes.text(_STREAM + 1.6, -0.15, "once, on the embedding", fontsize=13, va="center")


def _draw_attention(axes: Axes) -> None:
    columns = {"q": 4.6, "k": 6.5, "v": 8.4}
    _draw_line(axes, [(_STREAM, _LEAVES), (_BRANCH, _LEAVES), (_BRANCH, _RETURNS)])
    for name, x in columns.items():
        _draw_line(axes, [(_BRANCH, 2.55), (x, 2.55), (x, 5.6)])
        if name == "v":
            axes.text(x, 4.0, " v ", fontsize=14, ha="center", va="center", backgroundcolor=PAPER)
        else:
            axes.text(x - 0.3, 3.0, name, fontsize=14, ha="right", va="center")
            _draw_box(axes, x, 4.0, "norm", is_norm=True, width=1.7, height=1.0)
    _draw_box(axes, _BRANCH, 1.6, "norm", is_norm=True, height=1.0)
    _draw_box(axes, _BRANCH, 5.6, "softmax(q·k) v", is_norm=False)


def _draw_box(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    is_norm: bool,
    width: float = 4.8,
    height: float = 1.3,
) -> None:
    corner = (x - width / 2, y - height / 2)
    look: dict[str, Any] = {
        "facecolor": NORM if is_norm else PAPER,
        "edgecolor": NORM if is_norm else INK,
    }
    shape = "round,pad=0,rounding_size=0.25"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, lw=2, zorder=3, **look))
    style: dict[str, Any] = {"color": "white", "weight": "bold"} if is_norm else {"color": INK}
    axes.text(x, y - 0.04, text, fontsize=13, ha="center", va="center", zorder=4, **style)


def _draw_line(axes: Axes, points: Sequence[tuple[float, float]], arrow: bool = False) -> None:
    axes.plot(*zip(*points, strict=True), color=INK, lw=1.8, linestyle="-", solid_joinstyle="round")
    if arrow:
        look = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", points[-1], points[-2], arrowprops=look)
