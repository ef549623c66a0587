"""One run: every case in order, each kept on disk as soon as it is measured, and the record at the end."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from course_utils import recorded
from course_utils.recorded.journal import Journal
from course_utils.timing.bench.machine import provenance
from course_utils.timing.bench.processes import Attempt, started
from course_utils.timing.bench.sweep import Case, cases
from course_utils.timing.bench.trial import Outcome
from course_utils.timing.profiling import copy_bandwidth, keep_freed_memory

__all__ = ["SEED", "partial", "run"]

SEED = 0


def run(
    device: str,
    out: Path,
    *,
    quick: bool = False,
    processes: int = 1,
    command: str = "",
    plan: Sequence[Case] = (),
) -> recorded.Record:
    """Check and time every case and write the record.

    What is measured is kept in ``partial(out)`` until the record is written. A run that was ended, by whatever, goes on
    from there when it is started again with the same device, versions and cases.

    Args:
        device: "cpu" or "cuda".
        out: where the record goes.
        quick: the few small cases, in few rounds.
        processes: how many processes measure each case, one after the other; more than one only on a CPU.
        command: the command line, for the record.
        plan: the cases; by default those of ``cases(device, quick)``.

    Returns:
        The record, read back.

    Raises:
        BrokenProcessPool: one of several processes ended by itself.
        CheckFailed: an implementation's error is above its tolerance; no record is written.
        RecordError: the partial file belongs to another run.
        ValueError: fewer than one process, or several on a GPU.
    """
    if processes < 1 or (processes > 1 and device == "cuda"):
        raise ValueError(f"processes must be {'1 on a GPU' if device == 'cuda' else 'at least 1'}: got {processes}")
    plan = list(plan) or cases(device, quick)
    origin = provenance(device, quick, SEED, freed_memory_kept=keep_freed_memory(), processes=processes)
    journal = Journal(partial(out), {**origin, "cases": [str(case) for case in plan]})
    sessions = [entry["session"] for entry in journal.entries if "session" in entry]
    finished = {entry["case"] for entry in journal.entries if "case" in entry}
    remaining = [case for case in plan if str(case) not in finished]
    if remaining:
        print(f"{origin['device']}: {len(remaining)} of {len(plan)} cases to measure", file=sys.stderr)
        sessions.append(_session(device, sorted({case.dtype for case in remaining})))
        journal.append({"session": sessions[-1]})

    rounds, seconds = (10, 0.3) if quick else (30, 1.0)
    with (
        started(processes if remaining else 1, device, SEED, rounds, seconds / processes) as attempt,
        tqdm(remaining, unit="case", file=sys.stderr) as progress,
    ):
        for case in progress:
            progress.set_postfix_str(str(case))
            results, left_out = _attempt_within_memory(attempt, case)
            results = [{**result, "session": len(sessions) - 1} for result in results]
            journal.append({"case": str(case), "results": results, "left_out": left_out})

    outcomes = [entry for entry in journal.entries if "case" in entry]
    content = {
        "provenance": {**origin, "command": command},
        "sessions": sessions,
        "results": [result for entry in outcomes for result in entry["results"]],
        "left_out": [item for entry in outcomes for item in entry["left_out"]],
    }
    recorded.write(content, out)
    journal.remove()
    return recorded.read(out)


def partial(out: Path) -> Path:
    """Return the file that keeps what is measured until the record ``out`` is written."""
    return out.with_name(out.name + ".partial")


def _attempt_within_memory(attempt: Attempt, case: Case) -> Outcome:
    """Measure a case; one that the device's memory does not hold is left out."""
    try:
        return attempt(case)
    except torch.OutOfMemoryError as error:
        return [], [{**case.fields(), "implementation": "all", "reason": str(error).splitlines()[0]}]


def _session(device: str, dtypes: Sequence[str]) -> dict[str, Any]:
    bandwidth = {dtype: copy_bandwidth(device, getattr(torch, dtype)) for dtype in dtypes}
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "copy_gbps": bandwidth}
