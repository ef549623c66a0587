"""Positions drawn: the wavelengths of scaled RoPE (chapter 15), and lines over distances or pairs
(14 to 16, 18, 19)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.curves import name_lines
from course_utils.plots.style import (
    INK,
    MUTED,
    PALETTE,
    PAPER,
    as_series,
    line_style,
    new_figure,
    series_of,
)

__all__ = ["lines", "rope_scaling"]


def rope_scaling(wavelengths: Mapping[str, Sequence[float]], window: int, length: int) -> Figure:
    """Draw each pair's wavelength, in positions a turn, against the trained window.

    Args:
        wavelengths: a line by label, (pairs,) each, infinite for a pair that stands still; the
            first as it was trained.
        window: positions seen in training.
        length: positions asked for.
    """
    figure, axes = new_figure(height=4.1)
    axes.set_yscale("log")
    axes.axhspan(window, 1e12, color=PALETTE[4], alpha=0.12, linewidth=0)
    for series, (label, line) in zip(series_of(wavelengths), wavelengths.items(), strict=True):
        look = (
            {"color": MUTED, "alpha": 0.4, "linewidth": 7, "linestyle": "-"}
            if label == next(iter(wavelengths))
            else line_style(series)
        )
        axes.plot([each if each < np.inf else np.nan for each in line], label=label, **look)
    card = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 1}
    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9.5, "bbox": card}
    axes.axhline(window, color=INK, linewidth=1.2, linestyle="-")
    axes.annotate(f"trained window, {window:,}", (0, window), (2, -11), **note)
    if length > window:
        axes.axhline(length, color=INK, linewidth=1, linestyle=":")
        axes.annotate(f"asked for, {length:,}", (0, length), (2, 4), **note)
    axes.set_ylim(
        3,
        3 * max(length, *(each for line in wavelengths.values() for each in line if each < np.inf)),
    )
    axes.set(xlabel="pair of dimensions, fast to slow", ylabel="wavelength (positions a turn)")
    axes.legend(loc="lower right", fontsize=9.5)
    return figure


def lines(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    xlabel: str,
    ylabel: str,
    *,
    marks: Mapping[str, float] | None = None,
    log_y: bool = False,
) -> Figure:
    """Draw curves over distances or over pairs, with rules at places that have a name.

    Args:
        x: (n,), increasing.
        curves: what each line is called, and its values, (n,); what is not positive is left out
            where ``log_y``.
        xlabel: the horizontal quantity with its unit.
        ylabel: the vertical quantity with its unit.
        marks: what each place on the horizontal axis is called.
        log_y: whether the vertical axis is logarithmic, in steps of two.

    Raises:
        ValueError: a curve's length is not that of ``x``.
    """
    figure, axes = new_figure(height=4.1)
    places = np.asarray(x, dtype=float)
    for series, (name, values) in zip(series_of(curves), curves.items(), strict=True):
        line = as_series(name, values, len(places))
        drawable = np.where(line > 0, line, np.nan) if log_y else line
        axes.plot(places, drawable, label=name, linewidth=1.8, **line_style(series))
    for name, place in (marks or {}).items():
        axes.axvline(place, color=INK, linewidth=1, linestyle=":")
        axes.annotate(
            name,
            (place, 1),
            (0, 3),
            ha="center",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
        )
    if log_y:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(
            lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}"
        )
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_formatter("{x:,g}")
    name_lines(figure, [axes], 4 if len(curves) == 4 else 3, fontsize=9.5)
    return figure
