"""Grading a folder: every exercise of every notebook, a few at a time, each result kept as soon as it is there."""

import json
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

from course_utils.book.progress_bar import ProgressBar
from tools.grading.process import Limits, grade_exercise, one_line
from tools.grading.results import Row, write_csv, write_report
from tools.grading.submissions import Notebook, Submission, Unreadable, find_submissions

__all__ = ["CSV", "REPORT", "UNFINISHED", "grade_folder"]

CSV, REPORT, UNFINISHED = "grades.csv", "report.html", "grades.unfinished"


@dataclass(frozen=True)
class _Task:
    """An exercise of a notebook."""

    submission: Submission
    notebook: Notebook
    exercise: str

    @property
    def key(self) -> str:
        """What its result is kept under: a file with another content is another task."""
        return f"{self.notebook.digest} {self.exercise} {self.submission.file}"

    def row(self, limits: Limits, stop: Event) -> Row:
        """Grade it."""
        submission, notebook = self.submission, self.notebook
        try:
            outcome = grade_exercise(self.exercise, notebook.cells, submission.path.parent, limits, stop)
        except OSError as error:  # no process could be started: the other exercises may have more luck
            return _refused(submission, str(error), notebook.chapter.number, self.exercise)
        return Row(submission.learner, submission.file, notebook.chapter.number, self.exercise, **asdict(outcome))


def grade_folder(
    folder: Path,
    out: Path,
    limits: Limits,
    *,
    jobs: int = 1,
    chapters: Collection[str] = (),
    show_progress: bool = True,
) -> list[Row]:
    """Grade what lies in ``folder`` and write ``grades.csv`` and ``report.html`` into ``out``.

    Interrupted, it writes what is done so far; called again with the same limits, it goes on from there.
    ``chapters``: the numbers to grade; none means all.
    """
    out.mkdir(parents=True, exist_ok=True)
    work = list(_work(folder, chapters))
    unfinished = out / UNFINISHED
    done = _read_done(unfinished, limits)
    try:
        with unfinished.open("a", encoding="utf-8") as file:
            tasks = [item for item in work if isinstance(item, _Task) and item.key not in done]
            for key, row in _grade(tasks, limits, jobs, show_progress):
                done[key] = row
                file.write(json.dumps({"key": key, "limits": asdict(limits), "row": asdict(row)}) + "\n")
                file.flush()
    finally:
        rows = [item if isinstance(item, Row) else done.get(item.key) for item in work]
        graded = [row for row in rows if row is not None]
        write_csv(graded, out / CSV)
        write_report(graded, out / REPORT, f"Grades: {folder.resolve().name}")
    unfinished.unlink()
    return graded


def _read_done(path: Path, limits: Limits) -> dict[str, Row]:
    """Return what an interrupted grading with the same limits has done; a line that is cut off is done again."""
    done = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError, KeyError):
            entry = json.loads(line)
            if entry["limits"] == asdict(limits):
                done[entry["key"]] = Row(**entry["row"])
    return done


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
            yield Row(submission.learner, submission.file, chapter.number, status="no exercise")


def _refused(submission: Submission, reason: str, chapter: str = "", exercise: str = "") -> Row:
    return Row(submission.learner, submission.file, chapter, exercise, "error", message=one_line(reason))


def _grade(tasks: list[_Task], limits: Limits, jobs: int, show_progress: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of ``tasks`` by key, as they come; processes end when the caller stops asking."""
    stop = Event()
    with ThreadPoolExecutor(jobs) as pool, ProgressBar("grading", len(tasks), shown=show_progress) as bar:
        futures = {pool.submit(task.row, limits, stop): task for task in tasks}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                yield futures[future].key, future.result()
                bar.show(count)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
