"""The figures of the chapter on time."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from chapters.c10_where_the_time_goes.exercises import longest_gap
from course_utils.plots.style import (
    INK,
    MUTED,
    PALETTE,
    PAPER,
    line_style,
    marker_style,
    new_figure,
    series_of,
)
from course_utils.table import format_number

__all__ = [
    "against_bytes",
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
    moved: Mapping[str, float],
) -> Figure:
    """Draw the roof and, under it, what was reached; both axes are logarithmic.

    Args:
        bandwidth_gbps: what memory delivers, in 1e9 bytes per second: the slope of the roof.
        peak_gflops: what products of matrices deliver, in 1e9 operations per second, a fused
            multiply-add counted as two: its flat part.
        points: a name, its operations per byte and its rate in 1e9 operations per second.
        moved: operations for each byte that really moves, by the name of a point; a hollow point
            at the same rate, joined to the filled one.

    Raises:
        ValueError: a number that is not positive has no place on a logarithmic axis.
    """
    numbers = [
        bandwidth_gbps,
        peak_gflops,
        *moved.values(),
        *(number for point in points.values() for number in point),
    ]
    if not min(numbers) > 0:
        raise ValueError(f"bandwidth, peak and points must be positive: got {min(numbers):g}")
    figure, axes = new_figure(height=4.8)
    ridge = peak_gflops / bandwidth_gbps
    intensities = [*moved.values(), *(intensity for intensity, _ in points.values())]
    # right of the ridge the words for its flat part need room
    low, high = min([*intensities, ridge]) / 8, max([*intensities, 6 * ridge]) * 4
    x = np.array([low, ridge, high])
    axes.plot(
        x, np.minimum(peak_gflops, x * bandwidth_gbps), color=INK, linestyle="-", linewidth=2.4
    )
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="rate (GFLOP/s)")
    axes.set_ylim(top=peak_gflops * 6)
    # the ridge, above the roof, where no point and no name lies
    axes.plot(
        [ridge, ridge], [peak_gflops, peak_gflops * 6], color=MUTED, linestyle=":", linewidth=1.4
    )
    limit = {"xycoords": "data", "textcoords": "offset points"}
    axes.annotate(
        f"memory: {bandwidth_gbps:,.3g} GB/s", (low, low * bandwidth_gbps), (14, -3), **limit
    )
    axes.annotate(
        f"arithmetic:\n{peak_gflops:,.3g} GFLOP/s", (high, peak_gflops), (0, 7), ha="right", **limit
    )
    for words, offset, side in (("limited by bytes", -6, "right"), ("by arithmetic", 6, "left")):
        look = {"ha": side, "va": "top", "color": MUTED, "weight": "bold"}
        axes.annotate(words, (ridge, peak_gflops * 6), (offset, -2), **look, **limit)
    forms = [name.removeprefix("eager, ") for name in points]
    low_gflops = 0.6 * min(low * bandwidth_gbps, *(rate for _, rate in points.values()))
    axes.set_ylim(bottom=low_gflops)
    line_of_text = (peak_gflops * 6 / low_gflops) ** 0.055  # a factor of the rate
    free: dict[float, float] = {}  # above the names that one intensity has already
    of_rate = sorted(
        zip(series_of(forms), points.items(), strict=True), key=lambda each: each[1][1][1]
    )
    for series, (name, (intensity, rate)) in of_rate:
        # no colour comes twice with one marker
        marker = marker_style(series + series // len(PALETTE))
        look = {**marker, "color": PALETTE[series % len(PALETTE)], "linestyle": ""}
        axes.plot(intensity, rate, **look, markersize=9, label=name)
        if name in moved:
            pale = {"color": look["color"], "linestyle": "-", "linewidth": 1.2, "zorder": 1.5}
            axes.plot([moved[name], intensity], [rate, rate], **pale, label="_moved")
            edge = {"markeredgecolor": look["color"], "markeredgewidth": 1.8}
            hollow = {**look, "markerfacecolor": PAPER, **edge}
            axes.plot(moved[name], rate, **hollow, markersize=8, label="_moved")
        place = max(rate, free.get(intensity, 0.0))
        free[intensity] = place * line_of_text
        is_right = intensity > ridge
        if intensity == min(intensities) < max(intensities):  # above the slope nothing else stands
            words, nudge, side = name.replace(" of ", " of\n"), (-9, 2), "right"
        elif is_right:
            words, nudge, side = name, (24, -18), "right"
        else:
            words, nudge, side = name, (9, -4), "left"
        axes.annotate(words, (intensity, place), nudge, ha=side, **limit)
    return figure


def against_bytes(
    measured_ms: Mapping[str, float], by_bytes_ms: Mapping[str, float], copy_ms: float
) -> Figure:
    """Draw a bar for each way to write one layer, as long as it takes, with a mark where its bytes
    would end at the pace of a copy, and a line at the time of the copy itself."""
    figure, axes = new_figure(height=1.3 + 0.5 * len(measured_ms))
    longest = max(*measured_ms.values(), *by_bytes_ms.values())
    for place, series in enumerate(series_of(measured_ms)):
        name = [*measured_ms][place]
        measured, by_bytes = measured_ms[name], by_bytes_ms[name]
        axes.barh(place, measured, 0.62, color=PALETTE[series % len(PALETTE)])
        axes.vlines(by_bytes, place - 0.42, place + 0.42, color=PAPER, linewidth=4)
        axes.vlines(by_bytes, place - 0.42, place + 0.42, color=INK, linewidth=2)
        end = max(measured, by_bytes) + longest / 60
        axes.text(end, place, f"{measured:.3g} ms", va="center")
    first = next(iter(by_bytes_ms.values()))
    axes.annotate(
        "what its bytes take",
        (first, -0.45),
        (0, 3),
        ha="center",
        va="bottom",
        textcoords="offset points",
    )
    axes.axvline(copy_ms, color=MUTED, linewidth=1.4, linestyle=(0, (4, 2)), zorder=0.5)
    bottom = len(measured_ms) - 0.2
    axes.annotate(
        f"a copy: {copy_ms:.3g} ms",
        (copy_ms, bottom),
        (4, 2),
        va="bottom",
        color=MUTED,
        textcoords="offset points",
    )
    names = [name.replace("deviation ", "deviation\n") for name in measured_ms]
    axes.set_yticks(range(len(names)), labels=names)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="time (ms)", xlim=(0, 1.2 * longest), ylim=(bottom + 0.15, -1.0))
    return figure


def recorded_ladder(
    record: Any,
    operation: str,
    direction: str,
    shape: tuple[int, ...],
    dtype: str,
    ways: Collection[str] = (),
) -> Figure:
    """Draw one case of a record: a bar for each implementation, the fastest on top, and a line
    where a copy stands.

    The bandwidth is the bytes that had to move over the median time. Where several processes
    measured, a whisker spans the medians that they found.

    Args:
        record: as ``records.load`` returns it.
        operation, direction, shape, dtype: the case, as ``ladder.Case`` has it.
        ways: the implementations to draw; by default all.

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
    if ways:
        slow_to_fast = [r for r in slow_to_fast if r["implementation"] in ways]
    if not slow_to_fast:
        raise ValueError(f"record must hold the case: got {record.name}, without {words}")
    several = record.provenance["processes"] > 1
    copy_gbps = slow_to_fast[0]["copy_gbps"]

    figure, axes = new_figure(height=1.2 + 0.33 * len(slow_to_fast))
    furthest = copy_gbps
    for place, result in enumerate(slow_to_fast):
        megabytes = result["bytes_moved"] / 1e6
        gbps, high, low = (megabytes / ms for ms in (result["median_ms"], *result["range_ms"]))
        by_operators = result["implementation"].startswith(("eager", "autograd", "loops"))
        axes.barh(place, gbps, color=PALETTE[1 if by_operators else 2])
        # inside its bar, where a whisker leaves room and the copy's line would be near
        is_inside = not several and gbps > copy_gbps / 2
        look = {"ha": "right", "color": "white"} if is_inside else {}
        end = (max(gbps, high) if several else gbps) + copy_gbps / 60 * (-1 if is_inside else 1)
        axes.text(end, place, f"{gbps / copy_gbps:.0%}", va="center", weight="bold", **look)
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
    words_of_kinds = (("one kernel", 2, len(slow_to_fast) - 1), ("an operator at a time", 1, 0))
    for kind, colour, place in words_of_kinds:
        look = {"color": PALETTE[colour], "weight": "bold", "backgroundcolor": PAPER}
        axes.text(1.04 * copy_gbps, place, kind, va="center", **look)
    axes.annotate(
        f"a copy: {format_number(copy_gbps)} GB/s",
        (copy_gbps, -0.85),
        (-5, 0),
        ha="right",
        va="center",
        textcoords="offset points",
    )
    names = [result["implementation"].removeprefix("peer: ") for result in slow_to_fast]
    axes.set_yticks(range(len(names)), labels=names)
    axes.grid(visible=False, axis="y")
    axes.set(xlim=(0, 1.55 * furthest), ylim=(-1.25, len(slow_to_fast) - 0.5))
    xlabel = "useful bandwidth (GB/s)"
    if several:
        xlabel += "; line: slowest to fastest process"
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
    """Draw rates, in the bytes that are moved, against the size of the input, and where input and
    output together outgrow each cache; at the end of each line stands its name."""
    figure, axes = new_figure()
    highest = max(max(line) for line in gbps.values())
    lowest = min(min(line) for line in gbps.values())
    line_of_text = (highest / lowest) ** 0.075  # a factor of the rate
    taken = 0.0
    ends = sorted(zip(gbps.items(), series_of(gbps), strict=True), key=lambda each: each[0][1][-1])
    for (name, line), series in ends:
        look = {**line_style(series), **marker_style(series), "markersize": 7}
        axes.plot(sizes_kb, line, **look)
        taken = max(line[-1], taken * line_of_text)
        beside = axes.get_yaxis_transform()
        axes.plot(1.04, taken, **look, transform=beside, clip_on=False, label="_name")
        axes.annotate(
            name, (1.08, taken), xycoords=beside, va="center", color=INK, annotation_clip=False
        )
    smallest, largest = sizes_kb[0] / 1.6, sizes_kb[-1] * 1.6
    axes.set(xscale="log", xlim=(smallest, largest))
    axes.set(yscale="log", ylim=(lowest / 1.3, 1.3 * highest))
    axes.set(xlabel="size of the input", ylabel="bytes moved (GB/s)")
    shown = sizes_kb[:: 1 + (len(sizes_kb) - 1) // 9]
    axes.set_xticks(list(shown), [_size(kb) for kb in shown])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    ends_kb = [kb / 2 for kb in caches_kb.values() if kb / 2 < largest]
    for end in ends_kb:
        axes.axvline(end, color=MUTED, linewidth=1.2, linestyle=":")
    borders = [smallest, *ends_kb, largest]
    names = [*caches_kb][: len(ends_kb)] + ["memory"] * (len(ends_kb) == len(caches_kb))
    for name, left, right in zip(names, borders, borders[1:], strict=False):
        # above the axes, where no line is; memory's share of them may be narrower than its name
        place, side = (left, "left") if name == "memory" else ((left * right) ** 0.5, "center")
        axes.text(
            place, 1.01, name, transform=axes.get_xaxis_transform(),
            ha=side, va="bottom", color=MUTED, weight="bold",
        )  # fmt: skip
    return figure


def _size(kilobytes: float) -> str:
    for unit in ("kB", "MB"):
        if kilobytes < 1024:
            return f"{kilobytes:.3g}\n{unit}"
        kilobytes /= 1024
    return f"{kilobytes:.3g}\nGB"


def timeline(
    parts: Sequence[tuple[str, float, float]], operators: Sequence[tuple[float, float]]
) -> Figure:
    """Draw the marked parts of a program, each with its name, begin and end in µs, and below them
    when an operator ran."""
    first, last = parts[0][1], parts[-1][2]
    figure, axes = new_figure(height=2.4)
    for name, begin, end in parts:
        bar = [((begin - first) / 1e3, (end - begin) / 1e3)]
        axes.broken_barh(bar, (1.1, 0.6), facecolor=MUTED, edgecolor="white", linewidth=2)
        middle = ((begin + end) / 2 - first) / 1e3
        is_wide = end - begin > 0.25 * (last - first)
        look = {"color": "white", "weight": "bold"} if is_wide else {}
        axes.text(middle, 1.4 if is_wide else 1.9, name, ha="center", va="center", **look)
    within = [(b, e) for b, e in operators if first <= b and e <= last]
    pixel = (last - first) / 900  # so wide at least, or it would not be seen
    bars = [((begin - first) / 1e3, max(end - begin, pixel) / 1e3) for begin, end in within]
    axes.broken_barh(bars, (0.2, 0.6), color=PALETTE[0], linewidth=0)
    begin, end = ((edge - first) / 1e3 for edge in longest_gap.oracle(within, first, last))
    axes.annotate(
        "", (begin, 0.5), (end, 0.5), arrowprops={"arrowstyle": "<->", "color": INK, "lw": 1.6}
    )
    middle = (begin + end) / 2
    axes.text(middle, 0.58, "no operator", ha="center", va="bottom", weight="bold")
    axes.text(middle, 0.42, f"{end - begin:.0f} ms", ha="center", va="top", weight="bold")
    axes.set_yticks([0.5, 1.4], ["operators", "parts"])
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="time (ms)", ylim=(0, 2.15), xlim=(0, (last - first) / 1e3))
    return figure


