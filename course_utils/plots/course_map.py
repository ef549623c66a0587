"""The map of the course: a box for each chapter, and arrows for what builds on what."""

from collections.abc import Sequence
from textwrap import fill
from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["course_map"]

_WIDTH, _HEIGHT = 0.8, 0.62  # of a box, in units of the grid


class Chapter(Protocol):
    """What the map needs to know of a chapter."""

    @property
    def number(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def lane(self) -> int: ...
    @property
    def builds_on(self) -> tuple[str, ...]: ...
    @property
    def is_written(self) -> bool: ...


def course_map(chapters: Sequence[Chapter]) -> Figure:
    """Draw the chapters from left to right, an arrow to each from those it builds on; unwritten ones are dashed.

    Args:
        chapters: each after those it builds on; ``lane`` is its row, ``part`` its colour.
    """
    columns: dict[str, int] = {}
    for chapter in chapters:  # one to the right of the last that it builds on
        columns[chapter.number] = 1 + max((columns[earlier] for earlier in chapter.builds_on), default=-1)
    places = {chapter.number: (float(columns[chapter.number]), -float(chapter.lane)) for chapter in chapters}
    parts = list(dict.fromkeys(chapter.part for chapter in chapters))
    lanes = 1 + max(chapter.lane for chapter in chapters)

    figure, axes = new_figure(height=0.8 * lanes + 0.2)
    axes.set_axis_off()
    axes.set(xlim=(-0.45, max(columns.values()) + 0.45), ylim=(-lanes + 0.6, 0.4))
    for chapter in chapters:
        colour = PALETTE[parts.index(chapter.part) % len(PALETTE)]
        for earlier in chapter.builds_on:
            _arrow(axes, places[earlier], places[chapter.number])
        _box(axes, chapter, places[chapter.number], colour)
    for row, part in enumerate(parts):
        numbers = [chapter.number for chapter in chapters if chapter.part == part]
        label = f"{numbers[0]} to {numbers[-1]}  {part}" if len(numbers) > 1 else f"{numbers[0]}  {part}"
        colour = PALETTE[row % len(PALETTE)]
        axes.plot(-0.32, 0.25 - 0.27 * row, marker="s", color=colour, markersize=9)
        axes.text(-0.2, 0.25 - 0.27 * row, label, color=INK, va="center", fontsize=9.5)
    return figure


def _box(axes: Axes, chapter: Chapter, place: tuple[float, float], colour: str) -> None:
    x, y = place
    axes.add_patch(
        FancyBboxPatch(
            (x - _WIDTH / 2, y - _HEIGHT / 2),
            _WIDTH,
            _HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=PAPER,
            edgecolor=colour,
            linewidth=2.2 if chapter.is_written else 1.2,
            linestyle="-" if chapter.is_written else "--",
        )
    )
    ink = INK if chapter.is_written else MUTED
    axes.text(x, y + 0.18, chapter.number, color=ink, ha="center", va="center", fontsize=10, weight="bold")
    title = fill(chapter.title, 12, break_long_words=False)
    axes.text(x, y - 0.09, title, color=ink, ha="center", va="center", fontsize=8, linespacing=1.05)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow from the right side of one box to the left side of another."""
    (x0, y0), (x1, y1) = start, end
    axes.add_patch(
        FancyArrowPatch(
            (x0 + _WIDTH / 2, y0),
            (x1 - _WIDTH / 2, y1),
            arrowstyle="-|>",
            mutation_scale=9,
            linewidth=1.0,
            color=MUTED,
            shrinkA=0,
            shrinkB=0,
        )
    )
