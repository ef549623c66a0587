"""The sinusoidal code, drawn, and right answers by place."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import (
    MARKERS,
    MUTED,
    line_style,
    marker_style,
    new_figure,
    series_of,
)

__all__ = ["by_place", "sinusoid"]

_SHORT = 0.5  # where texts as long as in training stand on the axis
_LINE_OF_TEXT = 0.08  # of the axis of shares


def sinusoid(code: ArrayLike, pairs: tuple[int, int]) -> Figure:
    """Draw a sinusoidal code as a heat map, and two of its pairs as clocks with the hands of
    positions 1 and 4 and, paler, 21 and 24.

    Args:
        code: (T, dim), T at least 25, sine in the even columns.
        pairs: which pairs of columns get a clock.

    Raises:
        ValueError: the code has not two dimensions, or an odd number of columns.
    """
    values = np.asarray(code, dtype=float)
    if values.ndim != 2 or values.shape[1] % 2:
        raise ValueError(f"code must be (T, dim) with an even dim: got shape {values.shape}")
    figure, grid = new_figure(height=7.2, nrows=2, ncols=2, height_ratios=[1, 1.15])
    upper, clocks = grid[0, 0].get_gridspec(), grid[1]
    for axes in grid[0]:
        axes.remove()
    heat = figure.add_subplot(upper[0, :])
    image = heat.imshow(
        values.T, cmap="cividis", aspect="auto", vmin=-1, vmax=1, interpolation="nearest"
    )
    heat.grid(visible=False)
    heat.set(xlabel="position", ylabel="column", title="the code")
    figure.colorbar(image, ax=heat, label="value", ticks=[-1, 0, 1])
    for axes, pair in zip(clocks, pairs, strict=True):
        _clock(axes, values[:, 2 * pair : 2 * pair + 2])
        axes.set_title(f"columns {2 * pair}, {2 * pair + 1}")
    return figure


def _clock(axes: Axes, pair: NDArray) -> None:
    """Draw (cos, sin) of every position on the circle, and the hands of four of them."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color=MUTED, linewidth=1, linestyle="-")
    axes.plot(pair[:, 1], pair[:, 0], ".", color=MUTED, markersize=4)
    for number, position in enumerate((1, 4, 21, 24)):
        sine, cosine = pair[position]
        later, series = divmod(number, 2)
        look = {**line_style(series), "marker": MARKERS[series], "alpha": 0.45 if later else 1}
        axes.plot([0, cosine], [0, sine], markevery=[1], label=f"position {position}", **look)
        at = (1.19 * cosine, 1.19 * sine)
        axes.text(*at, str(position), color=look["color"], weight="bold", ha="center", va="center")
    axes.set(aspect="equal", xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), xlabel="cosine", ylabel="sine")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])


def by_place(
    rows: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
    ticks: Mapping[float, str],
    guessing: float,
    xlabel: str,
    title: str,
) -> Figure:
    """Draw the share of right answers by place, a line for each encoding, named at its end; a thin
    line from the lowest seed to the highest.

    Args:
        rows: an encoding, a place and what is right there; place 0.5 is a text as long as in
            training, and stands by itself.
        names: what an encoding is called, by default its key.
        ticks: what stands below each place.
        guessing: the share that a guess gets right.
        xlabel: what a place is.
        title: one line above the figure.
    """
    seeds: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        seeds.setdefault(row["encoding"], {}).setdefault(row["place"], []).append(row["right"])
    figure, axes = new_figure(4.6)
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), labels=list(ticks.values()))
    axes.minorticks_off()
    axes.margins(x=0.065)
    axes.set(ylim=(0, 1.05), xlabel=xlabel, ylabel="share of right answers", title=title)
    axes.axvline(0.7, color=MUTED, linewidth=1, linestyle="-")
    axes.axhline(guessing, color=MUTED, linewidth=1, linestyle=":")
    axes.annotate("guessing", (0.72, guessing), (0, 3), textcoords="offset points")
    ends = []
    for series, (encoding, at) in zip(series_of(seeds), seeds.items(), strict=True):
        look = {**line_style(series), **marker_style(series)}
        colour = look["color"]
        axes.vlines(list(at), *zip(*map(_ends, at.values()), strict=True), color=colour, lw=1.2)
        means = {place: fmean(shares) for place, shares in at.items()}
        axes.plot(_SHORT, means.pop(_SHORT), **{**look, "linestyle": ""})
        axes.plot(list(means), list(means.values()), **look)
        ends.append((means[max(means)], names.get(encoding, encoding), look))
    _name_ends(axes, sorted(ends, key=lambda end: end[0]))
    return figure


def _ends(shares: list[float]) -> tuple[float, float]:
    return min(shares), max(shares)


def _name_ends(axes: Axes, ends: list[tuple[float, str, dict[str, Any]]]) -> None:
    """Write names with their markers to the right of the lines' ends, lowest first, pushed apart
    where two would touch."""
    low = 0.0
    for y, name, look in ends:
        low = max(low, y - _LINE_OF_TEXT / 2)
        height = low + _LINE_OF_TEXT / 2
        low += _LINE_OF_TEXT
        look = {**look, "transform": axes.get_yaxis_transform(), "clip_on": False}
        axes.plot([1.05, 1.11], [height] * 2, markevery=[0], **look)
        axes.text(1.13, height, name, va="center", transform=look["transform"])
