"""Curves of an experiment with several seeds: the mean as a line, one standard deviation as a band, each seed a dot.

On a logarithmic axis the band spans the seeds: a mean less its standard deviation may be below zero there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.plots.style import DASHES, INK, MARKERS, PALETTE, new_figure

__all__ = ["spread_curves"]


def spread_curves(
    rows: Iterable[Mapping[str, Any]],
    x: str,
    y: str,
    by: str,
    *,
    xlabel: str,
    ylabel: str = "",
    title: str = "",
    labels: Mapping[Any, str] | None = None,
    panels: str | None = None,
    share_y: bool = True,
    log_x: bool = False,
    log_y: bool = False,
    height: float = 4.2,
) -> Figure:
    """Draw the field ``y`` against the field ``x``, one line for each value of ``by``.

    Args:
        rows: the runs, such as ``experiments.Rows``; rows that agree in ``x`` and ``by`` are seeds of one point.
        x: a field that holds a number; with ``log_x`` the values themselves are the ticks.
        y: a field that holds a number.
        by: the field that tells the lines apart.
        xlabel: the horizontal quantity with its unit.
        ylabel: the vertical quantity with its unit; panels with scales of their own are labelled by their values.
        title: one line above the figure.
        labels: what a value of ``by`` is called; by default the value itself.
        panels: a field each value of which gets axes of its own, side by side.
        share_y: whether the panels have one vertical scale; if not, the value of ``panels`` names the quantity.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is logarithmic; the band then spans the seeds.
        height: of the figure, in inches.

    Raises:
        ValueError: there are no rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("rows must hold at least one run: got none")
    parts = _different(rows, panels) if panels else [None]
    names = _different(rows, by)
    figure, axes = new_figure(height, nrows=1, ncols=len(parts), sharey=share_y, squeeze=False)
    for ax, part in zip(axes[0], parts, strict=True):
        mine = [row for row in rows if panels is None or row[panels] == part]
        for series, name in enumerate(names):
            label = str((labels or {}).get(name, name))
            _draw(ax, [row for row in mine if row[by] == name], x, y, series, label, log_y)
        if log_x:
            _ticks_at(ax, sorted({float(row[x]) for row in mine}))
        if log_y:
            ax.set_yscale("log")
        ax.set(xlabel=xlabel)
        if share_y:
            ax.set_title(title if panels is None else str(part))
        else:
            ax.set_ylabel(str(part))
    if share_y:
        axes[0][0].set_ylabel(ylabel)
    if panels and title:
        figure.suptitle(title, x=0.02, ha="left", weight="bold", fontsize=12)
    handles, texts = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def _different(rows: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def _draw(
    axes: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, series: int, label: str, between_seeds: bool
) -> None:
    if not rows:
        return
    places = sorted({float(row[x]) for row in rows})
    seeds = [np.array([float(row[y]) for row in rows if float(row[x]) == place]) for place in places]
    mean = np.array([values.mean() for values in seeds])
    std = np.array([values.std(ddof=1) if len(values) > 1 else 0.0 for values in seeds])
    colour, marker = PALETTE[series % len(PALETTE)], MARKERS[series % len(MARKERS)]
    low, high = mean - std, mean + std
    if between_seeds:
        low, high = (np.array([edge(values) for values in seeds]) for edge in (np.min, np.max))
    axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(
        places,
        mean,
        color=colour,
        linestyle=DASHES[series % len(DASHES)],
        marker=marker,
        markeredgecolor=INK,
        markeredgewidth=0.7,
        label=label,
    )
    dots = [(place, value) for place, values in zip(places, seeds, strict=True) for value in values]
    axes.plot(*zip(*dots, strict=True), color=colour, marker=".", markersize=5, linestyle="", alpha=0.8)


def _ticks_at(axes: Axes, places: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(places), labels=[f"{place:,g}" for place in places])
    axes.minorticks_off()
