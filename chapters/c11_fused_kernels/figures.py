"""The figures of the chapter on kernels."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, as_series, new_figure

__all__ = ["row_slots", "slots_of_a_lane"]

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
    """Draw which slots of a block one lane holds: ``at_once`` of each load, whose bytes lie
    together; 32 lanes a warp, ``loads`` loads."""
    figure, axes = new_figure(3.1)
    figure.set_figwidth(_PHONE)
    for load in range(loads):
        for warp in range(warps):
            place = warp * 33.0, float(load)
            axes.add_patch(Rectangle(place, 32, 0.7, facecolor=RULE, edgecolor=INK, linewidth=0.6))
            first = (load * warps + warp) * 32 * at_once
            if not warp:
                axes.add_patch(Rectangle((lane, load), 1.6, 0.7, facecolor=PALETTE[1]))
                own = first + lane * at_once
                text = f"{own}–{own + at_once - 1}"
                axes.text(lane + 2, load + 0.35, text, va="center", size=8)
    words = f"lane {lane} of warp 0 holds {loads} × {at_once} slots,\n"
    words += f"a load of 16 bytes for each {at_once} in bfloat16"
    axes.text(0, loads + 0.05, words, va="top", size=10)
    each = 32 * at_once * warps
    axes.set_yticks(
        [load + 0.35 for load in range(loads)],
        labels=["slot 0", *(f"{load * each}" for load in range(1, loads))],
        size=10,
    )
    axes.set_xticks([warp * 33.0 + 16 for warp in range(warps)])
    axes.set_xticklabels([f"warp {warp}" for warp in range(warps)], size=10)
    axes.set(xlim=(-0.5, warps * 33), ylim=(loads + 1.0, -0.05))
    _without_axes(axes)
    axes.xaxis.tick_top()
    return figure


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _without_axes(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
