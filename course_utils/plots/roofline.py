"""The roofline of a machine: what it can compute at most, against the operations done on each byte."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from course_utils.plots.style import INK, MARKERS, MUTED, PALETTE, new_figure

__all__ = ["roofline"]


def roofline(
    bandwidth_gbps: float, peak_gflops: float, points: Mapping[str, tuple[float, float]], title: str = ""
) -> Figure:
    """Draw the roof and, under it, what was reached; both axes are logarithmic.

    Args:
        bandwidth_gbps: what memory delivers, in 1e9 bytes per second: the slope of the roof.
        peak_gflops: what arithmetic delivers, in 1e9 operations per second: its flat part.
        points: a name, its operations per byte and its rate in 1e9 operations per second.
        title: one line above the figure.

    Raises:
        ValueError: a number that is not positive has no place on a logarithmic axis.
    """
    numbers = [bandwidth_gbps, peak_gflops, *(number for point in points.values() for number in point)]
    if not min(numbers) > 0:
        raise ValueError(f"bandwidth, peak and points must be positive: got {min(numbers):g}")
    figure, axes = new_figure(height=4.8)
    ridge = peak_gflops / bandwidth_gbps
    intensities = [intensity for intensity, _ in points.values()]
    low, high = min([*intensities, ridge]) / 3, max([*intensities, ridge]) * 4
    x = np.array([low, ridge, high])
    axes.plot(x, np.minimum(peak_gflops, x * bandwidth_gbps), color=INK, linestyle="-", linewidth=2.4)
    axes.axvline(ridge, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    limit = {"xycoords": "data", "textcoords": "offset points", "fontsize": 9.5}
    axes.annotate(f"memory: {bandwidth_gbps:,.3g} GB/s", (low, low * bandwidth_gbps), (14, -3), **limit)
    axes.annotate(f"arithmetic: {peak_gflops:,.3g} GFLOP/s", (high, peak_gflops), (0, 7), ha="right", **limit)
    for series, (name, (intensity, rate)) in enumerate(points.items()):
        axes.plot(
            intensity,
            rate,
            linestyle="",
            marker=MARKERS[(series + series // len(PALETTE)) % len(MARKERS)],  # no colour comes twice with one marker
            color=PALETTE[series % len(PALETTE)],
            markersize=9,
            markeredgecolor=INK,
            markeredgewidth=0.7,
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="1e9 operations per second", title=title)
    axes.set_ylim(top=peak_gflops * 4)
    figure.legend(loc="outside right upper")
    return figure
