"""Static picture of the widget in which a running mean follows a drifting channel."""

from typing import Any

from matplotlib.figure import Figure

from course_utils.book.tables import format_number
from course_utils.plots.style import INK, MUTED, PALETTE, new_figure

__all__ = ["running_average"]


def running_average(state: Any, data: Any) -> Figure:
    """Draw the running mean beside the truth, and below it what each past batch weighs in it.

    Args:
        state: a ``RunningState``.
        data: what ``widgets.running_average_figure(state)`` returns.
    """
    figure, (above, below) = new_figure(height=5.0, nrows=2, height_ratios=[5, 2])
    steps = range(1, len(data.truth) + 1)
    above.plot(steps, data.batch_means, ".", markersize=4, color=MUTED, alpha=0.5, label="batch means")
    above.plot(steps, data.truth, color=INK, linestyle=":", label="truth")
    name = "running mean, corrected" if state.corrected else "running mean"
    above.plot(steps, data.estimate, color=PALETTE[0], linestyle="-", label=name)
    above.set(title=f"momentum {state.momentum:g} ({state.convention})", xlabel="step", ylabel="mean")
    above.legend(loc="lower right", ncols=3, fontsize=9)
    ages = range(len(data.weights))
    below.bar(ages, data.weights, color=PALETTE[0])
    if data.memory <= len(data.weights):
        below.axvline(data.memory - 0.5, color=PALETTE[1], linestyle="--")
    below.set(title=f"what it remembers: {format_number(data.memory)} steps", xlabel="batches ago", ylabel="weight")
    below.grid(visible=False, axis="x")
    return figure
