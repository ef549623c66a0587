"""Lines on logarithmic axes, where NaN, infinity and zero have a place; each line is named where it ends."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import DASHES, INK, MARKERS, MUTED, PALETTE, as_series, new_figure

__all__ = ["error_curves", "signal_by_depth"]


def error_curves(
    x: Sequence[float], curves: Mapping[str, ArrayLike], xlabel: str, ylabel: str, title: str = ""
) -> Figure:
    """Draw errors against ``x``, both logarithmic; NaN and infinity are marked at the top edge, exact zeros below.

    Args:
        x: the positions, increasing; a 0 gets a place of its own at the left.
        curves: what each line is called, and its errors, (len(x),), none negative.
        xlabel: the horizontal quantity with its unit.
        ylabel: the vertical quantity with its unit.
        title: one line above the figure.

    Raises:
        ValueError: a curve's length is not that of ``x``, or an error is negative.
    """
    figure, axes = new_figure()
    positive = [value for value in x if value > 0]
    if len(positive) < len(x):
        axes.set_xscale("symlog", linthresh=min(positive, default=1.0), linscale=0.5)
    else:
        axes.set_xscale("log")
    axes.set_xticks(list(x), labels=[f"{value:,g}" for value in x])
    axes.minorticks_off()
    _draw_log_curves(axes, np.asarray(x, dtype=float), {n: as_series(n, v, len(x)) for n, v in curves.items()})
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return figure


def signal_by_depth(
    curves: Mapping[str, ArrayLike], ylabel: str = "standard deviation of the activations", title: str = ""
) -> Figure:
    """Draw how large the signal is after each layer, on a logarithmic axis with a rule at 1.

    Args:
        curves: what each network is called, and its standard deviation after layers 1, 2, ..., (depth,) each.
        ylabel: the vertical quantity.
        title: one line above the figure.

    Raises:
        ValueError: the networks differ in depth, or a standard deviation is negative.
    """
    figure, axes = new_figure()
    depth = len(np.asarray(next(iter(curves.values()))))
    axes.axhline(1.0, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    lines = {name: as_series(name, values, depth) for name, values in curves.items()}
    _draw_log_curves(axes, np.arange(1.0, depth + 1), lines, mark_every=max(1, depth // 12))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="layer", ylabel=ylabel, title=title)
    return figure


def _draw_log_curves(axes: Axes, x: NDArray, lines: Mapping[str, NDArray], mark_every: int = 1) -> None:
    for name, line in lines.items():
        if (line < 0).any():
            raise ValueError(f"{name!r} must have no negative value on a logarithmic axis: got {line.min():g}")
    low, high, bottom, top = _edges(np.concatenate(list(lines.values())))
    axes.set_yscale("log")
    axes.set_ylim(low, high)

    ends = []
    for series, (name, line) in enumerate(lines.items()):
        colour, dash = PALETTE[series % len(PALETTE)], DASHES[series % len(DASHES)]
        finite = np.isfinite(line)
        shown = np.where(finite, np.maximum(line, bottom), top)
        axes.plot(x, np.where(finite, shown, np.nan), color=colour, linestyle=dash)
        # earlier markers are larger, so that lines on top of each other are all seen
        size = max(5.0, 9.0 - 1.3 * series)
        marker = MARKERS[series % len(MARKERS)]
        axes.plot(
            x,
            shown,
            color=colour,
            marker=marker,
            markersize=size,
            markeredgecolor=INK,  # the palette's lightest colours stand out too little from the card by themselves
            markeredgewidth=0.7,
            markevery=mark_every,
            linestyle="",
        )
        _name_edge_points(axes, x, line, shown, colour)
        ends.append((float(shown[-1]), float(x[-1]), name, colour))
    _label_ends(axes, ends)


def _edges(values: NDArray) -> tuple[float, float, float, float]:
    """Return the axis's limits, and the heights inside them that stand for zero and for NaN or infinity."""
    drawable = values[np.isfinite(values) & (values > 0)]
    low, high = (drawable.min(), drawable.max()) if drawable.size else (0.1, 1.0)
    pad = max((high / low) ** 0.1, 1.3)
    bottom, top = low / pad, high * pad
    low_limit = bottom / pad if (values == 0).any() else bottom
    high_limit = top if np.isfinite(values).all() else top * pad
    return low_limit, high_limit, bottom, top


def _name_edge_points(axes: Axes, x: NDArray, line: NDArray, shown: NDArray, colour: str) -> None:
    """Ring the first point of each kind that stands at an edge, and write what it is."""
    above, beside = (0, 9), (13, -4)
    for text, where, offset in (("NaN", np.isnan(line), above), ("∞", np.isinf(line), above), ("0", line == 0, beside)):
        if not where.any():
            continue
        point = x[where.argmax()], shown[where.argmax()]
        axes.plot(*point, marker="o", markersize=14, markerfacecolor="none", color=colour, linestyle="")
        axes.annotate(text, point, offset, textcoords="offset points", ha="center", weight="bold")


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name to the right of the axes at its end's height, pushed apart where two would touch."""
    low, high = np.log(axes.get_ylim())
    gap = 0.075  # of the axes' height: a line of text
    heights: dict[str, float] = {}
    previous = -gap
    for y, _, name, _ in sorted(ends):
        heights[name] = previous = max((math.log(y) - low) / (high - low), previous + gap)
    overshoot = max(0.0, previous - 1.0)
    for y, x, name, colour in ends:
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(1.04, heights[name] - overshoot),
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 1, "shrinkA": 1, "shrinkB": 5},
        )
