"""The chapters of the course (``contents.toml``): their order, ideas and what those build on, and
the exercises.

Whatever lists chapters is made from here: the map, the lines that link a chapter back and on, the
tables of chapter 00 and of the README.
"""

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from course_utils.table import Inline, Table

__all__ = [
    "CHAPTERS",
    "NOTEBOOKS",
    "Chapter",
    "Idea",
    "chapter_of",
    "contents",
    "line_back",
    "line_on",
    "standing",
]

FOLDER = Path(__file__).parent
NOTEBOOKS = FOLDER.parent / "notebooks"


@dataclass(frozen=True)
class Idea:
    """What a chapter holds, in a few words. ``builds_on`` names ideas before it, of this chapter or
    of others."""

    name: str
    builds_on: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Chapter:
    """One notebook.

    Args:
        number, name, title: ``02``, ``layer_norm``, ``Layer norm``; the file and its heading are
            made of them.
        part: which part of the course it belongs to.
        column: where it stands on the map, from the left; its row follows from what it builds on.
        about: what a learner builds in it, in one line.
        ideas: two or three.
        exercises: names of checks.
    """

    number: str
    name: str
    title: str
    part: str
    column: int
    about: str
    ideas: tuple[Idea, ...] = ()
    exercises: Sequence[str] = ()

    @property
    def file(self) -> str:
        """The notebook's file name."""
        return f"{self.number}_{self.name}.ipynb"

    @property
    def folder(self) -> Path:
        """Where lies what this chapter alone needs."""
        return FOLDER / f"c{self.number}_{self.name}"

    @property
    def label(self) -> str:
        """Number and title."""
        return f"{self.number} {self.title}"

    @property
    def link(self) -> str:
        """A Markdown link from another notebook of the course."""
        return f"[{self.label}]({self.file})"

    @property
    def is_written(self) -> bool:
        """Whether the notebook is part of this copy of the course."""
        return (NOTEBOOKS / self.file).exists()

    @property
    def builds_on(self) -> tuple[str, ...]:
        """The numbers of the other chapters whose ideas this one's ideas build on."""
        homes = {_HOMES[earlier] for idea in self.ideas for earlier in idea.builds_on}
        return tuple(sorted(homes - {self.number}))


_TEXT = Path(__file__).with_name("contents.toml").read_text(encoding="utf-8")
CHAPTERS = tuple(
    Chapter(**(fields | {"ideas": tuple(Idea(**idea) for idea in fields["ideas"])}))
    for fields in tomllib.loads(_TEXT)["chapters"]
)
# of each idea, the number of the chapter that holds it
_HOMES = {idea.name: chapter.number for chapter in CHAPTERS for idea in chapter.ideas}


def chapter_of(number: str) -> Chapter:
    """Return the chapter with this number."""
    for chapter in CHAPTERS:
        if chapter.number == number:
            return chapter
    raise ValueError(f"number must be a chapter's, 00 to {CHAPTERS[-1].number}: got {number!r}")


def line_back(chapter: Chapter) -> str:
    """Return the sentence that a chapter's first cell says: what it builds on, in links."""
    earlier = [chapter_of(number).link for number in chapter.builds_on]
    if not earlier:
        return "Builds on nothing but a little Python and PyTorch."
    *others, last = earlier
    return f"Builds on {', '.join(others)} and {last}." if others else f"Builds on {last}."


def line_on(chapter: Chapter) -> str:
    """Return the line that a chapter ends with: to the next one, to others that build on it, back,
    and to the map."""
    written = [other for other in CHAPTERS if other.is_written or other == chapter]
    following = [later for this, later in pairwise(written) if this == chapter]
    parts = {
        "Next": following,
        "Also from here": [other for other in written if chapter.number in other.builds_on],
        "Back": [chapter_of(number) for number in chapter.builds_on],
        "Map": [CHAPTERS[0]],
        "Words": [CHAPTERS[-1]] if CHAPTERS[-1].is_written else [],
    }
    said, shown = {chapter}, []
    for heading, others in parts.items():
        links = [
            other.link + f": {other.about}" * (heading == "Next")
            for other in others
            if other not in said
        ]
        shown += [f"**{heading}:** {', '.join(links)}"] if links else []
        said.update(others)
    return " · ".join(shown)


def contents() -> Table:
    """Return a table of the written chapters with links to them, part by part. Chapter 00."""
    rows, above = [], ""
    for chapter in CHAPTERS:
        if chapter.is_written:
            rows.append(
                (
                    chapter.part if chapter.part != above else "",
                    Inline(chapter.link),
                    Inline(chapter.about),
                )
            )
            above = chapter.part
    return Table(
        ("part", "chapter", "what you build"), rows, "The chapters, with links", folded=True
    )


def standing(passed: Collection[str], name: str) -> tuple[str, tuple[str, str] | None]:
    """Return how many exercises are passed, and after ``name`` which is next, with a link to it:
    "3 of 41 passed, next: batch_norm in 03".

    Next is what is open in the same chapter, and else the first that is open in the course.
    """
    this_first = sorted(CHAPTERS, key=lambda chapter: name not in chapter.exercises)
    at = {exercise: chapter for chapter in this_first for exercise in chapter.exercises}
    done = f"{len(at.keys() & set(passed))} of {len(at)} passed"
    following = next((exercise for exercise in at if exercise not in passed), "")
    if not following:
        return f"{done}: all of them", None
    words = f"{following} in {at[following].number}"
    return f"{done}, next: {words}", (words, f"{at[following].file}#Your-turn:-{following}")
