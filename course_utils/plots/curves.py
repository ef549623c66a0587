"""Lines, bars and cells: errors on logarithmic axes, runs with several seeds, results in groups, a
small matrix.

Chapters 01 to 21.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import (
    HATCHES,
    INK,
    PALETTE,
    PAPER,
    as_series,
    line_style,
    marker_style,
    new_figure,
    series_of,
)

__all__ = ["error_curves", "grouped_bars", "heatmap", "spread_curves"]


def error_curves(
    x: Sequence[float], curves: Mapping[str, ArrayLike], xlabel: str, ylabel: str, title: str = ""
) -> Figure:
    """Draw errors against ``x``, both logarithmic; NaN and infinity are marked at the top edge,
    exact zeros below.

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
    _ticks_at(axes, x)
    draw_log_curves(
        axes, np.asarray(x, dtype=float), {n: as_series(n, v, len(x)) for n, v in curves.items()}
    )
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return figure


def draw_log_curves(
    axes: Axes,
    x: NDArray,
    lines: Mapping[str, NDArray],
    mark_every: int = 1,
    series: Sequence[int] | None = None,
) -> None:
    for name, line in lines.items():
        if (line < 0).any():
            raise ValueError(
                f"{name!r} must have no negative value on a logarithmic axis: got {line.min():g}"
            )
    low, high, bottom, top = _edges(np.concatenate(list(lines.values())))
    axes.set_yscale("log")
    axes.set_ylim(low, high)

    ends = []
    for order, (place, name) in enumerate(zip(series or series_of(lines), lines, strict=True)):
        line = lines[name]
        colour = PALETTE[place % len(PALETTE)]
        finite = np.isfinite(line)
        shown = np.where(finite, np.maximum(line, bottom), top)
        axes.plot(x, np.where(finite, shown, np.nan), **line_style(place))
        # earlier markers are larger, so that lines on top of each other are all seen
        size = max(5.0, 9.0 - 1.3 * order)
        look = {**marker_style(place), "color": colour, "linestyle": "", "markersize": size}
        axes.plot(x, shown, **look, markevery=mark_every)
        _name_edge_points(axes, x, line, shown, colour)
        ends.append((float(shown[-1]), float(x[-1]), name, colour))
    _label_ends(axes, ends)


def _edges(values: NDArray) -> tuple[float, float, float, float]:
    """Return the axis's limits, and the heights inside them that stand for zero and for NaN or
    infinity."""
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
    for text, where, offset in (
        ("NaN", np.isnan(line), above),
        ("∞", np.isinf(line), above),
        ("0", line == 0, beside),
    ):
        if not where.any():
            continue
        point = x[where.argmax()], shown[where.argmax()]
        axes.plot(
            *point, marker="o", markersize=14, markerfacecolor="none", color=colour, linestyle=""
        )
        axes.annotate(text, point, offset, textcoords="offset points", ha="center", weight="bold")


def name_lines(figure: Figure, panels: Sequence[Axes], ncols: int, **look: Any) -> None:
    """Name each line at its right end, if there is more than one; in a legend below where two ends
    are near each other, one cannot be drawn, or there are more panels than one."""
    axes = panels[0]
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    names = [str(line.get_label()) for line in lines]
    if len(lines) == 1:
        return
    ends = []
    for line, name in zip(lines, names, strict=True):
        x, y = np.asarray(line.get_xydata())[-1]
        ends.append((float(y), float(x), fill(name, 20), str(line.get_color())))
    axes.autoscale_view()  # which otherwise waits until the figure is drawn
    heights = sorted(_height(axes, x, y) for y, x, *_ in ends)
    if len(panels) == 1 and all(above - below > 0.04 for below, above in pairwise(heights)):
        _label_ends(axes, ends)
    else:
        figure.legend(lines, names, loc="outside lower center", ncols=ncols, **look)


_LINE_OF_TEXT = 0.075  # of the axes' height


