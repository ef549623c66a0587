"""The command line of ``course grade``."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from course_utils.book.chapters import chapter_of
from tools.grading.points import CANVAS, MOODLE, Scheme, read_roster, read_scheme
from tools.grading.process import Limits
from tools.grading.run import CSV, FEEDBACK, REPORT, grade_folder

__all__ = ["main"]

_EPILOG = """\
DIR holds one folder for each learner, or notebooks with their names (alice_00.ipynb, alice_02.ipynb). A notebook is
recognised by what is in it. An exercise is graded in a process of its own: what crashes, loops or is no notebook is a
row that says so, and costs the others nothing. It does not hold back hostile code: grade notebooks by strangers
in a container.
"""


def main(argv: list[str] | None = None) -> int:
    """Run ``course grade``: 0 when everything is graded, 2 when it cannot run as asked, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    folder: Path = arguments.folder
    if sys.platform == "win32":
        return _stop("it needs the process limits of Linux or macOS: on Windows, run it inside WSL", 2)
    if not folder.is_dir():
        return _stop(f"DIR must be a folder: got {folder}", 2)
    out: Path = arguments.out or folder.resolve().with_name(f"{folder.resolve().name}-grades")
    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        return _stop(f"--out must lie outside DIR, where it would be taken for a learner: got {out}", 2)
    try:
        limits = Limits(arguments.timeout, arguments.memory)
        if arguments.jobs < 1:
            raise ValueError(f"jobs must be at least 1: got {arguments.jobs}")
        chapters = [chapter_of(number).number for number in arguments.chapter]
        people = read_roster(arguments.roster) if arguments.roster else []
        scheme = read_scheme(arguments.points) if arguments.points else Scheme()
        rows = grade_folder(folder, out, limits, jobs=arguments.jobs, chapters=chapters, scheme=scheme, people=people)
    except KeyboardInterrupt:
        return _stop(f"interrupted; what is done is in {out}, and the same command goes on from there", 130)
    except (ValueError, OSError) as error:
        return _stop(str(error), 2)
    counts = Counter(row.status for row in rows)
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()) or "nothing to grade")
    if strangers := sorted({row.learner for row in rows} - {person["Student"] for person in people}) if people else []:
        print(f"not in the class, and not in {CANVAS} and {MOODLE}: {', '.join(strangers)}")
    print(*(out / name for name in (CSV, CANVAS, MOODLE, REPORT, FEEDBACK)), sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course grade",
        description="Run the course's checks over a folder of notebooks; write tables, a report and feedback.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cores = os.cpu_count() or 1
    parser.add_argument("folder", type=Path, metavar="DIR", help="the submissions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go, by default DIR-grades")
    parser.add_argument(
        "--roster", type=Path, metavar="CSV", help="the class: name, email, id, or an export of the LMS"
    )
    parser.add_argument("--points", type=Path, metavar="TOML", help="what exercises are worth; by default a point each")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for an exercise; by default 60")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB", help="for an exercise; by default 4")
    parser.add_argument(
        "--jobs", type=int, default=max(1, cores // 2), help="exercises at once, by default %(default)s here"
    )
    parser.add_argument(
        "--chapter", action="append", default=[], metavar="NN", help="only this chapter; may be given again"
    )
    return parser


def _stop(message: str, status: int) -> int:
    print(f"course grade: {message}", file=sys.stderr)
    return status
