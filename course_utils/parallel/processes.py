"""Run a function on several processes of this machine with `torchrun`, and get back what each returned (chapter 08).

`torchrun` starts the processes and tells them of each other. Around it, a notebook and a test need a port that cannot
collide (the operating system picks a free one, and `torchrun` holds it), one thread a process, a limit on the time that
every process also keeps by itself, and, when one dies, a line for each rank that failed in place of pages of log.
"""

import faulthandler
import importlib
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

__all__ = ["RanksFailed", "command", "launch", "run_job"]

_JOB, _RESULT, _ERROR = "job.pt", "rank{}.pt", "rank{}.error"
_GRACE_S = 15.0  # beyond the limit: time for a process to say where it was stuck, and for torchrun to clear up


class RanksFailed(RuntimeError):
    """One or more processes did not return; the message has a line for each that failed."""


def launch(
    function: Callable[..., Any],
    ranks: int,
    *,
    backend: str = "gloo",
    timeout_s: float = 20.0,
    limit_s: float = 90.0,
    **arguments: Any,
) -> list[Any]:
    """Call ``function(**arguments)`` on ``ranks`` processes that form a process group, and return what each returned.

    Args:
        function: of a module, or defined in a notebook; in the latter case it must import what it uses. Each process
            calls it once `torch.distributed` is initialised.
        ranks: how many processes, on this machine.
        backend: ``"gloo"`` on CPUs; ``"nccl"`` gives each rank the GPU of its number.
        timeout_s: how long one rank waits for the others in a collective.
        limit_s: how long it may all take, start-up included.
        arguments: the same for every rank: tensors, numbers, strings, None, and lists, tuples and dictionaries of them;
            what the function returns must be of these too.

    Raises:
        RanksFailed: a rank raised, died or did not end within the limit; none is left running.
        TypeError: an argument of another kind.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks must be a whole number of at least 1: got {ranks!r}")
    if not timeout_s > 0 or not limit_s > 0:
        raise ValueError(f"timeout_s and limit_s must be above 0: got {timeout_s!r} and {limit_s!r}")
    with tempfile.TemporaryDirectory(prefix="course-ranks-") as folder:
        job = {
            "function": _locate(function),
            "path": list(sys.path),
            "backend": backend,
            "timeout_s": timeout_s,
            "deadline": time.time() + limit_s,
            "arguments": arguments,
        }
        given = ", ".join(f"{name} ({type(value).__name__})" for name, value in arguments.items())
        _save(job, Path(folder, _JOB), "arguments", given)
        code, log = _run(command(ranks, folder), limit_s)
        if code != 0:
            raise RanksFailed(_explain(Path(folder), ranks, code, log, limit_s))
        return [torch.load(Path(folder, _RESULT.format(rank))) for rank in range(ranks)]


def command(ranks: int, folder: str | Path) -> list[str]:
    """Return the `torchrun` command line that starts ``ranks`` processes on the job in ``folder``."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    here = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]  # on a port that is free
    return [*torchrun, *here, "-m", "course_utils.parallel", str(folder)]


def _save(value: Any, file: Path, role: str, given: str) -> None:
    """Save what another process can load without running code that came with it."""
    torch.save(value, file)
    try:
        torch.load(file)
    except pickle.UnpicklingError:
        kinds = "tensors, numbers, strings, None, and lists, tuples and dictionaries of them"
        raise TypeError(f"{role} must be {kinds}: got {given}") from None


def _locate(function: Callable[..., Any]) -> dict[str, str]:
    """How another process gets at ``function``: by its module, or from its source text if a notebook defines it."""
    name, module = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
    if not name.isidentifier():
        raise ValueError(f"function must be defined with def, outside of any other: got {name}")
    return {"name": name} | (
        {"source": inspect.getsource(function)} if module == "__main__" else {"module": str(module)}
    )


def _function(name: str, module: str = "", source: str = "") -> Callable[..., Any]:
    if module:
        return getattr(importlib.import_module(module), name)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace[name]


def _run(arguments: list[str], limit_s: float) -> tuple[int | None, str]:
    """Return the exit code, None when the time was up, and what was printed; no process outlives the call."""
    # Without the barrier a rank that is soon done leaves while another is still joining, which then fails.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DIST_INIT_BARRIER": "1"}
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        log, _ = process.communicate(timeout=limit_s + _GRACE_S)
        return process.returncode, log
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:  # the time was up, or the reader has interrupted the cell
            process.terminate()  # torchrun passes it on to its ranks
            try:
                process.communicate(timeout=_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()  # the ranks stop by themselves at the limit
                process.wait()


def _explain(folder: Path, ranks: int, code: int | None, log: str, limit_s: float) -> str:
    """Why the run failed: a line for each rank, those that only lost contact with the others at the end."""
    exits = dict(re.findall(r"rank\s*: (\d+).*?exitcode\s*: (-?\d+)", log, re.DOTALL))  # of torchrun's own summary
    lines = []
    for rank in range(ranks):
        error = folder / _ERROR.format(rank)
        message = error.read_text(encoding="utf-8") if error.exists() else ""
        if message.startswith("Timeout"):
            place = next((line[2:] for line in message.splitlines() if line.startswith("  File")), "a place unknown")
            message = f"still running after {limit_s:g} s, in {place}"
        elif not message and str(rank) in exits:
            exit_code = int(exits[str(rank)])
            cause = f"killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"
            message = f"died without a word ({cause})"
        if message:
            lines.append(f"rank {rank}: {message}")
    if not lines:
        return f"no rank began within {limit_s:g} s" if code is None else f"no rank began:\n{log[-2000:]}"
    lines.sort(key=lambda line: "LostContact" in line)
    return f"{len(lines)} of {ranks} ranks failed\n" + "\n".join(lines)


def run_job(folder: Path) -> None:
    """What each of the processes does: join the others, call the function, leave the result or the reason why not."""
    import torch.distributed as dist

    job = torch.load(folder / _JOB)
    rank = int(os.environ["RANK"])
    with open(folder / _ERROR.format(rank), "w", encoding="utf-8") as error_file:
        left_s = max(job["deadline"] - time.time(), 0.1)
        faulthandler.dump_traceback_later(left_s, exit=True, file=error_file)
        try:
            sys.path[:] = job["path"]
            torch.set_num_threads(1)
            if job["backend"] == "nccl":
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group(job["backend"], timeout=timedelta(seconds=job["timeout_s"]))
            result = _function(**job["function"])(**job["arguments"])
            _save(result, folder / _RESULT.format(rank), "what function returns", type(result).__name__)
        except BaseException as error:
            error_file.write(f"{type(error).__name__}: {error}")
            raise
    dist.destroy_process_group()
