"""The figures of the chapter on time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from course_utils.plots import error_curves
from course_utils.plots.style import INK, MUTED, PALETTE, marker_style, new_figure, series_of
from course_utils.table import format_number

__all__ = [
    "bandwidth_by_size",
    "cache_sizes",
    "recorded_ladder",
    "roofline",
    "timeline",
    "traces",
]


def roofline(
    bandwidth_gbps: float,
    peak_gflops: float,
    points: Mapping[str, tuple[float, float]],
    cached_gbps: float = 0.0,
) -> Figure:
    """Draw the roof and, under it, what was reached; both axes are logarithmic. A thin line at half
    of the flat part is the roof of what cannot use fused multiply-adds.

    Args:
        bandwidth_gbps: what memory delivers, in 1e9 bytes per second: the slope of the roof.
        peak_gflops: what products of matrices deliver, in 1e9 operations per second, a fused
            multiply-add counted as two: its flat part.
        points: a name, its operations per byte and its rate in 1e9 operations per second.
        cached_gbps: what a copy of 16 MB delivers; a dashed slope, where that is half as
            much again as memory's and so comes from a cache.

    Raises:
        ValueError: a number that is not positive has no place on a logarithmic axis.
    """
    numbers = [
        bandwidth_gbps,
        peak_gflops,
        *(number for point in points.values() for number in point),
    ]
    if not min(numbers) > 0:
        raise ValueError(f"bandwidth, peak and points must be positive: got {min(numbers):g}")
    figure, axes = new_figure(height=4.8)
    ridge = peak_gflops / bandwidth_gbps
    intensities = [intensity for intensity, _ in points.values()]
    low, high = min([*intensities, ridge]) / 3, max([*intensities, ridge]) * 4
    x = np.array([low, ridge, high])
    axes.plot(
        x, np.minimum(peak_gflops, x * bandwidth_gbps), color=INK, linestyle="-", linewidth=2.4
    )
    unfused = peak_gflops / 2
    axes.plot([ridge / 2, high], [unfused, unfused], color=INK, linewidth=1.2, label="_unfused")
    axes.axvline(ridge, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    limit = {"xycoords": "data", "textcoords": "offset points"}
    axes.annotate(
        f"memory: {bandwidth_gbps:,.3g} GB/s", (low, low * bandwidth_gbps), (14, -3), **limit
    )
    axes.annotate(
        f"arithmetic: {peak_gflops:,.3g} GFLOP/s", (high, peak_gflops), (0, 7), ha="right", **limit
    )
    words = f"additions or products\nalone: {unfused:,.3g} GFLOP/s"
    axes.annotate(words, (high, unfused), (0, -8), ha="right", va="top", **limit)
    if cached_gbps > 1.5 * bandwidth_gbps:
        corner = peak_gflops / cached_gbps
        slope = {"color": MUTED, "linestyle": (0, (4, 2)), "linewidth": 1.6, "label": "_cached"}
        axes.plot([low, corner], [low * cached_gbps, peak_gflops], **slope)
        words = f"copy of 16 MB:\n{cached_gbps:,.3g} GB/s"
        axes.annotate(words, (corner / 2, peak_gflops / 2), (-9, 0), ha="right", **limit)
    forms = [name.removeprefix("eager, ") for name in points]
    for series, (name, (intensity, rate)) in zip(series_of(forms), points.items(), strict=True):
        # no colour comes twice with one marker
        marker = marker_style(series + series // len(PALETTE))
        look = {**marker, "color": PALETTE[series % len(PALETTE)], "linestyle": "", "markersize": 9}
        axes.plot(intensity, rate, **look, label=name)
        side = ((-9, -18), "right") if intensity > ridge else ((9, -4), "left")
        axes.annotate(name, (intensity, rate), side[0], ha=side[1], **limit)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="rate (GFLOP/s)")
    axes.set_ylim(top=peak_gflops * 4)
    return figure


def recorded_ladder(
    record: Any, operation: str, direction: str, shape: tuple[int, ...], dtype: str
) -> Figure:
    """Draw one case of a record: a bar for each implementation, the fastest on top, and a line
    where a copy stands.

    The bandwidth is the bytes that had to move over the median time. Where several processes
    measured, a whisker spans the medians that they found.

    Args:
        record: as ``records.load`` returns it.
        operation, direction, shape, dtype: the case, as ``ladder.Case`` has it.

    Raises:
        ValueError: the record has no such case.
    """
    case: dict[str, Any] = {
        "operation": operation,
        "direction": direction,
        "shape": tuple(shape),
        "dtype": dtype,
    }
    words = f"{operation.replace('_', ' ')}, {tuple(shape)} {dtype}, {direction}"
    slow_to_fast = sorted(record.select(**case), key=lambda result: -result["median_ms"])
    # written for what the compiler makes of it, which the course no longer does
    slow_to_fast = [r for r in slow_to_fast if r["implementation"] != "compiled, tuned"]
    if not slow_to_fast:
        raise ValueError(f"record must hold the case: got {record.name}, without {words}")
    several = record.provenance["processes"] > 1
    copy_gbps = slow_to_fast[0]["copy_gbps"]

    figure, axes = new_figure(height=1.2 + 0.33 * len(slow_to_fast))
    furthest = copy_gbps
    for place, result in enumerate(slow_to_fast):
        megabytes = result["bytes_moved"] / 1e6
        gbps, high, low = (megabytes / ms for ms in (result["median_ms"], *result["range_ms"]))
        axes.barh(place, gbps, color=PALETTE[0], edgecolor=INK, linewidth=0.8)
        # in a column, clear of the line
        words_at_end = f"{format_number(gbps)} GB/s, {gbps / copy_gbps:.0%}"
        at_edge = axes.get_yaxis_transform()
        axes.text(0.995, place, words_at_end, transform=at_edge, ha="right", va="center")
        if several:
            # half of the whisker lies on the bar
            axes.hlines(place, low, high, color="white", linewidth=5)
            axes.plot(
                (low, high),
                (place, place),
                color=INK,
                linestyle="-",
                linewidth=1.6,
                marker="|",
                markersize=7,
            )
        furthest = max(furthest, high if several else gbps)
    axes.axvline(copy_gbps, color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
    axes.set_yticks(
        range(len(slow_to_fast)), labels=[result["implementation"] for result in slow_to_fast]
    )
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.6 * furthest)
    xlabel = "useful bandwidth (GB/s); dashed, 100%: a copy of the same size"
    if several:
        xlabel += "\nthe line on a bar: slowest to fastest process"
    machine = record.origin.replace(" (", "\n(")  # a line for it, and one for what ran there
    axes.set(xlabel=f"{xlabel}\n{machine}", title=words)
    return figure


def cache_sizes() -> dict[str, int]:
    """Return the sizes of this processor's caches in kilobytes, by their name, the smallest first;
    nothing where the system (Linux) does not say."""
    sizes = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (cache / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction" and size.endswith("K"):
            sizes[f"L{level}"] = int(size[:-1])
    return sizes


def bandwidth_by_size(
    sizes_kb: Sequence[float], gbps: Mapping[str, Sequence[float]], caches_kb: Mapping[str, float]
) -> Figure:
    """Draw bandwidths against the size of the input, and where input and output together outgrow
    each cache."""
    figure = error_curves(
        sizes_kb, gbps, xlabel="size of the input (kB)", ylabel="useful bandwidth (GB/s)"
    )
    axes = figure.axes[0]
    smallest, largest = axes.get_xlim()
    ends = [kb / 2 for kb in caches_kb.values() if kb / 2 < largest]
    for end in ends:
        axes.axvline(end, color=MUTED, linewidth=1.2, linestyle=":")
    borders = [smallest, *ends, largest]
    names = [*caches_kb][: len(ends)] + ["memory"] * (len(ends) == len(caches_kb))
    for name, left, right in zip(names, borders, borders[1:], strict=False):
        axes.text(
            (left * right) ** 0.5, 0.99, name, transform=axes.get_xaxis_transform(),
            ha="center", va="top", color=MUTED, weight="bold",
        )  # fmt: skip
    return figure


def timeline(
    parts: Sequence[tuple[str, float, float]], operators: Sequence[tuple[float, float]]
) -> Figure:
    """Draw the marked parts of a program, each with its name, begin and end in µs, and below them
    when an operator ran."""
    first, last = parts[0][1], parts[-1][2]
    figure, axes = new_figure(height=2.4)
    for number, (name, begin, end) in enumerate(parts):
        colour = PALETTE[number % len(PALETTE)]
        axes.broken_barh([((begin - first) / 1e3, (end - begin) / 1e3)], (1.1, 0.7), color=colour)
        middle = ((begin + end) / 2 - first) / 1e3
        height = 1.9 + 0.35 * (number % 2)  # neighbours may be narrower than their names
        axes.annotate(name, (middle, height), ha="center", va="bottom")
    within = [(b, e) for b, e in operators if first <= b and e <= last]
    bars = [((begin - first) / 1e3, (end - begin) / 1e3) for begin, end in within]
    axes.broken_barh(bars, (0.2, 0.7), color=INK, linewidth=0)
    axes.set_yticks([0.55, 1.45], ["operators", "parts"])
    axes.set(xlabel="time (ms)", ylim=(0, 2.75), xlim=(0, (last - first) / 1e3))
    return figure


def traces(seen: Mapping[str, Mapping[str, Sequence[tuple[str, float, float]]]]) -> Figure:
    """Draw what ``on_gpu.trace`` saw of each call, one above the other, each on its line of
    time."""
    figure, panels = new_figure(2.3 * len(seen), nrows=len(seen), sharex=True)
    for axes, (name, kinds) in zip(panels, seen.items(), strict=True):
        for row, (kind, colour) in enumerate(zip(kinds, PALETTE, strict=False)):
            bars = [(begin, end - begin) for _, begin, end in kinds[kind]]
            axes.broken_barh(bars, (len(kinds) - 1 - row - 0.35, 0.7), color=colour, linewidth=0)
        axes.set_yticks(range(len(kinds)), list(kinds)[::-1])
        axes.grid(visible=False, axis="y")
        axes.set_title(name)
    panels[-1].set_xlim(0, None)
    panels[-1].set_xlabel("time (µs)")
    return figure
