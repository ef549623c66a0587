"""Bars in groups, for results with an error bar each."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.style import HATCHES, INK, PALETTE, PAPER, as_series, new_figure

__all__ = ["grouped_bars"]


def grouped_bars(
    bars: Mapping[str, ArrayLike],
    group_names: Sequence[str],
    ylabel: str,
    *,
    xlabel: str = "",
    errors: Mapping[str, ArrayLike] | None = None,
    number_format: str | None = ".3g",
    title: str = "",
) -> Figure:
    """Draw one bar per series in every group, told apart by hatching as well as by colour.

    Args:
        bars: what each series is called, and its heights, (len(group_names),); NaN is written in the bar's place.
        group_names: what stands under each group of bars.
        ylabel: the vertical quantity with its unit.
        xlabel: what a group is.
        errors: half-lengths of the error bars, keyed and shaped like ``bars``.
        number_format: how the height is written at a bar's end; ``None`` leaves it out.
        title: one line above the figure.

    Raises:
        ValueError: a series does not have one height per group.
    """
    figure, axes = new_figure()
    centres, width = np.arange(len(group_names)), 0.8 / len(bars)
    for series, (name, heights) in enumerate(bars.items()):
        values = as_series(name, heights, len(group_names))
        spread = None if errors is None else np.where(np.isnan(values), np.nan, np.asarray(errors[name], dtype=float))
        positions = centres + (series - (len(bars) - 1) / 2) * width
        finite = np.where(np.isnan(values), 0.0, values)
        drawn = axes.bar(
            positions,
            finite,
            width * 0.92,
            label=name,
            color=PALETTE[series % len(PALETTE)],
            hatch=HATCHES[series % len(HATCHES)],
            edgecolor=PAPER,
            yerr=spread,
            error_kw={"ecolor": INK, "capsize": 3, "elinewidth": 1.2},
        )
        axes.bar(positions, finite, width * 0.92, fill=False, edgecolor=INK, linewidth=0.8)
        if number_format is not None:
            labels = [
                "NaN" if math.isnan(value) else format(value, number_format).replace("-", "−") for value in values
            ]
            axes.bar_label(drawn, labels=labels, padding=2, fontsize=9.5)
    axes.set_xticks(centres, labels=group_names)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, pad=30 if len(bars) > 1 else None)
    if len(bars) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(bars), 4), borderaxespad=0.2)
    return figure
