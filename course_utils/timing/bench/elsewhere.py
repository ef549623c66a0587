"""One case timed in a process of its own, in which Triton compiles, whatever the caller has told it to do."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from course_utils.timing.bench.sweep import Case

__all__ = ["attempt_elsewhere"]

_PROGRAM = """
import json, sys
from course_utils.timing.bench import Case
from course_utils.timing.bench.trial import attempt
given = json.loads(sys.argv[1])
case = Case(**{**given["case"], "shape": tuple(given["case"]["shape"])})
print(json.dumps(attempt(case, given["device"], 0, rounds=given["rounds"], seconds=given["seconds"])))
"""


def attempt_elsewhere(
    case: Case, device: str = "cuda", rounds: int = 30, seconds: float = 1.0, timeout: float = 300.0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Check and time every implementation of ``case`` in a fresh process, with Triton's interpreter off.

    Args:
        case: what to time.
        device: "cuda" or "cpu".
        rounds: how many runs of each.
        seconds: the most time for each.
        timeout: seconds after which the process is given up.

    Returns:
        What ``bench.trial.attempt`` returns: the results, and what was left out with its reason.

    Raises:
        RuntimeError: the process failed; its last line says why.
    """
    given = json.dumps({"case": asdict(case), "device": device, "rounds": rounds, "seconds": seconds})
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, given],
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["the process failed"])[-1])
    results, left_out = json.loads(done.stdout.strip().splitlines()[-1])
    return results, left_out
