"""The rows of a grading: as CSV for a spreadsheet, as a page to read, and as a page for each learner."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from course_utils import check
from course_utils.book.chapters import CHAPTERS
from course_utils.book.tables import Table
from tools.notebooks import write_atomically

__all__ = ["STATUSES", "Row", "best_of", "write_csv", "write_feedback", "write_report", "write_table"]

# status -> its sign in the report's overview, and what it means
STATUSES = {
    "passed": ("✓", "right on every probe"),
    "ready-made": ("=", "right, by a call of torch's built-in, the course's own layer or the check's oracle"),
    "wrong": ("✗", "attempted, and not right yet"),
    "not attempted": ("·", "the stub as it was handed out"),
    "not defined": ("–", "no cell defines the function"),
    "error": ("!", "could not be judged; the message says why"),
    "no exercise": (" ", "the chapter has no exercise of its own"),
}


@dataclass(frozen=True)
class Row:
    """The result of one exercise in one notebook, or the reason why a file has none."""

    learner: str  # the name in the class; without one, of the folder or the file
    file: str  # relative to the graded folder
    chapter: str = ""
    exercise: str = ""  # empty where it is unknown or there is none
    status: str = "error"  # one of STATUSES
    mistake: str = ""  # the catalogue's key of a known mistake
    message: str = ""  # what the check says, or what stood in the way, in one line
    seconds: float = 0.0  # wall-clock time, imports left out
    right: int = 0  # of the check's probes
    probes: int = 0
    evidence: str = ""  # the smallest input that shows what is wrong, in lines
    hint: str = ""


_IN_CSV = [field.name for field in fields(Row)][:8]


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write ``rows`` to ``path``, a line for each exercise of each file."""
    write_table(_IN_CSV, ([getattr(row, name) for name in _IN_CSV] for row in rows), path)


def write_table(header: Iterable[str], lines: Iterable[Iterable[str | float]], path: Path) -> None:
    """Write a CSV to ``path`` in one step, in which no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[_harmless(value) for value in line] for line in (header, *lines)])
    write_atomically(path, text.getvalue().encode(errors="backslashreplace"))  # a file name may be no UTF-8


def _harmless(value: str | float) -> str:
    """Return what no spreadsheet takes for a formula, whatever a learner calls a file."""
    text = value if isinstance(value, str) else f"{value:.1f}"
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def write_report(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a page to ``path`` in one step: who passed what, which mistakes, and what is open."""
    legend = "; ".join(f"{sign} {status}: {meaning}" for status, (sign, meaning) in STATUSES.items() if sign.strip())
    signs = f"A column is a chapter, a sign one of its exercises; the best file counts. {legend}."
    sections = {
        "Learners": (signs, _by_learner(rows)),
        "Mistakes": ("The known ones, the most frequent first.", _mistakes(rows)),
        "What is open": ("What was attempted and did not pass, and every file that could not be graded.", _open(rows)),
    }
    body = "\n".join(
        f"<h2>{heading}</h2>\n<p>{escape(text)}</p>\n{table._repr_html_()}"
        for heading, (text, table) in sections.items()
        if table.rows
    )
    _write_page(path, title, body)


def _write_page(path: Path, title: str, body: str) -> None:
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f'<body style="font-family:sans-serif;margin:2em">\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n'
    )
    write_atomically(path, page.encode(errors="backslashreplace"))


def write_feedback(rows: Sequence[Row], folder: Path, worth: Callable[[str], Any]) -> None:
    """Write a page for each learner into ``folder``: every exercise with its points, what is wrong, input and hint."""
    best = {id(row) for row in best_of(rows).values()}
    for learner in {row.learner for row in rows}:
        parts = []
        for row in rows:
            if row.learner != learner or (row.exercise and id(row) not in best):
                continue
            its = worth(row.exercise)
            points = f": {its.earned(row):.3g} of {its.points:.3g} points" if row.exercise else ""
            parts.append(f"<h2>{row.chapter} {escape(row.exercise or row.file)}{points}</h2>")
            parts.append(f"<p>{escape(f'{row.status}. {row.message}')}</p>")
            parts += [f"<p>It shows in:</p><pre>{escape(row.evidence)}</pre>"] * bool(row.evidence)
            parts += [f"<p>A question that helps: {escape(row.hint)}</p>"] * bool(row.hint)
        _write_page(folder / (re.sub(r"[^\w.@-]+", "_", learner) + ".html"), learner, "\n".join(parts))


def best_of(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """Return for each learner and exercise the best row: of several files, the one that got furthest."""
    order = list(STATUSES)
    worst_first = sorted(rows, key=lambda row: (-order.index(row.status), row.right / max(row.probes, 1)))
    return {(row.learner, row.exercise): row for row in worst_first if row.exercise}


def _by_learner(rows: Sequence[Row]) -> Table:
    """One column for a chapter, in it a sign for each exercise."""
    best = best_of(rows)
    chapters = [chapter for chapter in CHAPTERS if any(row.chapter == chapter.number and row.exercise for row in rows)]
    lines = []
    for learner in sorted({row.learner for row in rows}):
        found = [[best.get((learner, name)) for name in chapter.exercises] for chapter in chapters]
        passed = sum(row is not None and row.status == "passed" for chapter in found for row in chapter)
        signs = ["".join(STATUSES[row.status][0] for row in chapter if row) for chapter in found]
        lines.append((learner, passed, *signs))
    return Table(("learner", "passed", *(chapter.number for chapter in chapters)), lines)


def _mistakes(rows: Sequence[Row]) -> Table:
    learners = {(row.exercise, row.mistake, row.learner) for row in rows if row.mistake}
    counts = Counter((exercise, mistake) for exercise, mistake, _ in learners)
    known = [
        (count, exercise, getattr(check, exercise).catalogue[key])
        for (exercise, key), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    lines = [(count, exercise, mistake.title, mistake.wrong, mistake.hint) for count, exercise, mistake in known]
    return Table(("learners", "exercise", "mistake", "what the function does", "a question that helps"), lines)


def _open(rows: Sequence[Row]) -> Table:
    columns = ("learner", "file", "exercise", "status", "message")
    still_open = [row for row in rows if row.status not in ("passed", "not attempted", "no exercise")]
    return Table(columns, [[getattr(row, name) for name in columns] for row in still_open])
