"""``course grade``: every exercise of every notebook of a folder, a few at a time; what is done is
kept."""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from threading import Event
from typing import Any

from chapters.contents import NOTEBOOKS, Chapter, chapter_of
from course_utils.progress_bar import ProgressBar
from tools.grading.needed import binding_statements
from tools.grading.process import Limits, grade_exercise
from tools.grading.results import Row, missing, write_csv, write_report
from tools.grading.submissions import Unreadable, find_files, read_submission
from tools.notebooks import read_notebook, stub_names, write_atomically

__all__ = ["CSV", "REPORT", "UNFINISHED", "grade_folder", "main"]

CSV, REPORT, UNFINISHED = "grades.csv", "report.html", ".unfinished"
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
        if arguments.timeout <= 0 or arguments.memory < 1 or arguments.jobs < 1:
            got = f"{arguments.timeout:g}, {arguments.memory:g} and {arguments.jobs}"
            raise ValueError(
                f"--timeout must be more than 0 s, --memory and --jobs at least 1: got {got}"
            )
        chapters = [chapter_of(number).number for number in arguments.chapter]
        expected = (
            arguments.expected.read_text(encoding="utf-8-sig").split() if arguments.expected else []
        )
        limits = Limits(arguments.timeout, arguments.memory)
        rows = grade_folder(
            folder, out, limits, jobs=arguments.jobs, chapters=chapters, expected=expected
        )
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
    print(
        f"missing: {', '.join(missing(rows, expected)) or 'nobody'}" if expected else "",
        end="\n" * bool(expected),
    )
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
    *,
    jobs: int = 1,
    chapters: Collection[str] = (),
    expected: Sequence[str] = (),
    show_progress: bool = True,
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
            rows.append(
                Row(
                    file,
                    chapter.number,
                    status="no exercise",
                    message="Its chapter has no exercise.",
                )
            )
    stop = Event()
    with (
        ThreadPoolExecutor(jobs) as pool,
        ProgressBar("grading", len(tasks), shown=show_progress) as bar,
    ):
        futures = [pool.submit(task.row, limits, stop, out / UNFINISHED) for task in tasks]
        try:
            for count, future in enumerate(as_completed(futures), 1):
                future.result()
                bar.show(count)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            rows += [
                future.result()
                for future in futures
                if not future.cancelled() and not future.exception()
            ]
            rows.sort(key=lambda row: row.file)
            write_csv(rows, out / CSV)
            write_report(rows, out / REPORT, f"Grades: {folder.resolve().name}", expected)
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return rows


@dataclass(frozen=True)
class _Task:
    """An exercise of a notebook."""

    path: Path
    file: str
    chapter: Chapter
    cells: Sequence[tuple[int, str]]
    exercise: str

    def row(self, limits: Limits, stop: Event, kept: Path) -> Row:
        """Grade it, unless that was done before: the same content of the same file, within the same
        limits."""
        key = repr((self.file, self.cells, self.exercise, limits)).encode(errors="backslashreplace")
        done = kept / f"{hashlib.sha256(key).hexdigest()}.json"
        if done.exists():
            return Row(**json.loads(done.read_text(encoding="utf-8")))
        bindings = binding_statements([source for _, source in self.cells], self.exercise)
        other_name = "" if bindings else self._other_name()
        outcome: dict[str, Any]
        if bindings and all(self.exercise in stub_names(statement) for statement in bindings):
            outcome = {"status": "not attempted", "message": self._other_name()}
        elif other_name:
            outcome = {
                "status": "not defined",
                "message": f"No cell defines {self.exercise}. {other_name}",
            }
        else:
            outcome = grade_exercise(self.path, self.exercise, limits, stop)
        message = shorten(outcome.pop("message", ""), _MESSAGE)
        row = Row(self.file, self.chapter.number, self.exercise, message=message, **outcome)
        write_atomically(done, json.dumps(asdict(row)).encode())
        return row

    def _other_name(self) -> str:
        """Return under which other name the exercise is checked, in a cell of the learner's own."""
        published = {cell.source for cell in read_notebook(NOTEBOOKS / self.chapter.file).cells}
        for index, source in self.cells:
            checked = re.search(rf"\bcheck\.{self.exercise}\(\s*(?!{self.exercise}\b)(\w+)", source)
            if checked and source not in published:
                return f"Cell {index} checks {checked[1]} by that name; rename it."
        return ""