def _height(axes: Axes, x: float, y: float) -> float:
    """Return how high a point stands in the axes, 0 at the bottom and 1 at the top."""
    return float(axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1])


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name to the right of the axes at its end's height, pushed apart where two
    would touch."""
    heights: dict[str, float] = {}
    top = -_LINE_OF_TEXT / 2
    for y, x, name, _ in sorted(ends):
        half = _LINE_OF_TEXT * (name.count("\n") + 1) / 2
        heights[name] = max(_height(axes, x, y), top + half)
        top = heights[name] + half
    overshoot = max(0.0, top - _LINE_OF_TEXT / 2 - 1.0)
    for y, x, name, colour in ends:
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(1.04, heights[name] - overshoot),
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),  # from the left of the words, not from below them
                "color": colour,
                "linewidth": 1,
                "shrinkA": 1,
                "shrinkB": 5,
            },
        )


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
        rows: the runs, such as ``experiments.Rows``; rows that agree in ``x`` and ``by`` are seeds
            of one point.
        x: a field that holds a number; with ``log_x`` the values themselves are the ticks.
        y: a field that holds a number.
        by: the field that tells the lines apart.
        xlabel: the horizontal quantity with its unit.
        ylabel: the vertical quantity with its unit; panels with scales of their own are labelled by
            their values.
        title: one line above the figure.
        labels: what a value of ``by`` is called; by default the value itself.
        panels: a field each value of which gets axes of its own, side by side.
        share_y: whether the panels have one vertical scale; if not, the value of ``panels`` names
            the quantity.
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
        for series, name in zip(series_of(names), names, strict=True):
            label = str((labels or {}).get(name, name))
            _draw_seeds(ax, [row for row in mine if row[by] == name], x, y, series, label, log_y)
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
    name_lines(figure, axes[0], min(4, len(names)))
    return figure


def _different(rows: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def _draw_seeds(
    axes: Axes,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    series: int,
    label: str,
    between_seeds: bool,
) -> None:
    if not rows:
        return
    places = sorted({float(row[x]) for row in rows})
    seeds = [
        np.array([float(row[y]) for row in rows if float(row[x]) == place]) for place in places
    ]
    mean = np.array([values.mean() for values in seeds])
    std = np.array([values.std(ddof=1) if len(values) > 1 else 0.0 for values in seeds])
    colour = PALETTE[series % len(PALETTE)]
    low, high = mean - std, mean + std
    if between_seeds:
        low, high = (np.array([edge(values) for values in seeds]) for edge in (np.min, np.max))
    axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(places, mean, **line_style(series), **marker_style(series), label=label)
    dots = [(place, value) for place, values in zip(places, seeds, strict=True) for value in values]
    axes.plot(
        *zip(*dots, strict=True), color=colour, marker=".", markersize=5, linestyle="", alpha=0.8
    )


def _ticks_at(axes: Axes, places: Sequence[float]) -> None:
    positive = [place for place in places if place > 0]
    if len(positive) < len(places):
        axes.set_xscale("symlog", linthresh=min(positive, default=1.0), linscale=0.5)
    else:
        axes.set_xscale("log")
    axes.set_xticks(list(places), labels=[f"{place:,.9g}" for place in places])
    axes.minorticks_off()


def grouped_bars(
    bars: Mapping[str, ArrayLike],
    group_names: Sequence[str],
    ylabel: str,
    number_format: str | None = ".3g",
) -> Figure:
    """Draw one bar per series in every group, told apart by hatching as well as by colour.

    Args:
        bars: what each series is called, and its heights, (len(group_names),); NaN is written in
            the bar's place.
        group_names: what stands under each group of bars.
        ylabel: the vertical quantity with its unit.
        number_format: how the height is written at a bar's end; ``None`` leaves it out.

    Raises:
        ValueError: a series does not have one height per group.
    """
    figure, axes = new_figure()
    centres, width = np.arange(len(group_names)), 0.8 / len(bars)
    for series, (name, heights) in enumerate(bars.items()):
        values = as_series(name, heights, len(group_names))
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
        )
        axes.bar(positions, finite, width * 0.92, fill=False, edgecolor=INK, linewidth=0.8)
        if number_format is not None:
            labels = [
                "NaN" if math.isnan(value) else format(value, number_format).replace("-", "−")
                for value in values
            ]
            axes.bar_label(drawn, labels=labels, padding=2, fontsize=9.5)
    axes.set_xticks(centres, labels=group_names)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)
    axes.set(ylabel=ylabel)
    if len(bars) > 1:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(bars), 4), borderaxespad=0.2
        )
    return figure


_MISSING = "#B8B8B8"


def heatmap(
    matrix: ArrayLike,
    row_label: str,
    column_label: str,
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    number_format: str = ".2f",
    value_label: str = "",
    limits: tuple[float, float] | None = None,
    missing: str = "NaN",
    title: str = "",
) -> Figure:
    """Draw a small matrix as coloured cells with their numbers in them.

    Args:
        matrix: (rows, columns); NaN has a grey cell.
        row_label: what a row is.
        column_label: what a column is.
        row_names: one name per row; by default 0, 1, ...
        column_names: one name per column; by default 0, 1, ...
        number_format: how a cell's number is written, as in ``format``.
        value_label: what the numbers are, with their unit, beside the colour bar.
        limits: the values at the ends of the colour scale; by default the least and the largest.
        missing: what is written where there is NaN.
        title: one line above the figure.

    Raises:
        ValueError: the matrix does not have two dimensions.
    """
    values = np.asarray(matrix, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"matrix must have two dimensions: got shape {values.shape}")
    rows, columns = values.shape
    figure, axes = new_figure(height=min(6.5, 1.4 + 0.42 * rows))
    colours = matplotlib.colormaps["cividis"].with_extremes(bad=_MISSING)
    scale = {} if limits is None else {"vmin": limits[0], "vmax": limits[1]}
    image = axes.imshow(np.ma.masked_invalid(values), cmap=colours, aspect="auto", **scale)
    axes.set_xticks(range(columns), labels=column_names or range(columns))
    axes.set_yticks(range(rows), labels=row_names or range(rows))
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(values):
        text = missing if math.isnan(value) else format(value, number_format).replace("-", "−")
        colour = _legible_on(
            image.cmap(image.norm(value)) if math.isfinite(value) else to_rgb(_MISSING)
        )
        axes.text(column, row, text, ha="center", va="center", color=colour)
    figure.colorbar(image, ax=axes, label=value_label)
    axes.set(xlabel=column_label, ylabel=row_label, title=title)
    return figure


def _legible_on(cell: Sequence[float]) -> str:
    """Return black or white, whichever contrasts more: 4.5 to 1 at least on any colour (WCAG 2,
    relative luminance)."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in cell[:3]
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"
