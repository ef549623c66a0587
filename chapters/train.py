"""The command line of ``course train``, and all studies that it knows."""

import argparse
import shlex
import sys
from pathlib import Path

from chapters.c07_norms_of_models import copying, without_norms
from chapters.c08_norms_at_work import batch_size, lstm_length, norm_placement, shaken
from chapters.c12_scan import rnn_time
from chapters.c13_why_position import extrapolation, reading
from chapters.c15_scaling_rope import halved
from chapters.c16_longer_context import (
    hybrid_context,
    long_context,
    long_context_tuning,
    longrope_search,
    smollm2_agreement,
    smollm2_length,
    smollm2_memory,
)
from course_utils.experiments.study import Study, run_study

MODULES = (
    copying,
    without_norms,
    batch_size,
    lstm_length,
    norm_placement,
    shaken,
    rnn_time,
    extrapolation,
    reading,
    halved,
    smollm2_length,
    smollm2_memory,
    smollm2_agreement,
    long_context,
    long_context_tuning,
    hybrid_context,
    longrope_search,
)
STUDIES: dict[str, Study] = {
    value.name: value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, Study)
}


def main(argv: list[str] | None = None) -> int:
    """Run ``course train``; it exits with 2 when it cannot run as asked, and with 130 when it is
    interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    studies = "\n".join(f"  {name:<20} {study.about}" for name, study in STUDIES.items())
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
        "--out",
        type=Path,
        metavar="FILE",
        help="the record, by default STUDY.jsonl, or STUDY-reduced.jsonl; runs that it holds are "
        "not made again",
    )
    arguments = parser.parse_args(argv)
    study = STUDIES[arguments.study]
    out: Path = arguments.out or Path(
        study.name + "-reduced" * (arguments.size == "reduced") + ".jsonl"
    )
    if not out.parent.is_dir() or out.is_dir():
        parser.exit(2, f"course train: --out must be a file in a folder that exists: got {out}\n")
    try:
        rows = run_study(study, arguments.size, out, command=shlex.join(["course", "train", *argv]))
    except KeyboardInterrupt:
        parser.exit(
            130,
            f"course train: interrupted; {out} has what is done: the same command goes on from "
            "there\n",
        )
    except (ValueError, OSError) as error:
        parser.exit(2, f"course train: {error}\n")
    print(f"{study.about}\n{len(rows)} runs in {out}")
    return 0
