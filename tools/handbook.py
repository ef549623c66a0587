"""The instructor's handbook: weeks, what each chapter takes and teaches, what goes wrong in it,
what to talk about.

Its template is ``handbook.md``, the weeks, the questions and an exam are ``handbook.toml``; all
else comes from the notebooks, from ``chapters.contents`` and from the catalogues of the checks. The
mistakes fill a file of their own, of the template ``mistakes.md``.
"""

import re
import tomllib
from inspect import signature
from pathlib import Path
from typing import Any

from jinja2 import Environment
from nbformat import NotebookNode

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS, chapter_of
from course_utils.check import Check, Mistake
from tools.notebooks import lesson, minutes, read_notebook

__all__ = [
    "common",
    "guesses",
    "handbook",
    "known_mistakes",
    "mistakes",
    "objectives",
    "time_needed",
]

_SHORT = 60  # letters of a question that may not be clear by itself
_ASKED = re.compile(
    r"((?:(?:^|(?<=\. ))[^.?*\n]+[.?] )?)"
    r"\*\*(?:Guess first[.:]\*\* ([^?\n]+\?)|([^*]+\?)\*\*)",
    re.MULTILINE,
)
PLAN = tomllib.loads(Path(__file__).with_name("handbook.toml").read_text(encoding="utf-8"))


def handbook() -> str:
    """Return the handbook as Markdown: the weeks, and a page for every written chapter."""
    written = [chapter for chapter in CHAPTERS if chapter.is_written]
    notebooks = {chapter.number: read_notebook(NOTEBOOKS / chapter.file) for chapter in written}
    return _rendered(
        "handbook.md",
        plan=PLAN,
        notebooks=notebooks,
        chapter_of=chapter_of,
        guesses=guesses,
        listed=_listed,
        minutes=minutes,
        objectives=objectives,
        time_needed=time_needed,
    )


def mistakes() -> str:
    """Return every known mistake as Markdown, by exercise, with code that makes it."""
    return _rendered("mistakes.md", signature=signature)


def known_mistakes() -> int:
    """Return how many mistakes the checks know by name."""
    return len({key for its_check in check.values() for key in its_check.catalogue})


def _rendered(template: str, **names: Any) -> str:
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    written = [chapter for chapter in CHAPTERS if chapter.is_written]
    names |= {"written": written, "check": check, "common": common}
    names["known_mistakes"] = known_mistakes()
    return Environment(keep_trailing_newline=True).from_string(text).render(names)


def guesses(notebook: NotebookNode) -> list[str]:
    """Return the questions that a lesson asks in bold, or after "Guess first", as a cell of a table
    can hold them; a short one with the sentence before it, which it may need."""
    texts = [cell.source for cell in lesson(notebook) if cell.cell_type == "markdown"]
    questions = [
        before * (len(question) < _SHORT) + question
        for before, guess, bold in _ASKED.findall("\n".join(texts))
        for question in [guess or bold]
    ]
    return [" ".join(question.split()).replace("|", r"\|") for question in questions]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def common(its_check: Check) -> list[Mistake]:
    """Return the known mistakes: everyday slips first, and of those the ones that the most forms
    are known of."""
    return sorted(
        its_check.catalogue.values(),
        key=lambda mistake: (not mistake.everyday, -len(mistake.examples)),
    )


def time_needed(first_cell: str) -> str:
    """Return what a chapter's first cell says of time: the rest of the paragraph that says what it
    builds on.

    >>> time_needed("Builds on [00](00.ipynb). Half an hour to work through, ten seconds to run.")
    'Half an hour to work through, ten seconds to run.'
    """
    found = re.search(r"^Builds on .*?\.\s+(.+)$", first_cell, re.MULTILINE)
    return found[1].strip() if found else ""


def objectives(first_cell: str) -> list[str]:
    """Return the list items of a chapter's first cell."""
    return [line for line in first_cell.splitlines() if line.startswith("- ")]
