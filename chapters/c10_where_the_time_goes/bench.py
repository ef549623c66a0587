"""``course bench``: every implementation of the ladder, checked against float64, timed, and
recorded (chapter 10).

Where the memory of a call lies is drawn anew in every process, and what else the machine does
changes from one to the next: a process that repeats a call, however often, meets one case of each.
So each of several processes measures all cases, one after the other (Kalibera and Jones 2013,
Rigorous Benchmarking in Reasonable Time, abstract).
"""

import argparse
import shlex
import statistics
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from importlib import metadata
from itertools import groupby
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import torch
from tqdm import tqdm

from chapters.c10_where_the_time_goes import records
from chapters.c10_where_the_time_goes.ladder import (
    OPERATIONS,
    Case,
    CheckFailed,
    check_and_time,
    new_process,
    why_no_kernel,
)
from course_utils import runs
from course_utils.timing.timers import keep_freed_memory

SEED = 0
THREADS = 2  # as in the notebooks
PROCESSES = 5  # on a GPU one for each case: what a case leaves in memory, or breaks, ends with it
ROUNDS = 30

DIRECTIONS = ("forward", "forward+backward")
CASES = Path(__file__).with_name("cases.toml")


def cases(device: str, quick: bool = False) -> list[Case]:
    """Return the cases of a run on ``device``, "cpu" or "cuda", each operation's together, but on a
    GPU by their size; ``quick``: those of one shape."""
    sweep = tomllib.loads(CASES.read_text(encoding="utf-8"))["quick" if quick else device]
    found = [
        Case(line["operation"], direction, tuple(shape), line["dtype"])
        for line in sweep
        for shape in line["shapes"]
        for direction in DIRECTIONS
    ]
    return sorted(found, key=lambda case: prod(case.shape)) if device == "cuda" else found


def run(device: str, out: Path, command: str, quick: bool = False) -> records.Record:
    """Check and time every case on ``device``, "cpu" or "cuda", write the record to ``out``, and
    return it.

    A case that a process has measured is on disk at once: a run that was ended, by whatever, goes
    on from there when it is started again with the same device and versions. A record that is
    finished is left as it is.
    """
    plan = cases(device, quick)
    processes, apart = (1, 2) if device == "cuda" else (PROCESSES, 1)
    provenance = {
        **runs.machine(device),
        "device_type": device,
        "quick": quick,
        "processes": processes,
        "threads": THREADS,
        "allocator": "freed memory kept" if keep_freed_memory() else "the system's",
        "libraries": _versions(),
        "seed": SEED,
        "command": command,
    }
    measured = runs.begin(out, provenance)
    if measured and "process" not in measured[0]:
        return records.read(out)
    done = [(run["process"], _case(run)) for run in measured]
    remaining = [
        (number, case) for number in range(processes) for case in plan if (number, case) not in done
    ]
    print(
        f"{provenance['device']}: {len(remaining)} of {processes * len(plan)} cases to measure",
        file=sys.stderr,
    )

    with tqdm(total=len(remaining), unit="case", file=sys.stderr) as progress:
        groups = groupby(remaining, key=itemgetter(slice(None, apart)))
        together = [list(pairs) for _, pairs in groups]
        for process, pairs in _in_processes(together, ahead=device == "cuda"):
            for number, case in pairs:
                progress.set_postfix_str(str(case))
                try:
                    task = process.submit(check_and_time, case, device, SEED, ROUNDS, 1 / processes)
                    results, left_out = task.result()
                except torch.OutOfMemoryError as error:
                    reason = str(error).splitlines()[0]
                    results, left_out = [], [{"implementation": "all", "reason": reason}]
                runs.append(
                    out,
                    {**case.fields(), "process": number, "results": results, "left_out": left_out},
                )
                progress.update()

    begun, measured = runs.read(out)
    runs.write(
        out,
        begun,
        [_merged(case, [run for run in measured if _case(run) == case]) for case in plan],
    )
    return records.read(out)