def traces(seen: Mapping[str, Mapping[str, Sequence[tuple[str, float, float]]]]) -> Figure:
    """Draw what ``on_gpu.trace`` saw of each call, one above the other, each on its line of time,
    say how much of the time from its first kernel to its last a kernel runs, and number those of
    more than 20 µs."""
    figure, panels = new_figure(1.9 * len(seen) + 0.4, nrows=len(seen), sharex=True)
    for axes, (name, kinds) in zip(panels, seen.items(), strict=True):
        for row, kind in enumerate(kinds):
            bars = [(begin, end - begin) for _, begin, end in kinds[kind]]
            colour = PALETTE[2] if kind == "kernels" else MUTED
            axes.broken_barh(bars, (len(kinds) - 1 - row - 0.35, 0.7), color=colour, linewidth=0)
        # the long kernels, numbered
        long = [(begin + end) / 2 for _, begin, end in kinds["kernels"] if end - begin > 20]
        for number, middle in enumerate(long, 1):
            look = {"color": "white", "weight": "bold"}
            axes.text(middle, 0, str(number), ha="center", va="center", **look)
        axes.set_yticks(range(len(kinds)), list(kinds)[::-1])
        axes.grid(visible=False, axis="y")
        kernels = kinds["kernels"]
        span = kernels[-1][2] - kernels[0][1]
        busy = sum(end - begin for _, begin, end in kernels) / span
        axes.set_title(f"{name}: at work {busy:.0%}")
    panels[-1].set_xlim(0, None)
    panels[-1].set_xlabel("time (µs)")
    return figure
