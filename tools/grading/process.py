"""One exercise of one notebook in a process of its own: with limits, and gone when it is over,
children included."""

import json
import os
import secrets
import signal
import site
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import IO, Any, NamedTuple

__all__ = ["Interrupted", "Limits", "grade_exercise"]

_STARTUP_S = 120.0  # what Python and PyTorch may take to start, on a busy machine with a cold disk
_LOOK_EVERY_S = 0.2
_THREADS = 2  # as in the notebooks
_READ_BYTES = 1 << 16  # of the channel's end: enough for a verdict, whatever else was written there
_KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
# Memory is what is allocated (-d), in kB: -v would count the gigabytes of libraries that PyTorch
# maps too. -t, seconds of CPU, ends also what has left the process group. A file may have 256 MB. A
# system that lacks a limit goes without.
_WITH_LIMITS = (
    "{{ ulimit -c 0; ulimit -f 500000; ulimit -t {cpu_s}; ulimit -d {memory_kb}; }} "
    '2>/dev/null; exec "$@"'
)


class Limits(NamedTuple):
    """What one exercise may use."""

    timeout_s: float = 60.0  # from the first cell to the verdict
    memory_gb: float = (
        4.0  # that its process may allocate; PyTorch and the course take half of a GB
    )


class Interrupted(Exception):
    """The grading was called off while this exercise ran."""


def grade_exercise(path: Path, exercise: str, limits: Limits, stop: Event) -> dict[str, Any]:
    """Check ``exercise`` of the notebook at ``path`` in a new process, and return what comes of it:
    fields of a row.

    When ``stop`` is set, the process ends: Interrupted.
    """
    nonce = secrets.token_hex(16)
    cpu_s = int(_STARTUP_S + _THREADS * limits.timeout_s) + 1
    shell = _WITH_LIMITS.format(cpu_s=cpu_s, memory_kb=int(1e6 * limits.memory_gb))
    with (
        tempfile.TemporaryDirectory(prefix="course-grade-", ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile() as request,
        tempfile.TemporaryFile() as channel,
    ):
        request.write(nonce.encode())
        request.seek(0)
        worker = [sys.executable, "-P", "-m", "tools.grading.worker"]
        work = [str(path.resolve()), exercise]
        process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *worker, *work],
            stdin=request,
            stdout=channel,  # the worker keeps it from what the notebook prints
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=_environment(home),
            start_new_session=True,
        )
        try:
            return _outcome(process, channel, nonce, limits, stop)
        finally:
            with suppress(
                ProcessLookupError, PermissionError
            ):  # macOS: not permitted once only zombies are left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment(home: str) -> dict[str, str]:
    """Return the environment of a grading process: a home of its own, and none of the instructor's
    secrets."""
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "HOME": home,
        "TMPDIR": home,
        "COURSE_PROGRESS_DIR": home,
        # it depends on HOME, and the course may be installed there
        "PYTHONUSERBASE": site.getuserbase(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": str(_THREADS),
        "OMP_WAIT_POLICY": "passive",
        "CUDA_VISIBLE_DEVICES": "",  # checks run on the CPU, the same everywhere
        "MPLBACKEND": "agg",
        "HF_HUB_OFFLINE": "1",
    }


def _outcome(
    process: subprocess.Popen, channel: IO[bytes], nonce: str, limits: Limits, stop: Event
) -> dict[str, Any]:
    """Wait for the verdict, or for the end of the time; return the fields of a row."""
    began = time.monotonic()
    allowed_s = _STARTUP_S
    reason = ""
    while not reason:
        with suppress(subprocess.TimeoutExpired):
            reason = _ending(process.wait(_LOOK_EVERY_S))
        if stop.is_set():
            raise Interrupted
        if allowed_s == _STARTUP_S and _said(
            channel, nonce
        ):  # the clock starts when the imports are done
            began = time.monotonic()
            allowed_s = limits.timeout_s
        if time.monotonic() - began > allowed_s:
            reason = f"Still running after {allowed_s:g} s"
    seconds = time.monotonic() - began
    said = _said(channel, nonce)
    if isinstance(said, dict):
        return {**said, "seconds": seconds}
    if not said:
        reason = (
            f"The grading process did not start ({reason}): run `course doctor`, or allow more "
            "--memory"
        )
    return {"status": "error", "message": f"{reason}{said}.", "seconds": seconds}


def _said(channel: IO[bytes], nonce: str) -> str | dict[str, Any]:
    """Return what the worker said last, where it is or its verdict; lines by anybody else are
    passed over."""
    start = max(0, os.fstat(channel.fileno()).st_size - _READ_BYTES)
    lines = os.pread(channel.fileno(), _READ_BYTES, start).splitlines()
    own = [line for line in lines if line.startswith(nonce.encode())]
    return json.loads(own[-1][len(nonce) :]) if own else ""


def _ending(status: int) -> str:
    """Return how a process ended, from its exit status."""
    return (
        f"It ended with exit status {status}"
        if status >= 0
        else f"It was ended by {signal.Signals(-status).name}"
    )
