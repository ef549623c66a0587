"""The figures of the chapter on kernels."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, as_series, new_figure

__all__ = ["row_lanes"]


def row_lanes(steps: Mapping[str, ArrayLike], num_columns: int) -> Figure:
    """Draw what every lane of a block holds after each step, from top to bottom, and the sum over
    all lanes.

    Args:
        steps: what each step is called, and the values of its lanes, (BLOCK,).
        num_columns: how many lanes hold the row; those after them are padding, and hatched where
            they are not 0.

    Raises:
        ValueError: the steps differ in the number of lanes, or there are fewer lanes than columns.
    """
    width = len(next(iter(steps.values())))  # type: ignore[arg-type]
    if not 0 < num_columns <= width:
        raise ValueError(
            f"num_columns must be from 1 to the number of lanes: got {num_columns}, {width} lanes"
        )
    figure, axes = new_figure(0.9 + 0.62 * len(steps))
    for line, (name, values) in enumerate(steps.items()):
        held = as_series(name, values, width)
        for lane, value in enumerate(held):
            padding = lane >= num_columns
            counts = padding and value != 0
            cell = Rectangle(
                (lane, line),
                0.94,
                0.8,
                facecolor=RULE if padding else PAPER,
                edgecolor=INK,
                linewidth=1,
            )
            axes.add_patch(cell)
            if counts:  # told by hatching as well as by colour
                cell.set(edgecolor=PALETTE[1], hatch="///", linewidth=1.6)
            box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5} if counts else None
            text = f"{value:g}".replace("-", "−")
            axes.text(lane + 0.47, line + 0.4, text, ha="center", va="center", bbox=box)
        total = f"{held.sum():g}".replace("-", "−")
        axes.text(width + 0.6, line + 0.4, total, ha="center", va="center", weight="bold")
    axes.set_yticks([line + 0.4 for line in range(len(steps))], labels=list(steps))
    labels = [f"lane {lane}" if lane == 0 else str(lane) for lane in range(width)]
    axes.set_xticks([lane + 0.47 for lane in range(width)] + [width + 0.6], labels=[*labels, "sum"])
    axes.set(xlim=(-0.1, width + 1.2), ylim=(len(steps) + 0.1, -0.15))
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure
