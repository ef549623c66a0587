"""``course bench``: every implementation of the ladder, checked against float64, timed, and recorded (chapter 09).

Where the memory of a call lies is drawn anew in every process, and what else the machine does changes from one to the
next: a process that repeats a call, however often, meets one case of each. So each of several processes measures all
cases, one after the other (Kalibera and Jones 2013, Rigorous Benchmarking in Reasonable Time, abstract).
"""

import argparse
import shlex
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from course_utils.timing import records
from course_utils.timing.ladder import OPERATIONS, Case, CheckFailed, Outcome, attempt, new_process
from course_utils.timing.timers import keep_freed_memory

SEED = 0
THREADS = 2  # as in the notebooks
PROCESSES = 5  # on a GPU one

# small enough for loops in Python
TINY = {"layer_norm": (8, 16), "rms_norm": (8, 16), "batch_norm": (4, 4, 3, 3), "rope": (1, 2, 4, 8)}
ON_CPU: dict[str, list[tuple[int, ...]]] = {
    "layer_norm": [(4096, 1024), (4096, 1023), (1024, 4096), (8192, 512)],
    "rms_norm": [(4096, 1024), (4096, 1023), (1024, 4096), (8192, 512)],
    "batch_norm": [(256, 64, 14, 14), (16, 64, 56, 56)],
    "rope": [(1, 32, 512, 128)],
}


def cases(device: str) -> list[Case]:
    """Return the cases of a run on ``device``, "cpu" or "cuda", each operation's together."""
    sweep = _on_gpu() if device == "cuda" else _on_cpu()
    directions = ("forward", "forward+backward")
    return [Case(name, direction, shape, dtype) for name, shape, dtype in sweep for direction in directions]


def _on_cpu() -> Iterator[tuple[str, tuple[int, ...], str]]:
    for name in OPERATIONS:
        yield name, TINY[name], "float32"
        yield from ((name, shape, "float32") for shape in ON_CPU[name])
        yield from ((name, ON_CPU[name][0], dtype) for dtype in ("bfloat16", "float16"))


def _on_gpu() -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Compiling takes most of a sweep's time, seconds for each shape and direction: hence no full grid."""
    for name in ("layer_norm", "rms_norm"):
        yield name, TINY[name], "float32"
        yield from ((name, (4096, features), "bfloat16") for features in (512, 1023, 2048, 4095, 4096, 8192, 16384))
        yield from ((name, (65536, features), "bfloat16") for features in (512, 4096, 16384))
        yield name, (8192, 4096), "bfloat16"
        yield from ((name, (4096, features), "float32") for features in (1024, 4095, 4096, 8192))
        yield from ((name, (4096, features), "float16") for features in (1024, 4096, 16384))
    yield from (("batch_norm", (256, 64, 56, 56), dtype) for dtype in ("float32", "bfloat16", "float16"))
    yield from (("rope", (1, 32, tokens, 128), "bfloat16") for tokens in (512, 4096, 16384))
    yield from (("rope", (1, 32, 4096, 128), dtype) for dtype in ("float32", "float16"))


