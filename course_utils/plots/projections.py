"""The static picture of a gradient on its way back through a norm."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.plots.style import HATCHES, INK, MUTED, PALETTE, new_figure

__all__ = ["gradient_projection"]


def gradient_projection(data: Any) -> Figure:
    """Draw the gradient that arrives, the parts that are taken off, and what leaves, as bars on one scale.

    Args:
        data: what ``widgets.gradient_projection_figure(state)`` returns.
    """
    figure, (arriving, taken_off, leaving) = new_figure(height=3.4, ncols=3, sharey=True)
    _bars(arriving, data.gradient, 0.0, 0)
    arriving.set(title="g arrives", xlabel=f"length {data.gradient_length:.2f}", ylabel="gradient")
    _bars(taken_off, data.along, data.constant, 2)
    if data.constant:
        taken_off.axhline(data.constant, color=INK, linestyle="--", linewidth=1.6)
    taken_off.set(title="taken off: along x̂", xlabel=f"mean {data.constant:.2f} (dashed)" if data.constant else "")
    _bars(leaving, data.left, 0.0, 1)
    leaving.set(title="dx / r leaves", xlabel=f"length {data.left_length:.2f}")
    return figure


def _bars(axes: Axes, values: list[float], base: float, series: int) -> None:
    positions = range(1, len(values) + 1)
    axes.bar(positions, values, bottom=base, color=PALETTE[series], hatch=HATCHES[series], edgecolor=INK, linewidth=0.6)
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.set_xticks(positions)
    axes.grid(visible=False, axis="x")
