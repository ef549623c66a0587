"""The command line of ``course grade``."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from course_utils.book.chapters import chapter_of
from tools.grading.process import Limits
from tools.grading.run import CSV, REPORT, grade_folder

__all__ = ["main"]

_EPILOG = """\
DIR holds one folder for each learner, or one notebook for each. A notebook is recognised by what is in it, so it may
have been renamed. An exercise is graded in a process of its own: what crashes, loops or is no notebook is a row that
says so, and costs the others nothing. This is a grader for a class and no prison: notebooks by strangers belong in a
container.
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
        rows = grade_folder(folder, out, limits, jobs=arguments.jobs, chapters=chapters)
    except KeyboardInterrupt:
        return _stop(f"interrupted; what is done is in {out}, and the same command goes on from there", 130)
    except (ValueError, OSError) as error:
        return _stop(str(error), 2)
    counts = Counter(row.status for row in rows)
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()) or "nothing to grade")
    print(f"{out / CSV}\n{out / REPORT}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course grade",
        description="Run the course's checks over a folder of submitted notebooks; write a CSV and a report.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cores = os.cpu_count() or 1
    parser.add_argument("folder", type=Path, metavar="DIR", help="the submissions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go, by default DIR-grades")
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
