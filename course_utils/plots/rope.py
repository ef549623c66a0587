"""Rotary embeddings drawn: clocks beside the score, and the bound of RoFormer's §3.4.3 beside scores."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Wedge
from numpy.typing import ArrayLike

from course_utils.plots.style import DASHES, INK, MUTED, PALETTE, PAPER, as_series, new_figure

__all__ = ["attenuation", "rope_clocks"]

_NUMBERED = 16  # clocks; more are too small to stand numbers beside


def rope_clocks(state: Any, data: Any) -> Figure:
    """Draw a clock for each pair, with a hand for the key and one for the query, beside the score by distance.

    Args:
        state: a ``ClockState``.
        data: what ``widgets.rope_clocks_figure(state)`` returns.
    """
    figure, (clocks, scores) = new_figure(height=3.6, ncols=2)
    _draw_clocks(clocks, state, data)
    scores.plot(data.scores, color=PALETTE[2], linewidth=2 if state.reach <= 64 else 1)
    scores.axvline(state.distance, color=MUTED, linestyle=":", linewidth=1.2)
    scores.plot(state.distance, data.score, marker="o", color=INK)
    scores.set(ylim=(-1.05, 1.05), xlim=(0, state.reach))
    scores.set(title="score, as a share of |q||k|", xlabel="distance (positions)")
    return figure


def attenuation(bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike], title: str = "") -> Figure:
    """Draw the mean of |S_j| by distance in one panel, and scores as shares of |q||k| in the other.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...
        title: one line above the figure.

    Raises:
        ValueError: curves of one panel differ in length.
    """
    figure, (left, right) = new_figure(height=3.9, ncols=2)
    _draw_lines(left, bound, first_colour=0)
    _draw_lines(right, scores, first_colour=2)
    left.set(xlabel="distance (positions)", ylabel="mean of |Sⱼ|", title="the bound", ylim=(0, None))
    right.set(xlabel="distance (positions)", ylabel="score / (|q||k|)", title="scores", ylim=(-1.05, 1.05))
    figure.suptitle(title)
    return figure


def _draw_lines(axes: Axes, curves: Mapping[str, ArrayLike], first_colour: int) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    for number, (name, values) in enumerate(curves.items()):
        look = {"color": PALETTE[(first_colour + number) % len(PALETTE)], "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(as_series(name, values, length), label=name, linewidth=1.4, **look)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.1), borderaxespad=0.2, fontsize=9.5)
    axes.title.set_visible(True)


def _draw_clocks(axes: Axes, state: Any, data: Any) -> None:
    count = len(data.theta)
    columns = 1 << math.ceil(math.log2(count) / 2)  # counts are powers of two: full rows
    for k, (key, query, between) in enumerate(zip(data.key, data.query, data.between, strict=True)):
        x, y, radius = k % columns, -(k // columns) * 1.2, 0.44
        start, stop = np.degrees(key), np.degrees(key + between)
        axes.add_patch(Wedge((x, y), radius, start, stop, facecolor=PALETTE[5], alpha=0.45, linewidth=0))
        edge, width = (INK, 2.2) if k == state.picked else (MUTED, 1.0)
        axes.add_patch(Circle((x, y), radius, fill=False, edgecolor=edge, linewidth=width))
        for angle, length, colour, dash in ((key, 0.62, PALETTE[1], "--"), (query, 0.88, PALETTE[0], "-")):
            reach = radius * length
            line = axes.plot([x, x + reach * math.cos(angle)], [y, y + reach * math.sin(angle)], dash, color=colour)
            line[0].set_label(("query" if dash == "-" else "key") if k == 0 else None)
        if count <= _NUMBERED:
            weight = "bold" if k == state.picked else "normal"
            axes.text(x, y - 0.6, str(k), ha="center", va="center", fontsize=9, weight=weight)
    axes.set(xlim=(-0.6, columns - 0.4), ylim=(-((count - 1) // columns) * 1.2 - 0.75, 0.6), aspect="equal")
    axes.axis("off")
    axes.set_title("the pairs")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, fontsize=9, facecolor=PAPER)
