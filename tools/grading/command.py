"""``course grade``: every exercise of every notebook of a folder, a few at a time; what is done is
kept."""

import argparse
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from threading import Event
from typing import Any

from chapters.contents import NOTEBOOKS, Chapter, chapter_of
from course_utils import runs
from tools.grading.needed import binding_statements
from tools.grading.process import Limits, grade_exercise
from tools.grading.results import Row, missing, write_csv, write_report
from tools.grading.submissions import Unreadable, find_files, read_submission
from tools.notebooks import read_notebook, stub_names
from tools.pieces import in_pieces

__all__ = ["CSV", "REPORT", "UNFINISHED", "grade_folder", "main"]

CSV, REPORT, UNFINISHED = "grades.csv", "report.html", ".unfinished.jsonl"
_MESSAGE = 300  # characters
_EPILOG = """\
DIR holds notebooks, or folders of notebooks. A notebook is recognised by what is in it, and a
result belongs to its file. An exercise is graded in a process of its own: what crashes, loops or is
no notebook is a row that says so, and costs the others nothing. It does not hold back hostile code:
grade notebooks by strangers in a container.
"""


def main(argv: list[str] | None = None) -> int:
    """Run ``course grade``: 0 when everything is graded, 2 when it cannot run as asked, 130 when
    interrupted."""
    arguments = _arguments(argv)
    folder: Path = arguments.folder.resolve()
    out: Path = arguments.out or folder.with_name(f"{folder.name}-grades")
    try:
        if sys.platform == "win32":
            raise ValueError(
                "it needs the process limits of Linux or macOS: on Windows, run it inside WSL"
            )
        if folder in (out.resolve(), *out.resolve().parents):
            raise ValueError(f"--out must lie outside DIR, where it would be graded: got {out}")
        limits = Limits(arguments.timeout, arguments.memory)
        if limits.timeout_s <= 0 or limits.memory_gb < 1 or arguments.jobs < 1:
            got = f"{limits.timeout_s:g}, {limits.memory_gb:g} and {arguments.jobs}"
            raise ValueError(
                f"--timeout must be more than 0 s, --memory and --jobs at least 1: got {got}"
            )
        chapters = [chapter_of(number).number for number in arguments.chapter]
        listed = arguments.expected
        expected = listed.read_text(encoding="utf-8-sig").split() if listed else []
        rows = grade_folder(folder, out, limits, arguments.jobs, chapters, expected)
    except KeyboardInterrupt:
        print(
            f"interrupted; what is done is in {out}, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    except (ValueError, OSError) as error:
        print(f"course grade: {error}", file=sys.stderr)
        return 2
    counts = Counter(row.status for row in rows)
    print(
        ", ".join(f"{count} {status}" for status, count in counts.most_common())
        or "nothing to grade"
    )
    if expected:
        print(f"missing: {', '.join(missing(rows, expected)) or 'nobody'}")
    print(out / CSV, out / REPORT, sep="\n")
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course grade",
        description="Run the course's checks over a folder of notebooks; write a table and a "
        "report.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = max(1, (os.cpu_count() or 1) // 2)
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the submissions")
    add("--out", type=Path, metavar="DIR", help="where the results go, by default DIR-grades")
    add(
        "--expected",
        type=Path,
        metavar="TXT",
        help="ids, one a line; the report says which is in no file's path",
    )
    add("--timeout", type=float, default=60.0, metavar="S", help="for an exercise; by default 60")
    add("--memory", type=float, default=4.0, metavar="GB", help="for an exercise; by default 4")
    add("--jobs", type=int, default=jobs, help="exercises at once, by default %(default)s here")
    add(
        "--chapter",
        action="append",
        default=[],
        metavar="NN",
        help="only this chapter; may be given again",
    )
    return parser.parse_args(argv)


def grade_folder(
    folder: Path,
    out: Path,
    limits: Limits,
    jobs: int = 1,
    chapters: Collection[str] = (),
    expected: Sequence[str] = (),
) -> list[Row]:
    """Grade what lies in ``folder``; write a table and a report into ``out``.

    Interrupted, it writes what is done so far; called again with the same limits, it goes on from
    there. ``chapters``: the numbers to grade; none means all. ``expected``: the ids of whom
    something should be there.
    """
    rows: list[Row] = []
    tasks: list[_Task] = []
    for path in find_files(folder):
        file = str(path.relative_to(folder))
        try:
            chapter, cells = read_submission(path)
        except Unreadable as reason:
            rows.append(Row(file, message=shorten(str(reason), _MESSAGE)))
            continue
        if chapters and chapter.number not in chapters:
            continue
        tasks += [_Task(path, file, chapter, cells, exercise) for exercise in chapter.exercises]
        if not chapter.exercises:
            message = "Its chapter has no exercise."
            rows.append(Row(file, chapter.number, status="no exercise", message=message))
    stop = Event()
    record = out / UNFINISHED
    by_key = {task.key(limits): partial(task.row, limits, stop) for task in tasks}
    try:
        in_pieces(by_key, record, {"command": "course grade"}, jobs, stop)
    finally:
        _, done = runs.read(record)
        rows += [Row(**run["result"]) for run in done if run["key"] in by_key]
        rows.sort(key=lambda row: row.file)
        write_csv(rows, out / CSV)
        write_report(rows, out / REPORT, f"Grades: {folder.resolve().name}", expected)
    record.unlink()
    return rows


@dataclass(frozen=True)
class _Task:
    """An exercise of a notebook."""

    path: Path
    file: str
    chapter: Chapter
    cells: Sequence[tuple[int, str]]
    exercise: str

    def key(self, limits: Limits) -> str:
        """Return what tells it from any other: the same content of the same file, within the same
        limits, is graded once."""
        content = repr((self.file, self.cells, self.exercise, limits))
        return hashlib.sha256(content.encode(errors="backslashreplace")).hexdigest()

    def row(self, limits: Limits, stop: Event) -> dict[str, Any]:
        """Grade it; return the fields of its row."""
        bindings = binding_statements([source for _, source in self.cells], self.exercise)
        is_stub = all(self.exercise in stub_names(statement) for statement in bindings)
        other_name = self._other_name() if is_stub else ""
        outcome: dict[str, Any]
        if bindings and is_stub:
            outcome = {"status": "not attempted", "message": other_name}
        elif other_name:
            message = f"No cell defines {self.exercise}. {other_name}"
            outcome = {"status": "not defined", "message": message}
        else:
            outcome = grade_exercise(self.path, self.exercise, limits, stop)
        outcome["message"] = shorten(outcome.get("message", ""), _MESSAGE)
        row = {"file": self.file, "chapter": self.chapter.number, "exercise": self.exercise}
        return {**row, **outcome}

    def _other_name(self) -> str:
        """Return under which other name the exercise is checked, in a cell of the learner's own."""
        published = {cell.source for cell in read_notebook(NOTEBOOKS / self.chapter.file).cells}
        for index, source in self.cells:
            checked = re.search(rf"\bcheck\.{self.exercise}\(\s*(?!{self.exercise}\b)(\w+)", source)
            if checked and source not in published:
                return f"Cell {index} checks {checked[1]} by that name; rename it."
        return ""
