"""The map of the course: a card for each chapter with its ideas, an arrow to what builds on it.

An arrow that follows from others is left out. A mark on a card's corner tells the learner's
progress by its shape. Chapter 00.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Wedge
from matplotlib.path import Path

from chapters.contents import Chapter
from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["course_map", "describe_course"]

# in pixels of the page: a card, the gaps between cards, the lines of text in a card, the margins
_CARD, _GAP, _ROW_GAP, _LINE, _PADDING, _LEFT, _TOP = 156, 32, 34, 15, 8, 10, 14
_WIDTH_PX = 760
_TITLE_CHARACTERS = 21
_MARK = 8  # the radius of a progress mark


@dataclass(frozen=True)
class _Card:
    """Where a chapter stands: the left and top of its card, in pixels from the figure's left and
    top."""

    chapter: Chapter
    left: int
    top: int

    @property
    def title(self) -> list[str]:
        return wrap(self.chapter.label, _TITLE_CHARACTERS)

    @property
    def height(self) -> int:
        return 2 * _PADDING + _LINE * (len(self.title) + len(self.chapter.ideas))

    def line(self, index: int) -> float:
        """Return the height of the middle of a line of text."""
        return self.top + _PADDING + _LINE * (index + 0.5)


def course_map(chapters: Sequence[Chapter], passed: Collection[str] = ()) -> Figure:
    """Draw the chapters from top to bottom, each below those it builds on.

    Args:
        chapters: each after those it builds on; ``column`` is its place from the left, ``part`` its
            colour.
        passed: the exercises that the learner has passed.
    """
    cards = _lay_out(chapters)
    colours = _colours(chapters)
    legend_top = cards[0].top + 2 * (_ROW_GAP + cards[0].height)
    legend = _legend(colours)
    height = max(*(card.top + card.height for card in cards), legend_top + 19 * len(legend)) + _TOP

    figure, axes = new_figure(height=height / 100)
    figure.set_layout_engine("none")
    axes.set_position((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, _WIDTH_PX), ylim=(height, 0))
    by_number = {card.chapter.number: card for card in cards}
    for card in cards:
        for earlier in _nearest(card.chapter, chapters):
            _arrow(axes, by_number[earlier], card)
    for card in cards:
        _draw_card(axes, card, colours[card.chapter.part])
        _draw_mark(axes, (card.left + _CARD, card.top), _share_passed(card.chapter, passed))
    for row, (share, colour, text) in enumerate(legend):
        place = (_LEFT + _MARK, legend_top + 19 * row)
        if colour:
            axes.plot(*place, marker="s", color=colour, markersize=8)
        _draw_mark(axes, place, share)
        axes.text(place[0] + 16, place[1], text, color=INK, va="center_baseline", fontsize=8.5)
    return figure


def describe_course(chapters: Sequence[Chapter], passed: Collection[str] = ()) -> str:
    """Return what the map shows, in words: each chapter with its ideas, what it builds on, and the
    progress in it."""
    return "Map of the course. " + " ".join(_describe(chapter, passed) for chapter in chapters)


def _describe(chapter: Chapter, passed: Collection[str]) -> str:
    ideas = f": {'; '.join(idea.name for idea in chapter.ideas)}" if chapter.ideas else ""
    notes = [f"builds on {', '.join(chapter.builds_on)}"] if chapter.builds_on else []
    if chapter.exercises:
        done = len(set(chapter.exercises) & set(passed))
        notes.append(f"exercises passed: {done} of {len(chapter.exercises)}")
    return chapter.label + ideas + (f" ({', '.join(notes)})" if notes else "") + "."


def _lay_out(chapters: Sequence[Chapter]) -> list[_Card]:
    """Return the cards, each below the lowest that it builds on, where its column is free."""
    rows: dict[str, int] = {}
    taken = set()
    for chapter in chapters:
        row = 1 + max((rows[earlier] for earlier in chapter.builds_on), default=-1)
        while (row, chapter.column) in taken:
            row += 1
        rows[chapter.number] = row
        taken.add((row, chapter.column))
    cards, top = [], _TOP
    for row in range(1 + max(rows.values())):
        in_row = [
            _Card(chapter, _LEFT + chapter.column * (_CARD + _GAP), top)
            for chapter in chapters
            if rows[chapter.number] == row
        ]
        cards += in_row
        top += _ROW_GAP + max(card.height for card in in_row)
    return cards


def _colours(chapters: Sequence[Chapter]) -> dict[str, str]:
    return dict(zip(dict.fromkeys(chapter.part for chapter in chapters), PALETTE, strict=False))


def _share_passed(chapter: Chapter, passed: Collection[str]) -> float | None:
    """Return the share of a chapter's exercises that are passed; None where there is nothing to
    pass."""
    if not chapter.exercises:
        return None
    return len(set(chapter.exercises) & set(passed)) / len(chapter.exercises)


def _legend(colours: dict[str, str]) -> list[tuple[float | None, str | None, str]]:
    """Return the legend's lines: a progress mark or none, the colour of a part or none, and the
    words."""
    parts: list[tuple[float | None, str | None, str]] = [
        (None, colour, part) for part, colour in colours.items()
    ]
    marks = [(1.0, None, "exercises passed"), (0.5, None, "some of them"), (0.0, None, "open")]
    return [*parts, *marks, (None, None, "arrow: what it leads to")]


def _draw_card(axes: Axes, card: _Card, colour: str) -> None:
    place, rounded = (card.left, card.top), "round,pad=0,rounding_size=7"
    look: dict[str, Any] = {"facecolor": PAPER, "edgecolor": colour, "linewidth": 2, "zorder": 2}
    axes.add_patch(FancyBboxPatch(place, _CARD, card.height, rounded, **look))
    words: dict[str, Any] = {"va": "center_baseline", "fontsize": 8, "zorder": 4}
    for row, line in enumerate(card.title):
        axes.text(card.left + 9, card.line(row), line, weight="bold", **words)
    for row, idea in enumerate(card.chapter.ideas, len(card.title)):
        axes.text(card.left + 9, card.line(row), idea.name, **words)


def _draw_mark(axes: Axes, place: tuple[float, float], share: float | None) -> None:
    """Draw progress as a clock face: empty, filled from the top on, or full with a tick."""
    if share is None:
        return
    axes.add_patch(Circle(place, _MARK, facecolor=PAPER, edgecolor=INK, linewidth=1.4, zorder=5))
    if share == 1:
        axes.add_patch(Circle(place, _MARK, facecolor=INK, edgecolor=INK, zorder=5))
        (x, y) = place
        axes.plot(
            (x - 4, x - 1, x + 4),
            (y, y + 3, y - 4),
            color=PAPER,
            linestyle="-",
            linewidth=1.8,
            zorder=6,
        )
    elif share > 0:
        axes.add_patch(
            Wedge(place, _MARK, -90, -90 + 360 * share, facecolor=INK, edgecolor=INK, zorder=5)
        )


def _nearest(chapter: Chapter, chapters: Sequence[Chapter]) -> list[str]:
    """Return what a chapter builds on, without what another of those leads to."""
    needs: dict[str, set[str]] = {}  # of each chapter, all before it
    for one in chapters:
        needs[one.number] = set(one.builds_on).union(*(needs[number] for number in one.builds_on))
    implied = set().union(*(needs[number] for number in chapter.builds_on))
    return [number for number in chapter.builds_on if number not in implied]


def _arrow(axes: Axes, earlier: _Card, later: _Card) -> None:
    """Draw an arrow down through the gap between two rows, or past the cards of a column on its
    right, or to the column on the left through the gap between the two."""
    bottom = earlier.top + earlier.height
    if later.top - bottom < 3 * _ROW_GAP:
        aside = (earlier.left > later.left) - (earlier.left < later.left)
        x0, x1 = earlier.left + _CARD / 2 - 12 * aside, later.left + _CARD / 2 + 24 * aside
        half = (later.top - bottom) / 2
        points = [(x0, bottom), (x0, bottom + half), (x1, later.top - half), (x1, later.top)]
    else:
        right, y0, y1 = later.left + _CARD, earlier.line(1), later.line(0)
        x0, x1 = (right, right + 36) if later.left == earlier.left else (earlier.left, right + 8)
        points = [(x0, y0), (x1, y0), (right + 36, y1), (right, y1)]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    look: dict[str, Any] = {"color": MUTED, "linewidth": 1.5, "zorder": 1}
    axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>,head_width=3,head_length=6", **look))
