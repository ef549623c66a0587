"""Static pictures of the widgets that draw bars and scatter: a normalized row, a sample amid its neighbours."""

import math
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.book.tables import format_number
from course_utils.plots.style import INK, MUTED, PALETTE, new_figure

__all__ = ["batch_neighbours", "normalize_row"]


def normalize_row(state: Any, data: Any) -> Figure:
    """Draw a row and its normalized row as bars.

    Args:
        state: a ``RowState``.
        data: what ``widgets.normalize_row_figure(state)`` returns.
    """
    figure, (before, after) = new_figure(height=3.4, ncols=2)
    base = state.offset if abs(state.offset) > 50 else 0.0  # so far from zero the differences would not be seen
    _bars(before, [value - base for value in data.inputs], PALETTE[0])
    _bars(after, data.outputs, PALETTE[1])
    positions = range(1, len(data.unmoved) + 1)
    after.plot(
        positions, data.unmoved, marker="_", markersize=18, color=INK, linestyle="", label="at offset 0, scale 1"
    )
    after.set_ylim(-4, 4)
    after.legend(loc="upper right", fontsize=9)
    before.set_title(f"input, minus {base:,g}" if base else "input")
    before.set_xlabel(f"mean {format_number(data.mean)}, variance {format_number(data.variance)}")
    after.set(title="normalized", xlabel=f"variance {format_number(data.output_variance)}")
    return figure


def batch_neighbours(state: Any, data: Any, refusal: str) -> Figure:
    """Draw one sample's outputs over many draws of its neighbours, by batch size, and the running statistics.

    Args:
        state: a ``NeighbourState``.
        data: what ``widgets.batch_neighbours_figure(state)`` returns.
        refusal: what PyTorch says where a batch has no outputs.
    """
    figure, axes = new_figure(height=4.4, nrows=2, ncols=2, width_ratios=[3, 2])
    strip = figure.add_subplot(axes[0, 0].get_gridspec()[:, 0])
    for unused in axes[:, 0]:
        unused.remove()
    for column, (batch, outputs) in enumerate(data.outputs.items()):
        if not outputs:
            strip.text(column, 0, "refused", ha="center", va="bottom", fontsize=9)
            continue
        aside = ((np.arange(len(outputs)) * 0.618034) % 1 - 0.5) * 0.55  # so that equal outputs are seen to be many
        strip.plot(
            column + aside, outputs, ".", markersize=2.5, color=PALETTE[0], alpha=1 if batch == state.batch else 0.4
        )
        strip.errorbar(column + 0.38, np.mean(outputs), np.std(outputs), color=INK, capsize=3)
    strip.axhline(data.layer_norm, color=PALETTE[1], linestyle="--")
    strip.text(6.55, data.layer_norm, "layer norm", ha="right", va="bottom", weight="bold", fontsize=9.5)
    strip.set_xlim(-0.6, len(data.outputs) - 0.4)
    strip.set_xticks(range(len(data.outputs)), labels=list(data.outputs))
    strip.grid(visible=False, axis="x")
    strip.set(title="output of the same sample", xlabel="batch size")
    if not data.outputs[state.batch]:
        figure.suptitle("\n".join(textwrap.wrap(refusal, 90)), fontsize=10)
    _running(axes[0, 1], state.steps, data.running_mean, data.expected_mean, "running mean", PALETTE[2])
    _running(axes[1, 1], state.steps, data.running_variance, data.expected_variance, "running variance", PALETTE[3])
    axes[1, 1].set_xlabel("training steps")
    return figure


def _bars(axes: Axes, values: list[float], colour: str) -> None:
    positions = range(1, len(values) + 1)
    axes.bar(positions, [value if math.isfinite(value) else 0.0 for value in values], color=colour)
    for position, value in zip(positions, values, strict=True):
        if not math.isfinite(value):
            across = axes.get_xaxis_transform()  # the foot of the axes, where no mark stands
            axes.text(position, 0.03, "NaN", transform=across, ha="center", va="bottom", fontsize=9, weight="bold")
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.set_xticks(positions)
    axes.grid(visible=False, axis="x")


def _running(axes: Axes, steps: int, values: list[float], expected: float | None, title: str, colour: str) -> None:
    if expected is not None:
        axes.axhline(expected, color=INK, linewidth=1.2, linestyle=":")
    axes.plot(values, color=colour, linestyle="-")
    axes.plot(steps, values[steps], marker="o", color=colour)
    axes.set(title=title)
