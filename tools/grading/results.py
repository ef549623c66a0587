"""The rows of a grading: as CSV for a spreadsheet, as a page to read."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path

from course_utils import check
from course_utils.book.chapters import CHAPTERS
from course_utils.book.tables import Table
from tools.notebooks import write_atomically

__all__ = ["STATUSES", "Row", "write_csv", "write_report"]

# status -> its sign in the report's overview, and what it means
STATUSES = {
    "passed": ("✓", "right on every probe"),
    "wrong": ("✗", "attempted, and not right yet"),
    "not attempted": ("·", "the stub as it was handed out, or a ready-made function of torch's or the course's"),
    "not defined": ("–", "no cell defines the function"),
    "error": ("!", "could not be judged; the message says why"),
    "no exercise": (" ", "the chapter has no exercise of its own"),
}


@dataclass(frozen=True)
class Row:
    """The result of one exercise in one notebook, or the reason why a file has none."""

    learner: str  # the name of the folder, or of the file without its ending
    file: str  # relative to the graded folder
    chapter: str = ""
    exercise: str = ""  # empty where it is unknown or there is none
    status: str = "error"  # one of STATUSES
    mistake: str = ""  # the catalogue's key of a known mistake
    message: str = ""  # what the check says, or what stood in the way, in one line
    seconds: float = 0.0  # wall-clock time, imports left out


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write ``rows`` to ``path`` in one step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    writer.writerows([_harmless(value) for value in asdict(row).values()] for row in rows)
    write_atomically(path, _encoded(text.getvalue()))


def _harmless(value: str | float) -> str:
    """Return what no spreadsheet takes for a formula, whatever a learner calls a file."""
    text = value if isinstance(value, str) else f"{value:.1f}"
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # a file name may hold bytes that are no UTF-8


def write_report(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a page to ``path`` in one step: who passed what, exercise by exercise, which mistakes, and what is open."""
    legend = "; ".join(f"{sign} {status}: {meaning}" for status, (sign, meaning) in STATUSES.items() if sign.strip())
    sections = {
        "Learners": (f"A column is a chapter, a sign one of its exercises. {legend}.", _by_learner(rows)),
        "Exercises": ("Of several files of one learner the best counts.", _by_exercise(rows)),
        "Mistakes": ("The known ones, the most frequent first.", _mistakes(rows)),
        "What is open": ("What was attempted and did not pass, and every file that could not be graded.", _open(rows)),
    }
    body = "\n".join(
        f"<h2>{heading}</h2>\n<p>{escape(text)}</p>\n{table._repr_html_()}"
        for heading, (text, table) in sections.items()
        if table.rows
    )
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f'<body style="font-family:sans-serif;margin:2em">\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n'
    )
    write_atomically(path, _encoded(page))


def _best(rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]) -> dict[tuple[str, ...], Row]:
    """Return the best row for each key: of several files of one learner, the one that got furthest."""
    order = list(STATUSES)
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row.exercise and (key(row) not in best or order.index(row.status) < order.index(best[key(row)].status)):
            best[key(row)] = row
    return best


def _by_learner(rows: Sequence[Row]) -> Table:
    """One column for a chapter, in it a sign for each exercise."""
    best = _best(rows, lambda row: (row.learner, row.exercise))
    chapters = [chapter for chapter in CHAPTERS if any(row.chapter == chapter.number and row.exercise for row in rows)]
    lines = []
    for learner in sorted({row.learner for row in rows}):
        found = [[best.get((learner, name)) for name in chapter.exercises] for chapter in chapters]
        passed = sum(row is not None and row.status == "passed" for chapter in found for row in chapter)
        signs = ["".join(STATUSES[row.status][0] for row in chapter if row) for chapter in found]
        lines.append((learner, passed, *signs))
    return Table(("learner", "passed", *(chapter.number for chapter in chapters)), lines)


def _by_exercise(rows: Sequence[Row]) -> Table:
    best = _best(rows, lambda row: (row.learner, row.exercise))
    counts = Counter((row.exercise, row.status) for row in best.values())
    statuses = [status for status in STATUSES if status != "no exercise"]
    graded = {row.exercise for row in rows}
    lines = [
        (chapter.number, name, *(counts[name, status] for status in statuses))
        for chapter in CHAPTERS
        for name in chapter.exercises
        if name in graded
    ]
    return Table(("chapter", "exercise", *statuses), lines)


def _mistakes(rows: Sequence[Row]) -> Table:
    learners = {(row.exercise, row.mistake, row.learner) for row in rows if row.mistake}
    counts = Counter((exercise, mistake) for exercise, mistake, _ in learners)
    lines = []
    for (exercise, key), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        mistake = getattr(check, exercise).catalogue[key]
        lines.append((count, exercise, mistake.title, mistake.wrong, mistake.hint))
    return Table(("learners", "exercise", "mistake", "what the function does", "a question that helps"), lines)


def _open(rows: Sequence[Row]) -> Table:
    lines = [
        (row.learner, row.file, row.exercise, row.status, row.message)
        for row in rows
        if row.status not in ("passed", "not attempted", "no exercise")
    ]
    return Table(("learner", "file", "exercise", "status", "message"), lines)
