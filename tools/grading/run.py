"""Grading a folder: every exercise of every notebook, a few at a time, each result kept as soon as it is there."""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

from course_utils.book.progress_bar import ProgressBar
from tools.grading.points import Scheme, named, write_class
from tools.grading.process import Limits, grade_exercise, one_line
from tools.grading.results import Row, write_csv, write_feedback, write_report
from tools.grading.submissions import Notebook, Submission, Unreadable, find_submissions
from tools.notebooks import write_atomically

__all__ = ["CSV", "FEEDBACK", "REPORT", "UNFINISHED", "grade_folder"]

CSV, FEEDBACK, REPORT, UNFINISHED = "grades.csv", "feedback", "report.html", ".unfinished"


@dataclass(frozen=True)
class _Task:
    """An exercise of a notebook, and where its result is kept until all are there."""

    submission: Submission
    notebook: Notebook
    exercise: str

    def row(self, limits: Limits, stop: Event, folder: Path) -> Row:
        """Grade it, unless that was done before: the same content of the same file, within the same limits."""
        submission, notebook = self.submission, self.notebook
        key = repr((notebook.cells, self.exercise, submission.file, limits))
        kept = folder / f"{hashlib.sha256(key.encode(errors='backslashreplace')).hexdigest()}.json"
        if kept.exists():
            return Row(**json.loads(kept.read_text(encoding="utf-8")))
        try:
            outcome = grade_exercise(self.exercise, notebook.cells, submission.path.parent, limits, stop)
        except OSError as error:  # no process could be started: the other exercises may have more luck
            return _refused(submission, str(error), notebook.chapter.number, self.exercise)
        row = Row(notebook.learner, submission.file, notebook.chapter.number, self.exercise, **asdict(outcome))
        write_atomically(kept, json.dumps(asdict(row)).encode())
        return row


def grade_folder(
    folder: Path,
    out: Path,
    limits: Limits,
    *,
    jobs: int = 1,
    chapters: Collection[str] = (),
    scheme: Scheme | None = None,
    people: Sequence[Mapping[str, str]] = (),
    show_progress: bool = True,
) -> list[Row]:
    """Grade what lies in ``folder``; write tables, a report and pages of feedback into ``out``.

    Interrupted, it writes what is done so far; called again with the same limits, it goes on from there.
    ``chapters``: the numbers to grade; none means all.
    """
    rows = dict(enumerate(_work(folder, chapters)))
    tasks = {place: item for place, item in rows.items() if isinstance(item, _Task)}
    try:
        for place, row in _grade(tasks, limits, jobs, out / UNFINISHED, show_progress):
            rows[place] = row
    finally:
        graded, scheme = named((row for row in rows.values() if isinstance(row, Row)), people), scheme or Scheme()
        write_csv(graded, out / CSV)
        write_class(graded, out, scheme, people)
        write_feedback(graded, out / FEEDBACK, scheme.of)
        write_report(graded, out / REPORT, f"Grades: {folder.resolve().name}")
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return graded


def _work(folder: Path, chapters: Collection[str]) -> Iterator[_Task | Row]:
    """Yield what there is to grade, and a row for what there is not."""
    for submission in find_submissions(folder):
        try:
            notebook = submission.read()
        except Unreadable as reason:
            yield _refused(submission, str(reason))
            continue
        chapter = notebook.chapter
        if chapters and chapter.number not in chapters:
            continue
        yield from (_Task(submission, notebook, exercise) for exercise in chapter.exercises)
        if not chapter.exercises:
            yield Row(notebook.learner, submission.file, chapter.number, status="no exercise")


def _refused(submission: Submission, reason: str, chapter: str = "", exercise: str = "") -> Row:
    return Row(submission.learner, submission.file, chapter, exercise, "error", message=one_line(reason))


def _grade(
    tasks: Mapping[int, _Task], limits: Limits, jobs: int, kept: Path, show_progress: bool
) -> Iterator[tuple[int, Row]]:
    """Yield the rows of ``tasks`` by place, as they come; processes end when the caller stops asking."""
    stop = Event()
    with ThreadPoolExecutor(jobs) as pool, ProgressBar("grading", len(tasks), shown=show_progress) as bar:
        futures = {pool.submit(task.row, limits, stop, kept): place for place, task in tasks.items()}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                yield futures[future], future.result()
                bar.show(count)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
