"""The ladder of implementations: what each moves of the bytes that it must, as horizontal bars under a copy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from course_utils.plots.style import INK, PALETTE, new_figure
from course_utils.recorded import Record

__all__ = ["ladder", "recorded_ladder"]


def ladder(
    bandwidths_gbps: Mapping[str, float],
    copy_gbps: float,
    title: str = "",
    ranges_gbps: Mapping[str, tuple[float, float]] | None = None,
) -> Figure:
    """Draw a bar for each implementation, the fastest on top, and a line where a copy of the same size stands.

    Args:
        bandwidths_gbps: by implementation, the bytes that had to move over the time taken, in 1e9 bytes per second.
        copy_gbps: what a copy of the same size moved.
        title: one line above the figure.
        ranges_gbps: by implementation, the lowest and the highest bandwidth measured, drawn as a whisker.

    Raises:
        ValueError: a bandwidth that is not positive.
    """
    if not min([copy_gbps, *bandwidths_gbps.values()]) > 0:
        raise ValueError(f"bandwidths_gbps and copy_gbps must be positive: got {dict(bandwidths_gbps)}, {copy_gbps}")
    rungs = sorted(bandwidths_gbps.items(), key=lambda rung: rung[1])
    figure, axes = new_figure(height=1.2 + 0.33 * len(rungs))
    places, values = np.arange(len(rungs)), [value for _, value in rungs]
    axes.barh(places, values, color=PALETTE[0], edgecolor=INK, linewidth=0.8)
    for place, (name, value) in enumerate(rungs):  # the words in a column of their own, clear of the line
        words = f"{value:,.3g} GB/s, {value / copy_gbps:.0%} of a copy"
        axes.text(0.995, place, words, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=9.5)
        if ranges_gbps:
            low, high = ranges_gbps[name]
            axes.hlines(place, low, high, color="white", linewidth=5)  # half of the whisker lies on the bar
            axes.plot((low, high), (place, place), color=INK, linestyle="-", linewidth=1.6, marker="|", markersize=7)
    axes.axvline(copy_gbps, color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
    axes.set_yticks(places, labels=[name for name, _ in rungs])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.5 * max([copy_gbps, *values, *(high for _, high in (ranges_gbps or {}).values())]))
    xlabel = "useful bandwidth (1e9 bytes per second); dashed: a copy of the same size"
    if ranges_gbps:
        xlabel += "\nthe line on a bar: from the slowest measurement to the fastest"
    axes.set(xlabel=xlabel, title=title)
    return figure


def recorded_ladder(record: Record, operation: str, direction: str, shape: tuple[int, ...], dtype: str) -> Figure:
    """Draw the ladder of one case of a record, with its case and its machine above it.

    Where several processes measured, a whisker spans their median bandwidths.

    Args:
        record: as ``recorded.load`` returns it.
        operation, direction, shape, dtype: the case, as ``bench.Case`` has it.

    Raises:
        ValueError: the record has no such case.
    """
    case: dict[str, Any] = {"operation": operation, "direction": direction, "shape": tuple(shape), "dtype": dtype}
    words = f"{operation.replace('_', ' ')}, {tuple(shape)} {dtype}, {direction}"
    results = list(record.select(**case))
    if not results:
        raise ValueError(f"record must hold the case: got {record.name}, without {words}")
    gbps = {result["implementation"]: result["bytes_moved"] / result["median_ms"] / 1e6 for result in results}
    ranges = {
        result["implementation"]: tuple(result["bytes_moved"] / time / 1e6 for time in reversed(result["range_ms"]))
        for result in results
    }
    several = record.provenance["processes"] > 1
    return ladder(gbps, results[0]["copy_gbps"], f"{words}\n{record.origin}", ranges if several else None)
