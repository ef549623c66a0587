"""One exercise of one notebook in a process of its own: with limits, and gone when it is over, children included."""

import json
import os
import secrets
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, Any

__all__ = ["Interrupted", "Limits", "Outcome", "grade_exercise", "one_line"]

_STARTUP_S = 120.0  # what Python and PyTorch may take to start, on a busy machine with a cold disk
_LOOK_EVERY_S = 0.2
_THREADS = 2  # as in the notebooks
_FILE_MB = 256  # that the notebook's code may write to one file
_READ_BYTES = 1 << 16  # of the channel's end: enough for a verdict, whatever else was written there
_KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")


@dataclass(frozen=True)
class Limits:
    """What one exercise may use: at least 1 GB, for PyTorch and the course take half of that."""

    timeout_s: float = 60.0  # from the first cell to the verdict
    memory_gb: float = 4.0  # that its process may allocate
    processes: int = 32  # at once

    def __post_init__(self) -> None:
        if not self.timeout_s > 0:
            raise ValueError(f"timeout must be more than 0 seconds: got {self.timeout_s:g}")
        if not self.memory_gb >= 1:
            raise ValueError(f"memory must be at least 1 GB: got {self.memory_gb:g}")

    def for_process(self) -> dict[str, int]:
        """Return what the process sets for itself."""
        cpu_s = int(_STARTUP_S + _THREADS * self.timeout_s) + 1
        return {"memory_bytes": int(self.memory_gb * 1e9), "cpu_s": cpu_s, "file_bytes": int(_FILE_MB * 1e6)}


@dataclass(frozen=True)
class Outcome:
    """The verdict on one exercise; see ``Row`` for the parts."""

    status: str
    mistake: str
    message: str
    seconds: float
    right: int = 0
    probes: int = 0
    evidence: str = ""
    hint: str = ""


class Interrupted(Exception):
    """The grading was called off while this exercise ran."""


def grade_exercise(
    exercise: str, cells: Sequence[tuple[int, str]], folder: Path, limits: Limits, stop: Event
) -> Outcome:
    """Run the code cells, by position, in a new process, check ``exercise`` there, and return what came of it.

    Modules are found in ``folder``, where the notebook lies. When ``stop`` is set, the process ends: Interrupted.
    """
    nonce = secrets.token_hex(16)
    work = {"nonce": nonce, "exercise": exercise, "cells": cells, "folder": str(folder.resolve())}
    with (
        tempfile.TemporaryDirectory(prefix="course-grade-", ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile() as request,
        tempfile.TemporaryFile() as channel,
    ):
        request.write(json.dumps({**work, "limits": limits.for_process()}).encode())
        request.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tools.grading.worker", str(channel.fileno())],
            stdin=request,
            stdout=subprocess.DEVNULL,  # nothing that is printed is read, so a gigabyte of it costs nothing
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=_environment(home),
            pass_fds=(channel.fileno(),),
            start_new_session=True,
        )
        watch = _Watch(process, channel, nonce, limits, stop)
        try:
            stopped = watch.until_it_ends()
        finally:
            _end_group(process)
        return watch.outcome(stopped)


def _environment(home: str) -> dict[str, str]:
    """Return the environment of a grading process: a home of its own, and none of the instructor's secrets."""
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "HOME": home,
        "TMPDIR": home,
        "COURSE_PROGRESS_DIR": home,
        "PYTHONUSERBASE": site.getuserbase(),  # it depends on HOME, and the course may be installed there
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": str(_THREADS),
        "OMP_WAIT_POLICY": "passive",
        "CUDA_VISIBLE_DEVICES": "",  # checks run on the CPU, the same everywhere
        "MPLBACKEND": "agg",
        "HF_HUB_OFFLINE": "1",
    }


class _Watch:
    """Follows one grading process from outside."""

    def __init__(self, process: subprocess.Popen, channel: IO[bytes], nonce: str, limits: Limits, stop: Event) -> None:
        self.process, self.channel, self.nonce, self.limits, self.stop = process, channel, nonce, limits, stop
        self.began = time.monotonic()
        self.ready = False

    def until_it_ends(self) -> str:
        """Wait for the end; return why it has to be stopped, or nothing when it ends by itself."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_LOOK_EVERY_S)
                return ""
            if self.stop.is_set():
                raise Interrupted
            if not self.ready and self._events():  # the clock starts when the imports are done
                self.began, self.ready = time.monotonic(), True
            allowed_s = self.limits.timeout_s if self.ready else _STARTUP_S
            if time.monotonic() - self.began > allowed_s:
                return f"still running after {allowed_s:g} s"
            if _group_size(self.process.pid) > self.limits.processes:
                return f"more than {self.limits.processes} processes"

    def outcome(self, stopped: str) -> Outcome:
        """Return what came of the exercise; ``stopped`` is why it was ended before its time."""
        seconds = time.monotonic() - self.began
        events = self._events()
        verdict = next((event["verdict"] for event in events if "verdict" in event), None)
        if verdict is not None:
            return Outcome(**verdict, seconds=seconds)
        reason = stopped or _ending(self.process.returncode)
        if not events:
            reason = f"the grading process did not start ({reason}): run `course doctor`, or allow more --memory"
        place = next((event["place"] for event in reversed(events) if "place" in event), "")
        return Outcome("error", "", f"{reason}{f', {place}' if place else ''}", seconds)

    def _events(self) -> list[Mapping[str, Any]]:
        """Return what the worker has said, oldest first; lines by anybody else are passed over."""
        descriptor = self.channel.fileno()
        start = max(0, os.fstat(descriptor).st_size - _READ_BYTES)
        events: list[Mapping[str, Any]] = []
        for line in os.pread(descriptor, _READ_BYTES, start).splitlines():
            with suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict) and event.get("nonce") == self.nonce:
                    events.append(event)
        return events


def _ending(status: int) -> str:
    """Return how a process ended, from its exit status."""
    if status >= 0:
        return f"it ended its own process with exit status {status}"
    hint = ", as by a system that is short of memory" if -status == signal.SIGKILL else ""
    return f"the process was ended by a signal ({(signal.strsignal(-status) or str(-status)).lower()}{hint})"


def _group_size(group: int) -> int:
    """Return how many processes are in the process group, where /proc says so; elsewhere 1."""
    size = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # one that has just ended
            size += int(path.read_text().rpartition(")")[2].split()[2]) == group
    return max(size, 1)


def _end_group(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: not permitted once only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def one_line(text: str) -> str:
    """Return ``text`` as one printable line of at most 300 characters."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line[:300] + "…" * (len(line) > 300)
