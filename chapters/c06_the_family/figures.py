"""Six norms as blocks of values: which of them share a statistic with one that is touched.
Chapter 06."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["norm_blocks"]

SHARED, TOUCHED = PALETTE[5], PALETTE[1]
# in units of a value's width: the next channel, the next position, the next sample
_RIGHT, _DOWN, _BACK = np.array([1.0, 0.0]), np.array([0.0, -0.85]), np.array([0.5, 0.36])
# the left upper corners of the blocks; of the arrows to the next: tail, head, words
_CORNERS = tuple(
    13.7 * column * _RIGHT - np.array([0.0, 9.2 * row])
    for row, column in ((0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1))
)
_ARROWS = (
    ((9.7, -1.0), (12.1, -1.0), (10.7, 0.4), "center"),
    ((16.0, -3.9), (16.0, -5.3), (16.5, -4.6), "left"),
    ((12.1, -10.2), (9.7, -10.2), (10.7, -8.8), "center"),
    ((4.0, -13.1), (4.0, -14.5), (4.5, -13.8), "left"),
    ((9.7, -19.4), (12.1, -19.4), (10.7, -18.0), "center"),
)


def norm_blocks(
    moved: Mapping[str, ArrayLike], notes: Mapping[str, str], steps: Sequence[str]
) -> Figure:
    """Draw six blocks of values as a snake, channels to the right, positions down, samples to the
    back, after figure 2 of Wu and He 2018.

    Args:
        moved: of each norm, in the order of the walk, which values move when the last channel's
            first position in the first sample is touched, bool (N, C, P).
        notes: what stands below a name.
        steps: what turns each into the next, five.
    """
    figure, axes = new_figure(6.3)
    figure.set_figwidth(5.6)  # legible on a phone
    axes.set_axis_off()
    axes.set(xlim=(-1.0, 22.9), ylim=(-22.0, 3.9), aspect="equal")
    for (name, values), corner in zip(moved.items(), _CORNERS, strict=True):
        _draw_block(axes, np.asarray(values), corner)
        x, y = corner + np.array([4.0, 2.0])
        axes.text(x, y + 1.2, name, ha="center", weight="bold", fontsize=12.5)
        axes.text(x, y + 0.2, notes[name], ha="center", color=MUTED)
    for (tail, head, place, align), words in zip(_ARROWS, steps, strict=True):
        look = {"arrowstyle": "-|>,head_width=0.4,head_length=0.7", "color": INK, "linewidth": 2}
        axes.annotate("", head, tail, arrowprops=look)
        axes.text(place[0], place[1], words, ha=align, va="center")
    return figure


def _draw_block(axes: Axes, moved: NDArray, corner: NDArray) -> None:
    samples, channels, positions = moved.shape
    for n in reversed(range(samples)):  # the top, and the right side
        start = corner + n * _BACK
        for c in range(channels):
            _draw_face(axes, start + c * _RIGHT, _RIGHT, _BACK, moved[n, c, 0])
        for p in range(positions):
            _draw_face(axes, start + channels * _RIGHT + p * _DOWN, _DOWN, _BACK, moved[n, -1, p])
    for c in range(channels):
        for p in range(positions):
            _draw_face(axes, corner + c * _RIGHT + p * _DOWN, _RIGHT, _DOWN, moved[0, c, p])
    touched = corner + (channels - 0.5) * _RIGHT + 0.5 * _DOWN
    axes.plot(*touched, marker="o", markersize=7.5, color=TOUCHED, zorder=5)
    (left, top), (_, bottom) = corner, corner + positions * _DOWN
    style: dict[str, Any] = {"color": MUTED}
    middle = (left + channels / 2, (top + bottom) / 2)
    axes.text(middle[0], bottom - 0.25, "channels", ha="center", va="top", **style)
    upright: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center"}
    axes.text(left - 0.25, middle[1], "positions", **upright, **style)
    slanted: dict[str, Any] = {"rotation": 36, "rotation_mode": "anchor", "va": "center"}
    axes.text(left + channels + 0.55, bottom - 0.15, "samples", **slanted, **style)


def _draw_face(axes: Axes, corner: NDArray, one: NDArray, other: NDArray, is_shared: bool) -> None:
    points = [corner, corner + one, corner + one + other, corner + other]
    colour = SHARED if is_shared else PAPER
    axes.add_patch(Polygon(points, facecolor=colour, edgecolor=INK, linewidth=0.9))
