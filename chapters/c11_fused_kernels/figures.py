"""The figures of the chapter on kernels."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from chapters.c11_fused_kernels.on_gpu import COPY
from course_utils.plots.style import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    as_series,
    marker_style,
    new_figure,
)

__all__ = ["row_slots", "shares_of_a_copy", "slots_of_a_lane"]

_PHONE = 3.6  # inches: 360 pixels, so that nothing is cut off or made small on a phone


def row_slots(steps: Mapping[str, ArrayLike], num_columns: int) -> Figure:
    """Draw what every slot of a block holds after each step, a column a step, and below the sum
    over all slots.

    Args:
        steps: what each step is called, and the values of its slots, (BLOCK,).
        num_columns: how many slots hold the row; those after them are padding, and hatched where
            they are not 0.

    Raises:
        ValueError: the steps differ in the number of slots, or there are fewer slots than columns.
    """
    width = len(next(iter(steps.values())))  # type: ignore[arg-type]
    if not 0 < num_columns <= width:
        raise ValueError(
            f"num_columns must be from 1 to the number of slots: got {num_columns}, {width} slots"
        )
    figure, axes = new_figure(1.1 + 0.31 * (width + 1))
    figure.set_figwidth(_PHONE)
    for column, (name, values) in enumerate(steps.items()):
        held = as_series(name, values, width)
        for slot, value in enumerate(held):
            padding = slot >= num_columns
            fill = RULE if padding else PAPER
            cell = Rectangle((column, slot), 0.92, 0.88, facecolor=fill, edgecolor=INK)
            axes.add_patch(cell)
            counts = padding and value != 0
            if counts:  # told by hatching as well as by colour
                cell.set(edgecolor=PALETTE[1], hatch="///", linewidth=1.6)
            box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5} if counts else None
            axes.text(
                column + 0.46, slot + 0.44, _signed(value), bbox=box, ha="center", va="center"
            )
        total = _signed(held.sum())
        axes.text(column + 0.46, width + 0.6, total, weight="bold", ha="center", va="center")
    rows = [f"slot {slot}" if slot == 0 else str(slot) for slot in range(width)]
    axes.set_yticks([slot + 0.44 for slot in range(width)] + [width + 0.6], labels=[*rows, "sum"])
    axes.set_xticks([column + 0.46 for column in range(len(steps))], labels=list(steps), size=9.5)
    axes.set(xlim=(-0.05, len(steps)), ylim=(width + 1.1, -0.05))
    _without_axes(axes)
    axes.xaxis.tick_top()
    return figure


def slots_of_a_lane(warps: int = 4, loads: int = 4, lane: int = 1, at_once: int = 8) -> Figure:
    """Draw which slots of a block each warp loads and which one lane holds, ``at_once`` of each
    load; and below the bytes of warp 0's first load, a piece a lane, beside pieces that lie
    64 bytes apart, half of a sector of 32 each."""
    figure, (above, below) = new_figure(5.0, nrows=2, height_ratios=(5, 3.4))
    figure.set_figwidth(_PHONE)
    for load in range(loads):
        for warp in range(warps):
            place = warp * 33.0, float(load)
            first = (load * warps + warp) * 32 * at_once
            chosen = load == warp == 0
            fill = PALETTE[5] if chosen else RULE
            above.add_patch(Rectangle(place, 32, 0.7, facecolor=fill, edgecolor=INK, linewidth=0.6))
            above.add_patch(Rectangle((place[0] + lane, load), 1.6, 0.7, facecolor=PALETTE[1]))
            text = f"{first}–{first + 32 * at_once - 1}"
            above.text(place[0] + 17.5, load + 0.35, text, ha="center", va="center", size=7)
    above.set_yticks([load + 0.35 for load in range(loads)])
    above.set_yticklabels([f"load {load}" for load in range(loads)], size=10)
    above.set_xticks([warp * 33.0 + 16 for warp in range(warps)])
    above.set_xticklabels([f"warp {warp}" for warp in range(warps)], size=10)
    above.set(xlim=(-0.5, warps * 33), ylim=(loads, -0.05))
    above.xaxis.tick_top()
    above.set_xlabel(f"numbers: slots; orange: lane {lane} of each warp", size=9.5)
    words = (
        "load 0 of warp 0: one stretch of 512 bytes",
        "64 bytes from lane to lane: half is used",
    )
    for row, (gap, title) in enumerate(zip((1.0, 4.0), words, strict=True)):
        below.text(0, 1.7 * row - 0.15, title, size=9.5, va="bottom")
        for number in range(32):
            colour = PALETTE[1] if number == lane else PALETTE[5]
            piece = Rectangle((number * gap, 1.7 * row), 1, 0.7, facecolor=colour, edgecolor=INK)
            piece.set_linewidth(0.5)
            if gap > 1:  # the sector of 32 bytes that is fetched with the piece
                whole = Rectangle((number * gap, 1.7 * row), 2, 0.7, facecolor=RULE)
                whole.set(edgecolor=INK, linewidth=0.5)
                below.add_patch(whole)
            below.add_patch(piece)
    below.text(34, 0.35, "16 bytes a lane", size=9, va="center")
    below.set(xlim=(-0.5, 128.5), ylim=(2.6, -0.8), yticks=[], xticks=[0, 32, 64, 128])
    below.set_xticklabels(["0", "512", "1024", "2048"], size=9.5)
    below.set_xlabel("bytes", size=9.5)
    for axes in (above, below):
        _without_axes(axes)
    return figure


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _without_axes(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def shares_of_a_copy(lengths: Sequence[int], rates: Mapping[str, Sequence[float]]) -> Figure:
    """Draw what ``on_gpu.rates_of`` returns, in percent of the copy, against the length of a
    row."""
    figure, axes = new_figure(3.6)
    axes.axhline(100, color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
    axes.text(lengths[-1], 101.5, COPY, ha="right", va="bottom")
    shares = {
        way: [100 * rate / copied for rate, copied in zip(gbps, rates[COPY], strict=True)]
        for way, gbps in rates.items()
        if way != COPY
    }
    # named where the lines are furthest apart, the highest above it and the others below
    columns = [sorted(column) for column in zip(*shares.values(), strict=True)]
    gaps = [min(np.diff(column), default=0.0) for column in columns]
    place = gaps.index(max(gaps))
    for series, (way, line) in enumerate(shares.items()):
        axes.plot(lengths, line, **marker_style(series), color=PALETTE[series], label=way)
        above = line[place] == columns[place][-1]
        offset, va = ((0, 8), "bottom") if above else ((0, -8), "top")
        spot, look = (lengths[place], line[place]), {"ha": "center", "va": va}
        axes.annotate(way, spot, offset, textcoords="offset points", **look)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set(xlabel="numbers in a row", ylabel="% of a copy's bandwidth", ylim=(0, 115))
    return figure
