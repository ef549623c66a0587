"""How a signal's size goes with depth."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.curves import draw_log_curves
from course_utils.plots.style import (
    MUTED,
    as_series,
    new_figure,
)

__all__ = ["signal_by_depth"]


def signal_by_depth(curves: Mapping[str, ArrayLike], ylabel: str) -> Figure:
    """Draw how large the signal is after each layer, on a logarithmic axis with a rule at 1.

    Args:
        curves: what each network is called, and its standard deviation after layers 1, 2, ...,
            (depth,) each.
        ylabel: the vertical quantity.

    Raises:
        ValueError: the networks differ in depth, or a standard deviation is negative.
    """
    figure, axes = new_figure()
    depth = len(np.asarray(next(iter(curves.values()))))
    axes.axhline(1.0, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    lines = {name: as_series(name, values, depth) for name, values in curves.items()}
    draw_log_curves(axes, np.arange(1.0, depth + 1), lines, mark_every=max(1, depth // 12))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="layer", ylabel=ylabel)
    return figure
