"""The instructor's handbook: weeks, what each chapter takes and teaches, what goes wrong in it,
what to talk about.

Its template is ``handbook.md``, the weeks and the questions are ``handbook.toml``; all else
comes from the chapters' first cells, from ``chapters.contents`` and from the catalogues of the
checks. It shows code that is wrong and says how, so it is no handout.
"""

import re
import tomllib
from inspect import signature
from pathlib import Path

from jinja2 import Environment

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS, chapter_of
from course_utils.check import Check, Mistake
from tools.notebooks import read_notebook

__all__ = ["common", "handbook", "objectives", "time_needed"]

PLAN = tomllib.loads(Path(__file__).with_name("handbook.toml").read_text(encoding="utf-8"))


def handbook() -> str:
    """Return the handbook as Markdown: the weeks, a page for every written chapter, and every known
    mistake."""
    written = [chapter for chapter in CHAPTERS if chapter.is_written]
    notebooks = {c.number: read_notebook(NOTEBOOKS / c.file) for c in written}
    template = Path(__file__).with_name("handbook.md").read_text(encoding="utf-8")
    return (
        Environment(keep_trailing_newline=True)
        .from_string(template)
        .render(
            plan=PLAN,
            written=written,
            first_cells={number: book.cells[0].source for number, book in notebooks.items()},
            check=check,
            chapter_of=chapter_of,
            common=common,
            listed=_listed,
            objectives=objectives,
            signature=signature,
            time_needed=time_needed,
        )
    )


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
