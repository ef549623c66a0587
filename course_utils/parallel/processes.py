"""Run a function on several processes of this machine with `torchrun`, and get back what each returned (chapter 08).

`torchrun` starts the processes and tells them of each other. Around it, a notebook and a test need a port that cannot
collide (the operating system picks a free one, and `torchrun` holds it), one thread a process, a limit on the time that
every process also keeps by itself, and, when one dies, a line for each rank that failed in place of pages of log.
"""

import faulthandler
import importlib
import inspect
import os
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
    function: Callable[..., Any], ranks: int, *, timeout_s: float = 20.0, limit_s: float = 90.0, **arguments: Any
) -> list[Any]:
    """Call ``function(**arguments)`` on ``ranks`` processes that form a process group, and return what each returned.

    Args:
        function: of a module, or defined in a notebook; in the latter case it must import what it uses. Each process
            calls it once `torch.distributed` is initialised, with gloo, on the CPU.
        ranks: how many processes, on this machine.
        timeout_s: how long one rank waits for the others in a collective.
        limit_s: how long it may all take, start-up included.
        arguments: the same for every rank; like what the function returns, of kinds that `torch.save` takes.

    Raises:
        RanksFailed: a rank raised, died or did not end within the limit; none is left running.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks must be a whole number of at least 1: got {ranks!r}")
    name, module = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
    if not name.isidentifier():
        raise ValueError(f"function must be defined with def, outside of any other: got {name}")
    with tempfile.TemporaryDirectory(prefix="course-ranks-") as folder:
        job = {
            "name": name,
            "module": module,
            "source": inspect.getsource(function) if module == "__main__" else None,  # which no other process has
            "path": sys.path,
            "timeout_s": timeout_s,
            "deadline": time.time() + limit_s,
            "arguments": arguments,
        }
        torch.save(job, Path(folder, _JOB))
        code, log = _run(command(ranks, folder), limit_s)
        if code != 0:
            raise RanksFailed(_explain(Path(folder), ranks, log, limit_s))
        return [torch.load(Path(folder, _RESULT.format(rank)), weights_only=False) for rank in range(ranks)]


def command(ranks: int, folder: str | Path) -> list[str]:
    """Return the `torchrun` command line that starts ``ranks`` processes on the job in ``folder``."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    here = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]  # on a port that is free
    return [*torchrun, *here, "-m", "course_utils.parallel", str(folder)]


def _run(arguments: list[str], limit_s: float) -> tuple[int | None, str]:
    """Return the exit code, None when the time was up, and what was printed."""
    # Without the barrier a rank that is soon done leaves while another is still joining, which then fails.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DIST_INIT_BARRIER": "1"}
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            log, _ = process.communicate(timeout=limit_s + _GRACE_S)
            return process.returncode, log
        except subprocess.TimeoutExpired:
            return None, ""
        finally:  # the time was up, or the reader has interrupted the cell
            process.terminate()  # torchrun passes it on to its ranks; nothing happens where it has ended


def _explain(folder: Path, ranks: int, log: str, limit_s: float) -> str:
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
        return f"no rank began within {limit_s:g} s" if not log else f"no rank began:\n{log[-2000:]}"
    lines.sort(key=lambda line: "LostContact" in line)
    return f"{len(lines)} of {ranks} ranks failed\n" + "\n".join(lines)


def run_job(folder: Path) -> None:
    """What each of the processes does: join the others, call the function, leave the result or the reason why not."""
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    with open(folder / _ERROR.format(rank), "w", encoding="utf-8") as error_file:
        try:
            job = torch.load(folder / _JOB, weights_only=False)
            left_s = max(job["deadline"] - time.time(), 0.1)
            faulthandler.dump_traceback_later(left_s, exit=True, file=error_file)
            sys.path[:] = job["path"]
            torch.set_num_threads(1)
            dist.init_process_group("gloo", timeout=timedelta(seconds=job["timeout_s"]))
            namespace: dict[str, Any] = {}
            if job["source"]:
                exec(job["source"], namespace)
            else:
                namespace = vars(importlib.import_module(job["module"]))
            torch.save(namespace[job["name"]](**job["arguments"]), folder / _RESULT.format(rank))
        except BaseException as error:
            error_file.write(f"{type(error).__name__}: {error}")
            raise
    dist.destroy_process_group()
