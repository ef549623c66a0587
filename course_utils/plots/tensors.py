"""Pictures of tensors: a small matrix with its numbers."""

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.style import new_figure

__all__ = ["heatmap"]

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
        colour = _legible_on(image.cmap(image.norm(value)) if math.isfinite(value) else to_rgb(_MISSING))
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=10)
    figure.colorbar(image, ax=axes, label=value_label)
    axes.set(xlabel=column_label, ylabel=row_label, title=title)
    return figure


def _legible_on(cell: Sequence[float]) -> str:
    """Return black or white, whichever contrasts more: 4.5 to 1 at least on any colour (WCAG 2, relative luminance)."""
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in cell[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"
