"""The map of the course: a card for each chapter with its ideas, an arrow to what builds on it.

An arrow that follows from others is left out. A mark on a card's corner tells the learner's
progress by its shape. On a phone a card holds its title alone. Chapter 00.
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


@dataclass(frozen=True)
class _Sizes:
    """In pixels of the page, but for the letters' points: the figure, a card, the gaps between
    cards, the lines of text in a card, the margins, the radius of a progress mark."""

    width: int
    card: int
    gap: int
    row_gap: int
    line: int
    padding: int
    left: int
    mark: int
    letters: float
    title_characters: int
    has_ideas: bool


_PAGE = _Sizes(760, 156, 32, 34, 15, 8, 10, 8, 8, 21, has_ideas=True)
_PHONE = _Sizes(360, 74, 15, 22, 12, 5, 4, 5, 6.2, 11, has_ideas=False)


@dataclass(frozen=True)
class _Card:
    """Where a chapter stands: the left and top of its card, in pixels from the figure's left and
    top."""

    chapter: Chapter
    sizes: _Sizes
    left: int
    top: int

    @property
    def title(self) -> list[str]:
        return wrap(self.chapter.label, self.sizes.title_characters)

    @property
    def ideas(self) -> list[str]:
        return [idea.name for idea in self.chapter.ideas] if self.sizes.has_ideas else []

    @property
    def right(self) -> int:
        return self.left + self.sizes.card

    @property
    def height(self) -> int:
        return 2 * self.sizes.padding + self.sizes.line * (len(self.title) + len(self.ideas))

    def line(self, index: int) -> float:
        """Return the height of the middle of a line of text."""
        return self.top + self.sizes.padding + self.sizes.line * (index + 0.5)


def course_map(
    chapters: Sequence[Chapter], passed: Collection[str] = (), *, for_phone: bool = False
) -> Figure:
    """Draw the chapters from top to bottom, each below those it builds on.

    Args:
        chapters: each after those it builds on; ``column`` is its place from the left, ``part`` its
            colour.
        passed: the exercises that the learner has passed.
        for_phone: half as wide, and without the ideas.
    """
    sizes = _PHONE if for_phone else _PAGE
    cards = _lay_out(chapters, sizes)
    colours = _colours(chapters)
    step, mark = sizes.line + 4, sizes.mark
    legend_top = next(card.top for card in cards if card.top > cards[0].top) + 2 * mark
    height = max(card.top + card.height for card in cards) + sizes.mark + 6

    figure, axes = new_figure(height=height / 100)
    figure.set_figwidth(sizes.width / 100)
    figure.set_layout_engine("none")
    axes.set_position((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, sizes.width), ylim=(height, 0))
    by_number = {card.chapter.number: card for card in cards}
    for card in cards:
        for earlier in _nearest(card.chapter, chapters):
            _arrow(axes, by_number[earlier], card)
    for card in cards:
        _draw_card(axes, card, colours[card.chapter.part])
        _draw_mark(axes, (card.right, card.top), mark, _share_passed(card.chapter, passed))
    for row, (share, colour, text) in enumerate(_legend(colours)):
        place = (sizes.left + mark, legend_top + step * row)
        if colour:
            axes.plot(*place, marker="s", color=colour, markersize=mark)
        _draw_mark(axes, place, mark, share)
        words = {"va": "center_baseline", "fontsize": sizes.letters + 0.5}
        axes.text(place[0] + 2 * mark, place[1], text, color=INK, **words)
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


def _lay_out(chapters: Sequence[Chapter], sizes: _Sizes) -> list[_Card]:
    """Return the cards, each below the lowest that it builds on, where its column is free."""
    rows: dict[str, int] = {}
    taken = set()
    for chapter in chapters:
        row = 1 + max((rows[earlier] for earlier in chapter.builds_on), default=-1)
        while (row, chapter.column) in taken:
            row += 1
        rows[chapter.number] = row
        taken.add((row, chapter.column))
    cards, top = [], sizes.mark + 6
    for row in range(1 + max(rows.values())):
        in_row = [
            _Card(chapter, sizes, sizes.left + chapter.column * (sizes.card + sizes.gap), top)
            for chapter in chapters
            if rows[chapter.number] == row
        ]
        cards += in_row
        top += sizes.row_gap + max(card.height for card in in_row)
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
    return [*parts, (1.0, None, "passed"), (0.5, None, "begun"), (0.0, None, "open")]


def _draw_card(axes: Axes, card: _Card, colour: str) -> None:
    sizes = card.sizes
    rounded = f"round,pad=0,rounding_size={sizes.padding - 1}"
    look: dict[str, Any] = {"facecolor": PAPER, "edgecolor": colour, "zorder": 2}
    look["linewidth"] = sizes.mark / 4
    place = (card.left, card.top)
    axes.add_patch(FancyBboxPatch(place, sizes.card, card.height, rounded, **look))
    words: dict[str, Any] = {"va": "center_baseline", "fontsize": sizes.letters, "zorder": 4}
    left = card.left + sizes.padding + 1
    for row, line in enumerate(card.title):
        axes.text(left, card.line(row), line, weight="bold", **words)
    for row, idea in enumerate(card.ideas, len(card.title)):
        axes.text(left, card.line(row), idea, **words)


def _draw_mark(axes: Axes, place: tuple[float, float], radius: int, share: float | None) -> None:
    """Draw progress as a clock face: empty, filled from the top on, or full with a tick."""
    if share is None:
        return
    look: dict[str, Any] = {"edgecolor": INK, "zorder": 5}
    axes.add_patch(Circle(place, radius, facecolor=PAPER, linewidth=1.4, **look))
    if share == 1:
        axes.add_patch(Circle(place, radius, facecolor=INK, **look))
        (x, y), half = place, radius / 2
        ticks = (x - half, x - half / 4, x + half), (y, y + 0.75 * half, y - half)
        axes.plot(*ticks, color=PAPER, linestyle="-", linewidth=0.9 * half / 2, zorder=6)
    elif share > 0:
        axes.add_patch(Wedge(place, radius, -90, -90 + 360 * share, facecolor=INK, **look))


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
    sizes, bottom = later.sizes, earlier.top + earlier.height
    if later.top - bottom < 3 * sizes.row_gap:
        aside = ((earlier.left > later.left) - (earlier.left < later.left)) * sizes.card / 13
        middle = sizes.card / 2
        x0, x1 = earlier.left + middle - aside, later.left + middle + 2 * aside
        bend = later.top - sizes.row_gap / 2  # below the tallest card of the row above
        points = [(x0, bottom), (x0, bend), (x1, bend), (x1, later.top)]
    else:
        right, turn = later.right, later.right + 1.1 * sizes.gap
        x0, x1 = (right, turn) if later.left == earlier.left else (earlier.left, turn - sizes.gap)
        y0, y1 = earlier.line(0), later.line(0)
        points = [(x0, y0), (x1, y0), (turn, y1), (right, y1)]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    look: dict[str, Any] = {"color": MUTED, "linewidth": 0.19 * sizes.mark, "zorder": 1}
    head = f"-|>,head_width={0.38 * sizes.mark},head_length={0.75 * sizes.mark}"
    axes.add_patch(FancyArrowPatch(path=path, arrowstyle=head, **look))
