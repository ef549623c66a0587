"""Positions drawn: the sinusoidal code (chapter 12), RoFormer's bound (13), scores, shares and wavelengths (14)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import INK, MARKERS, MUTED, PALETTE, PAPER, as_series, line_style, new_figure

__all__ = ["attenuation", "lines", "rope_scaling", "sinusoid"]


def sinusoid(code: ArrayLike, pairs: tuple[int, int]) -> Figure:
    """Draw a sinusoidal code as a heat map, and two of its pairs as clocks with the hands of positions 1 and 4.

    Args:
        code: (T, dim), sine in the even columns.
        pairs: which pairs of columns get a clock.

    Raises:
        ValueError: the code has not two dimensions, or an odd number of columns.
    """
    values = np.asarray(code, dtype=float)
    if values.ndim != 2 or values.shape[1] % 2:
        raise ValueError(f"code must be (T, dim) with an even dim: got shape {values.shape}")
    figure, (heat, *clocks) = new_figure(height=3.6, ncols=3, width_ratios=[1.7, 1, 1])
    image = heat.imshow(values.T, cmap="cividis", aspect="auto", vmin=-1, vmax=1, interpolation="nearest")
    heat.grid(visible=False)
    heat.set(xlabel="position", ylabel="column", title="the code")
    figure.colorbar(image, ax=heat, location="bottom", label="value", aspect=30, ticks=[-1, 0, 1])
    for axes, pair in zip(clocks, pairs, strict=True):
        _clock(axes, values[:, 2 * pair : 2 * pair + 2])
        axes.set_title(f"columns {2 * pair}, {2 * pair + 1}")
    return figure


def _clock(axes: Axes, pair: NDArray) -> None:
    """Draw (cos, sin) of every position on the circle, and the hands of two of them."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color=MUTED, linewidth=1, linestyle="-")
    axes.plot(pair[:, 1], pair[:, 0], ".", color=MUTED, markersize=4)
    for series, position in enumerate((1, 4)):
        sine, cosine = pair[position]
        look = {**line_style(series), "marker": MARKERS[series]}
        axes.plot([0, cosine], [0, sine], markevery=[1], label=f"position {position}", **look)
    axes.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xlabel="cosine", ylabel="sine")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), fontsize=9)


def attenuation(bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike]) -> Figure:
    """Draw the mean of |S_p| by distance in one panel, and scores as shares of |q||k| in the other.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...

    Raises:
        ValueError: curves of one panel differ in length.
    """
    figure, (left, right) = new_figure(height=3.9, ncols=2)
    _draw_lines(left, bound, first_colour=0)
    _draw_lines(right, scores, first_colour=2)
    left.set(xlabel="distance (positions)", ylabel="mean of |S|", title="the bound", ylim=(0, None))
    right.set(xlabel="distance (positions)", ylabel="score / (|q||k|)", title="scores", ylim=(-1.05, 1.05))
    return figure


def _draw_lines(axes: Axes, curves: Mapping[str, ArrayLike], first_colour: int) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    for number, (name, values) in enumerate(curves.items()):
        look = {**line_style(number), "color": line_style(first_colour + number)["color"]}
        axes.plot(as_series(name, values, length), label=name, linewidth=1.4, **look)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.1), borderaxespad=0.2, fontsize=9.5)
    axes.title.set_visible(True)


def rope_scaling(wavelengths: Mapping[str, Sequence[float]], window: int, length: int) -> Figure:
    """Draw each pair's wavelength, in positions a turn, against the trained window.

    Args:
        wavelengths: a line by label, (pairs,) each, infinite for a pair that stands still; the first as it was trained.
        window: positions seen in training.
        length: positions asked for.
    """
    figure, axes = new_figure(height=4.1)
    axes.set_yscale("log")
    axes.axhspan(window, 1e12, color=PALETTE[4], alpha=0.12, linewidth=0)
    for i, (label, line) in enumerate(wavelengths.items()):
        look = {"color": PALETTE[i - 1]} if i else {"color": MUTED, "alpha": 0.4, "linewidth": 7, "linestyle": "-"}
        axes.plot([each if each < np.inf else np.nan for each in line], label=label, **look)
    card = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 1}
    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9.5, "bbox": card}
    axes.axhline(window, color=INK, linewidth=1.2, linestyle="-")
    axes.annotate(f"trained window, {window:,}", (0, window), (2, -11), **note)
    if length > window:
        axes.axhline(length, color=INK, linewidth=1, linestyle=":")
        axes.annotate(f"asked for, {length:,}", (0, length), (2, 4), **note)
    axes.set_ylim(3, 3 * max(length, *(each for line in wavelengths.values() for each in line if each < np.inf)))
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
    """Draw curves over distances or over pairs, with rules at places that have a name (chapters 13 and 14).

    Args:
        x: (n,), increasing.
        curves: what each line is called, and its values, (n,); what is not positive is left out where ``log_y``.
        xlabel: the horizontal quantity with its unit.
        ylabel: the vertical quantity with its unit.
        marks: what each place on the horizontal axis is called.
        log_y: whether the vertical axis is logarithmic, in steps of two.

    Raises:
        ValueError: a curve's length is not that of ``x``.
    """
    figure, axes = new_figure(height=4.1)
    places = np.asarray(x, dtype=float)
    for number, (name, values) in enumerate(curves.items()):
        line = as_series(name, values, len(places))
        drawable = np.where(line > 0, line, np.nan) if log_y else line
        axes.plot(places, drawable, label=name, linewidth=1.8, **line_style(number))
    for name, place in (marks or {}).items():
        axes.axvline(place, color=INK, linewidth=1, linestyle=":")
        axes.annotate(
            name,
            (place, 1),
            (0, 3),
            ha="center",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=9.5,
        )
    if log_y:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_formatter("{x:,g}")
    figure.legend(loc="outside lower center", ncols=4 if len(curves) == 4 else 3, fontsize=9.5)
    return figure