def _in_processes(
    groups: Sequence[Sequence[Any]], ahead: bool
) -> Iterator[tuple[ProcessPoolExecutor, Sequence[Any]]]:
    """Yield each group with a process for it alone; ``ahead``: the next one begins while this one
    is at work, since its imports take seconds, which on a CPU would disturb what is timed."""
    following: ProcessPoolExecutor | None = None
    try:
        for place, group in enumerate(groups):
            with following or new_process(THREADS) as process:
                following = None
                if ahead and place + 1 < len(groups):
                    following = new_process(THREADS)
                    following.submit(int)
                yield process, group
    finally:
        if following:
            following.shutdown()


def _case(run: Mapping[str, Any]) -> Case:
    return Case(run["operation"], run["direction"], tuple(run["shape"]), run["dtype"])


def _merged(case: Case, measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one run of a case for those of several processes; what any of them left out is left
    out."""
    left_out = {item["implementation"]: item for run in measured for item in run["left_out"]}
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for run in measured:
        for result in run["results"]:
            by_name.setdefault(result["implementation"], []).append(result)
    results = [_median(results) for name, results in by_name.items() if name not in left_out]
    return {**case.fields(), "results": results, "left_out": list(left_out.values())}


def _median(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several processes found for one implementation as one: the medians, and the range
    of the medians."""
    medians = [result["median_ms"] for result in results]
    return {
        **results[0],
        "errors": {
            name: max(result["errors"][name] for result in results) for name in results[0]["errors"]
        },
        **{
            key: statistics.median(result[key] for result in results)
            for key in ("median_ms", "p10_ms", "copy_gbps", "nothing_ms")
        },
        "range_ms": [min(medians), max(medians)],
        "runs": sum(result["runs"] for result in results),
    }


def _versions() -> dict[str, str]:
    """Return the versions of Triton and of each peer that is installed, by the name that is
    imported."""
    libraries = {rung.library for operation in OPERATIONS.values() for rung in operation.rungs}
    names = {"triton", *libraries}
    installed = metadata.packages_distributions()
    return {
        name: metadata.version(installed[name][0]) for name in sorted(names) if name in installed
    }


def main(argv: list[str] | None = None) -> int:
    """Run ``course bench``; it exits with 1 when a result was wrong, 2 when it cannot run, 130 when
    interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="course bench",
        description="Check every implementation of the ladder against float64, time it, record it.",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the record, in JSON Lines"
    )
    parser.add_argument("--quick", action="store_true", help="one shape, in about two minutes")
    parser.add_argument(
        "--without-triton", action="store_true", help="go on where Triton cannot start a kernel"
    )
    arguments = parser.parse_args(argv)

    def stop(message: str, status: int) -> NoReturn:
        parser.exit(status, f"course bench: {message}\n")

    out: Path = arguments.out
    if arguments.device == "cuda" and not torch.cuda.is_available():
        stop(
            "--device cuda needs a CUDA device, and PyTorch sees none: `course doctor` says why; "
            "--device cpu runs anywhere",
            2,
        )
    if not out.parent.is_dir() or out.is_dir():
        stop(f"--out must be a file in a folder that exists: got {out}", 2)
    kept = f"{out} has what is measured: the same command goes on from there"
    if arguments.device == "cuda" and not arguments.without_triton:
        with new_process(THREADS) as process:
            if reason := process.submit(why_no_kernel).result():
                stop(f"{reason}; --without-triton measures what remains", 2)
    try:
        record = run(arguments.device, out, shlex.join(["course", "bench", *argv]), arguments.quick)
    except KeyboardInterrupt:
        stop(f"interrupted; {kept}", 130)
    except BrokenProcessPool:
        stop(
            f"a process that measured was ended from outside, perhaps for want of memory; {kept}", 1
        )
    except (runs.RecordError, OSError) as error:
        stop(str(error), 2)
    for item in (*record.results, *record.left_out):
        case = f"{item['operation']} {tuple(item['shape'])} {item['dtype']} {item['direction']}"
        outcome = (
            f"left out: {item['reason']}" if "reason" in item else f"{item['median_ms']:.3g} ms"
        )
        print(f"{case}, {item['implementation']}: {outcome}")
    print(f"\n{len(record.results)} results in {out}")
    wrong = sum(item["reason"].startswith(CheckFailed.__name__) for item in record.left_out)
    if wrong:
        print(f"course bench: {wrong} results are wrong, as said above", file=sys.stderr)
    return int(wrong > 0)