def run(device: str, out: Path, command: str) -> records.Record:
    """Check and time every case on ``device``, "cpu" or "cuda", write the record to ``out``, and return it.

    What is measured is kept in a file beside ``out`` until then. A run that was ended, by whatever, goes on
    from there when it is started again with the same device, versions and cases.
    """
    plan = cases(device)
    processes = 1 if device == "cuda" else PROCESSES
    origin = {
        **records.machine(device),
        "device_type": device,
        "processes": processes,
        "threads": THREADS,
        "allocator": "freed memory kept" if keep_freed_memory() else "the system's",
        "libraries": _versions(),
        "seed": SEED,
    }
    begun = {**origin, "cases": [str(case) for case in plan]}
    finished = records.resume(records.partial(out), begun)
    done = [(entry["process"], entry["case"]) for entry in finished]
    remaining = [(number, case) for number in range(processes) for case in plan if (number, str(case)) not in done]
    print(f"{origin['device']}: {len(remaining)} of {processes * len(plan)} cases to measure", file=sys.stderr)

    with tqdm(total=len(remaining), unit="case", file=sys.stderr) as progress:
        for number, together in groupby(remaining, key=lambda pair: pair[0]):
            with new_process(THREADS) as process:
                for _, case in together:
                    progress.set_postfix_str(str(case))
                    try:
                        results, left_out = process.submit(attempt, case, device, SEED, 30, 1 / processes).result()
                    except torch.OutOfMemoryError as error:
                        reason = str(error).splitlines()[0]
                        results, left_out = [], [{**case.fields(), "implementation": "all", "reason": reason}]
                    entry = {"process": number, "case": str(case), "results": results, "left_out": left_out}
                    finished.append(entry)
                    records.keep(records.partial(out), begun, finished)
                    progress.update()

    outcomes = [_merged([entry for entry in finished if entry["case"] == str(case)]) for case in plan]
    content = {
        "provenance": {**origin, "command": command, "date": datetime.now(UTC).isoformat(timespec="seconds")},
        "results": [result for results, _ in outcomes for result in results],
        "left_out": [item for _, items in outcomes for item in items],
    }
    records.write_json(content, out)
    records.partial(out).unlink(missing_ok=True)
    return records.read(out)


def _merged(entries: Sequence[Mapping[str, Any]]) -> Outcome:
    """Return one outcome for those of several processes; an implementation that any of them left out is left out."""
    left_out = {item["implementation"]: item for entry in entries for item in entry["left_out"]}
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for result in (result for entry in entries for result in entry["results"]):
        by_name.setdefault(result["implementation"], []).append(result)
    merged = [_median(results) for name, results in by_name.items() if name not in left_out]
    return merged, list(left_out.values())


def _median(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several processes found for one implementation as one: the medians, and the range of the medians."""
    medians = [result["median_ms"] for result in results]
    return {
        **results[0],
        "errors": {name: max(result["errors"][name] for result in results) for name in results[0]["errors"]},
        **{key: statistics.median(result[key] for result in results) for key in ("median_ms", "p10_ms", "copy_gbps")},
        "range_ms": [min(medians), max(medians)],
        "runs": sum(result["runs"] for result in results),
    }


def _versions() -> dict[str, str]:
    """Return the versions of Triton and of each peer that is installed, by the name that is imported."""
    names = {"triton", *(library for operation in OPERATIONS.values() for library, _ in operation.peers)}
    installed = metadata.packages_distributions()
    return {name: metadata.version(installed[name][0]) for name in sorted(names) if name in installed}


def main(argv: list[str] | None = None) -> int:
    """Run ``course bench``: 0 when the record is written, 1 when a check failed, 2 when it cannot run as asked."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="course bench", description="Check every implementation of the ladder against float64, time it, record it."
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the record, in JSON")
    arguments = parser.parse_args(argv)

    out: Path = arguments.out
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return _stop("--device cuda needs a CUDA device, and PyTorch sees none; --device cpu runs anywhere", 2)
    if not out.parent.is_dir() or out.is_dir():
        return _stop(f"--out must be a file in a folder that exists: got {out}", 2)
    kept = f"what is measured is kept in {records.partial(out)}: the same command goes on from there"
    try:
        record = run(arguments.device, out, shlex.join(["course", "bench", *argv]))
    except KeyboardInterrupt:
        return _stop(f"interrupted; {kept}", 130)
    except BrokenProcessPool:
        return _stop(f"a process that measured was ended from outside, perhaps for want of memory; {kept}", 1)
    except CheckFailed as failure:
        return _stop(f"no record is written, because a check failed: {failure}", 1)
    except (records.RecordError, OSError) as error:
        return _stop(str(error), 2)
    for item in (*record.results, *record.left_out):
        case = f"{item['operation']} {tuple(item['shape'])} {item['dtype']} {item['direction']}"
        found = f"left out: {item['reason']}" if "reason" in item else f"{item['median_ms']:.3g} ms"
        print(f"{case}, {item['implementation']}: {found}")
    print(f"\n{len(record.results)} results in {out}")
    return 0


def _stop(message: str, status: int) -> int:
    print(f"course bench: {message}", file=sys.stderr)
    return status
