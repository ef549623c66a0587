"""The instructor's handbook: weeks, what each chapter takes and teaches, what goes wrong in it,
what to talk about.

The text around it is ``handbook.md``, the weeks and the questions are ``handbook.toml``; all else
comes from the chapters' first cells, from ``chapters.contents`` and from the catalogues of the
checks. It shows code that is wrong and says how, so it is no handout.
"""

import inspect
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS, Chapter, chapter_of
from course_utils.check import Check, Mistake
from tools.notebooks import read_notebook

__all__ = ["chapter_page", "common", "handbook", "objectives", "time_needed"]

_SHOWN = 3  # mistakes of an exercise in its chapter; the appendix has all
PLAN = tomllib.loads(Path(__file__).with_name("handbook.toml").read_text(encoding="utf-8"))


def handbook() -> str:
    """Return the handbook as Markdown: the weeks, a page for every written chapter, and every known
    mistake."""
    written = [chapter for chapter in CHAPTERS if chapter.is_written]
    mistakes = [
        line
        for chapter in written
        for name in chapter.exercises
        for line in _exercise(getattr(check, name))
    ]
    parts = {"syllabus": _weeks(), "chapters": map(chapter_page, written), "appendix": mistakes}
    text = Path(__file__).with_name("handbook.md").read_text(encoding="utf-8")
    for place, lines in parts.items():
        text = text.replace(f"<!-- {place} -->", "\n".join(lines))
    return text


def _weeks() -> Iterator[str]:
    yield "| week | chapters | about | to hand in |\n|---|---|---|---|"
    for number, week in enumerate(PLAN["weeks"], 1):
        chapters = [c for c in CHAPTERS if c.number in week["chapters"] and c.is_written]
        names = ", ".join(f"{chapter.number} {chapter.title}" for chapter in chapters)
        exercises = [f"`{name}`" for chapter in chapters for name in chapter.exercises]
        hand_in = (
            "three puzzles of your choice"
            if len(exercises) > 10
            else ", ".join(exercises) or "a page of notes"
        )
        yield f"| {number} | {names} | {week['theme']} | {hand_in} |"


def chapter_page(chapter: Chapter) -> str:
    """Return what there is to say of one chapter."""
    first_cell = read_notebook(NOTEBOOKS / chapter.file).cells[0].source
    earlier = ", ".join(chapter_of(number).label for number in chapter.builds_on)
    lines = [f"## {chapter.number} · {chapter.title}", ""]
    lines += [f"- **Time:** {time_needed(first_cell)}"] * bool(time_needed(first_cell))
    lines += [f"- **Prerequisites:** {earlier or 'a little Python and PyTorch'}"]
    lines += [
        "- **Exercises:** "
        f"{', '.join(f'`{name}`' for name in chapter.exercises) or 'none of its own'}",
        "",
    ]
    lines += ["By the end a learner can", "", *objectives(first_cell), ""]
    if found := [
        (name, mistake)
        for name in chapter.exercises
        for mistake in common(getattr(check, name))[:_SHOWN]
    ]:
        lines += ["**What goes wrong**, the most usual first:", ""]
        lines += [
            f"- `{name}`: {mistake.wrong} *Ask:* {mistake.hint}" for name, mistake in found
        ] + [""]
    lines += [
        "**To discuss**",
        "",
        *(f"- {question}" for question in PLAN["questions"][chapter.number]),
        "",
    ]
    return "\n".join(lines)


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


def _exercise(its_check: Check) -> Iterator[str]:
    yield f"### `{its_check.name}{inspect.signature(its_check.oracle)}`\n"
    known = len(its_check.catalogue)
    yield (
        f"{known} known mistakes.\n"
        if known
        else "Its check judges every answer by itself, without a catalogue.\n"
    )
    yield from map(_mistake, common(its_check))


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
