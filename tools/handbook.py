"""The instructor's handbook: what each chapter takes and teaches, and the wrong answers that its exercises meet.

Everything in it comes from the chapters' first cells, from ``course_utils.book.chapters`` and from the catalogues of
the checks. It names mistakes and shows their code, so it is no handout.
"""

import inspect
import re
from collections.abc import Iterator
from html import escape

from course_utils import check
from course_utils.book.chapters import CHAPTERS, NOTEBOOKS, Chapter, chapter_of
from course_utils.check import Check, Mistake
from tools.notebooks import read_notebook

__all__ = ["chapter_page", "handbook", "objectives", "time_needed"]

_HEAD = """\
# Instructor's handbook

Made by `make handbook` from the notebooks and from the catalogue of known mistakes; do not edit it.

Each exercise lists the wrong answers that its check knows: what the learner is told, the question that serves as a
hint, and code that makes the mistake. The learner also sees the smallest input found on which it shows. Code is either
a whole function, or the steps in which it differs from a right one.

`make student` writes notebooks without solutions into `student/`; `course grade DIR` grades what comes back.
"""


def handbook() -> str:
    """Return the handbook as Markdown: a page for every written chapter."""
    return "\n".join([_HEAD, *(chapter_page(chapter) for chapter in CHAPTERS if chapter.is_written)])


def chapter_page(chapter: Chapter) -> str:
    """Return what there is to say of one chapter."""
    first_cell = read_notebook(NOTEBOOKS / chapter.file).cells[0].source
    earlier = ", ".join(chapter_of(number).label for number in chapter.builds_on)
    facts = [f"- **Time:** {time}" for time in [time_needed(first_cell)] if time]
    facts.append(f"- **Prerequisites:** {earlier or 'a little Python and PyTorch'}")
    facts.append(f"- **Exercises:** {', '.join(f'`{name}`' for name in chapter.exercises) or 'none of its own'}")
    goals = objectives(first_cell)
    lines = [f"## {chapter.number} · {chapter.title}", "", *facts, ""]
    lines += ["By the end a learner can", "", *goals, ""] if goals else []
    for name in chapter.exercises:
        lines += _exercise(getattr(check, name))
    return "\n".join(lines)


def time_needed(first_cell: str) -> str:
    """Return what a chapter's first cell says of time: the rest of the paragraph that says what it builds on.

    >>> time_needed("Builds on [00 Start here](00_start_here.ipynb). Half an hour to work through, ten seconds to run.")
    'Half an hour to work through, ten seconds to run.'
    """
    found = re.search(r"^Builds on .*?\.\s+(.+)$", first_cell, re.MULTILINE)
    return found[1].strip() if found else ""


def objectives(first_cell: str) -> list[str]:
    """Return the list items of a chapter's first cell."""
    return [line for line in first_cell.splitlines() if line.startswith("- ")]


def _exercise(its_check: Check) -> Iterator[str]:
    yield f"### `{its_check.name}{_signature(its_check)}`\n"
    known = len(its_check.catalogue)
    yield f"{known} known mistakes.\n" if known else "Its check judges every answer by itself, without a catalogue.\n"
    for mistake in its_check.catalogue.values():
        yield _mistake(mistake)


def _signature(its_check: Check) -> inspect.Signature:
    """Return how the exercise's function is called, annotations left out."""
    signature = inspect.signature(its_check.oracle)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def _mistake(mistake: Mistake) -> str:
    forms = len(mistake.examples)
    count = f"\nOne of {forms} forms that the check knows.\n" if forms > 1 else ""
    return f"""\
<details><summary>{escape(mistake.title)} (<code>{mistake.key}</code>)</summary>

{mistake.wrong} {mistake.matters}

*Hint:* {mistake.hint}

```{"diff" if mistake.edits else "python"}
{mistake.diff()}
```
{count}
</details>
"""
