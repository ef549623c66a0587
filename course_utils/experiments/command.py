"""The command line of ``course train``."""

import argparse
import shlex
import sys
from pathlib import Path

from course_utils.experiments.study import STUDIES, find, run_study
from course_utils.timing.records import partial


def main(argv: list[str] | None = None) -> int:
    """Run ``course train``: 0 when the record is written, 2 when it cannot run as asked, 130 when interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    studies = "\n".join(f"  {name:<20} {find(name).about}" for name in STUDIES)
    parser = argparse.ArgumentParser(
        prog="course train",
        description=f"Run an experiment of the course and record it.\n\n{studies}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", choices=STUDIES, metavar="STUDY", help="one of those above")
    parser.add_argument(
        "--size",
        choices=("reduced", "full"),
        default="full",
        help="reduced as the notebooks run it, or full as it is recorded, which is the default",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the record, by default STUDY.json, or STUDY-reduced.json"
    )
    arguments = parser.parse_args(argv)
    study = find(arguments.study)
    out: Path = arguments.out or Path(study.name + "-reduced" * (arguments.size == "reduced") + ".json")
    if not out.parent.is_dir() or out.is_dir():
        return _stop(f"--out must be a file in a folder that exists: got {out}", 2)
    try:
        rows = run_study(study, arguments.size, out, command=shlex.join(["course", "train", *argv]))
    except KeyboardInterrupt:
        return _stop(f"interrupted; what is done is kept in {partial(out)}: the same command goes on from there", 130)
    except (ValueError, OSError) as error:
        return _stop(str(error), 2)
    print(f"{study.about}\n{len(rows)} runs in {out}")
    return 0


def _stop(message: str, status: int) -> int:
    print(f"course train: {message}", file=sys.stderr)
    return status
