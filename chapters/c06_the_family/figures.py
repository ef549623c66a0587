"""The family of norms as a map: who shares a statistic in each, and what turns one into another.
Chapter 06."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, RULE, new_figure

__all__ = ["norm_map"]

# Lengths in cells of a panel.
_ACROSS, _DOWN = 4.0, 3.55  # between panels, beside the room for the notes
_LINE = 0.85  # of a note


def norm_map(
    panels: Mapping[str, ArrayLike],
    rows: Sequence[Sequence[str]],
    arrows: Sequence[tuple[str, str, str]],
    notes: Mapping[str, str],
) -> Figure:
    """Draw a panel for each norm, samples down and channels across, numbered by the statistic that
    each map uses.

    Args:
        panels: a name and the number of each map's statistic, (N, C), all of one shape; −1 where a
            map has none.
        rows: the names in the order in which the panels stand.
        arrows: from a panel, to its neighbour, and what turns the one into the other.
        notes: what stands under a panel; its lines should be no wider than the panel and half the
            gaps beside it.

    Raises:
        ValueError: the panels differ in shape, or an arrow leads to no panel.
    """
    numbers = {name: np.asarray(values) for name, values in panels.items()}
    shapes = {values.shape for values in numbers.values()}
    if len(shapes) != 1:
        raise ValueError(f"panels must have one shape (N, C): got {sorted(shapes)}")
    samples, channels = shapes.pop()
    room = _LINE * max((len(note.splitlines()) for note in notes.values()), default=0)
    across, down = channels + _ACROSS, samples + _DOWN + room
    corners = {
        name: (x * across, y * down)
        for y, row in enumerate(rows)
        for x, name in enumerate(row)
        if name
    }
    if strangers := {name for start, end, _ in arrows for name in (start, end)} - set(corners):
        raise ValueError(
            f"arrows must join panels that are drawn: got {', '.join(sorted(strangers))}"
        )

    width, height = across * max(map(len, rows)) - _ACROSS, down * len(rows) - _DOWN - room
    left, top, bottom = 2.1, 1.9, 0.85 + room
    figure, axes = new_figure(height=7.4 * (height + top + bottom) / (width + 2 * left))
    axes.set_axis_off()
    axes.set(xlim=(-left, width + left), ylim=(height + bottom, -top), aspect="equal")
    for name, corner in corners.items():
        _draw_panel(axes, name, numbers[name], corner, notes.get(name, ""))
    axes.text(
        -0.4, samples / 2, "sample", rotation=90, ha="right", va="center", color=MUTED, fontsize=9
    )
    for start, end, label in arrows:
        _draw_arrow(axes, corners[start], corners[end], (channels, samples), room, label)
    return figure


def _draw_panel(
    axes: Axes, name: str, numbers: np.ndarray, corner: tuple[float, float], note: str
) -> None:
    x, y = corner
    samples, channels = numbers.shape
    for (sample, channel), number in np.ndenumerate(numbers):
        place = (x + channel, y + sample)
        axes.add_patch(Rectangle(place, 1, 1, facecolor=PAPER, edgecolor=RULE, linewidth=0.8))
        if number >= 0:  # tinted, so that the number on it stays legible
            colour = PALETTE[number % 6]
            axes.add_patch(Rectangle(place, 1, 1, facecolor=colour, alpha=0.3, edgecolor="none"))
            axes.text(
                place[0] + 0.5, place[1] + 0.52, str(number), ha="center", va="center", fontsize=8.5
            )
    axes.add_patch(Rectangle(corner, channels, samples, fill=False, edgecolor=INK, linewidth=1))
    axes.text(
        x + channels / 2, y - 0.45, name, ha="center", va="bottom", weight="bold", fontsize=10.5
    )
    axes.text(
        x + channels / 2, y + samples + 0.4, note, ha="center", va="top", color=MUTED, fontsize=9
    )


def _draw_arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    size: tuple[int, int],
    room: float,
    label: str,
) -> None:
    """Draw an arrow between neighbours in a row or in a column, below ``room`` for a note, its
    label beside it."""
    channels, samples = size
    style = {"arrowstyle": "->", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    if start[1] == end[1]:
        y, tail, head = start[1] + samples / 2, start[0] + channels + 0.4, end[0] - 0.4
        axes.annotate("", (head, y), (tail, y), arrowprops=style)
        axes.text((tail + head) / 2, y - 0.3, label, ha="center", va="bottom", fontsize=9)
    else:
        x, tail, head = start[0] + channels / 2, start[1] + samples + 0.5 + room, end[1] - 1.4
        axes.annotate("", (x, head), (x, tail), arrowprops=style)
        axes.text(x + 0.4, (tail + head) / 2, label, ha="left", va="center", fontsize=9)
