"""The command line of ``course bench``."""

import argparse
import shlex
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch

from course_utils import recorded
from course_utils.timing.bench import goals
from course_utils.timing.bench.run import partial, run
from course_utils.timing.bench.trial import CheckFailed

__all__ = ["main"]

PROCESSES = 5


def main(argv: list[str] | None = None) -> int:
    """Run ``course bench``.

    Returns:
        0 when the record is written, 1 when a check failed, 2 when it cannot run as asked, 130 when interrupted.
    """
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser().parse_args(argv)
    out: Path = arguments.out
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return _stop("--device cuda needs a CUDA device, and PyTorch sees none; --device cpu runs anywhere", 2)
    if not out.parent.is_dir() or out.is_dir():
        return _stop(f"--out must be a file in a folder that exists: got {out}", 2)
    if arguments.threads < 1:
        return _stop(f"--threads must be at least 1: got {arguments.threads}", 2)
    on_gpu, processes = arguments.device == "cuda", arguments.processes
    if processes is None:
        processes = 1 if arguments.quick or on_gpu else PROCESSES
    if processes < 1 or (processes > 1 and on_gpu):
        return _stop(f"--processes must be {'1 with --device cuda' if on_gpu else 'at least 1'}: got {processes}", 2)
    torch.set_num_threads(arguments.threads)
    kept = f"what is measured is kept in {partial(out)}: the same command goes on from there"
    try:
        record = run(
            arguments.device,
            out,
            quick=arguments.quick,
            processes=processes,
            command=shlex.join(["course", "bench", *argv]),
        )
    except KeyboardInterrupt:
        return _stop(f"interrupted; {kept}", 130)
    except BrokenProcessPool:
        return _stop(f"a process that measured was ended from outside, perhaps for want of memory; {kept}", 1)
    except CheckFailed as failure:
        return _stop(f"no record is written, because a check failed: {failure}", 1)
    except (recorded.RecordError, OSError) as error:
        return _stop(str(error), 2)
    _report(record, out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course bench", description="Check every implementation of the ladder against float64, time it, record it."
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--quick", action="store_true", help="few small cases: under a minute on a CPU")
    parser.add_argument(
        "--threads", type=int, default=2, help="CPU threads for PyTorch, by default %(default)s as in the notebooks"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help=f"fresh processes that measure each case, by default {PROCESSES}; 1 with --quick and on a GPU",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the record, in JSON")
    return parser


def _report(record: recorded.Record, out: Path) -> None:
    print(record.table())
    for item in record.left_out:
        case = f"{item['operation']} {tuple(item['shape'])} {item['dtype']} {item['direction']}"
        print(f"left out: {item['implementation']}, {case}: {item['reason']}")
    if (held := goals.table(record)).rows:
        print(f"\n{held}")
    print(f"\n{len(record.results)} results in {out}")


def _stop(message: str, status: int) -> int:
    print(f"course bench: {message}", file=sys.stderr)
    return status
