"""Run a function on several processes of this machine, and get back what each returned (chapter
09).

Around `torch.distributed`, a notebook and a test need processes that start at once, one thread
each, a limit on the time that each also keeps by itself, and, when one dies, a line for each rank
that failed in place of pages of log.
"""

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import Any

import cloudpickle
import torch

__all__ = ["RanksFailed", "run_job", "run_processes"]

_JOB, _RESULT, _ERROR, _MEETING = "job.pt", "rank{}.pt", "rank{}.error", "meeting"
# beyond the limit, or after another has failed: time for a process to say where it was stuck
_GRACE_S = 3.0


class RanksFailed(RuntimeError):
    """One or more processes did not return; the message has a line for each that failed."""


def run_processes(
    function: Callable[..., Any],
    ranks: int,
    *,
    timeout_s: float = 20.0,
    limit_s: float = 90.0,
    **arguments: Any,
) -> list[Any]:
    """Call ``function(**arguments)`` on ``ranks`` processes that form a process group, and return
    what each returned.

    Args:
        function: of a module, or defined in a notebook; then what it uses of the notebook goes
            with it. Each process calls it once `torch.distributed` is initialised, with gloo, on
            the CPU.
        ranks: how many processes, on this machine.
        timeout_s: how long one rank waits for the others in a collective.
        limit_s: how long it may all take, start-up included.
        arguments: the same for every rank; like what the function returns, of kinds that
            `torch.save` takes.

    Raises:
        RanksFailed: a rank raised, died or did not end within the limit; none is left running.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks must be a whole number of at least 1: got {ranks!r}")
    if not callable(function):
        raise ValueError(f"function must be callable: got {function!r}")
    with tempfile.TemporaryDirectory(prefix="course-ranks-") as folder:
        job = {
            # with what it uses of the notebook, a module that no other process has
            "function": cloudpickle.dumps(function),
            "path": sys.path,
            "timeout_s": timeout_s,
            "deadline": time.time() + limit_s,
            "arguments": arguments,
        }
        torch.save(job, Path(folder, _JOB))
        exit_codes = _run(Path(folder), ranks, limit_s)
        if exit_codes != [0] * ranks:
            raise RanksFailed(_explain(Path(folder), exit_codes, limit_s))
        return [
            torch.load(Path(folder, _RESULT.format(rank)), weights_only=False)
            for rank in range(ranks)
        ]


def _run(folder: Path, ranks: int, limit_s: float) -> list[int | None]:
    """Run the job in ``folder``; return each rank's exit code: None if it did not end, a signal's
    number times -1."""
    context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    # A fork server imports torch once, in seconds, and what DistributedDataParallel asks for when
    # it is first made; each process is then a copy of it, there in milliseconds.
    context.set_forkserver_preload(
        [
            "torch._dynamo",
            "torch.distributed.tensor.parallel",
            "chapters.c09_batch_norm_across_machines.sync_batch_norm",
        ]
    )
    processes = [
        context.Process(target=run_job, args=(folder, rank, ranks), daemon=True)
        for rank in range(ranks)
    ]
    deadline = time.monotonic() + limit_s + _GRACE_S
    try:
        for process in processes:
            process.start()
        while running := [process.sentinel for process in processes if process.exitcode is None]:
            if any(process.exitcode for process in processes):  # the others may still say why
                deadline = min(deadline, time.monotonic() + _GRACE_S)
            if not connection.wait(running, max(deadline - time.monotonic(), 0)):
                break
        return [process.exitcode for process in processes]
    finally:  # the time was up, or the reader has interrupted the cell
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()


def _explain(folder: Path, exit_codes: list[int | None], limit_s: float) -> str:
    """Why the run failed: a line for each rank, those that only lost contact with the others at the
    end."""
    lines = []
    for rank, code in enumerate(exit_codes):
        error = folder / _ERROR.format(rank)
        message = error.read_text(encoding="utf-8") if error.exists() else ""
        if code is None and any(exit_codes):
            message = "ended, since others had failed"
        elif code is None or "Timeout (" in message:
            place = next(
                (line[2:] for line in message.splitlines() if line.startswith("  File")),
                "a place unknown",
            )
            message = f"still running after {limit_s:g} s, in {place}"
        elif not message:
            cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            message = f"died without a word ({cause})"
        if code != 0:
            lines.append(f"rank {rank}: {message}")
    lines.sort(key=lambda line: "LostContact" in line)
    return f"{len(lines)} of {len(exit_codes)} ranks failed\n" + "\n".join(lines)


def run_job(folder: Path, rank: int, ranks: int) -> None:
    """What each of the processes does: join the others, call the function, leave the result or the
    reason why not."""
    import torch.distributed as dist

    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # torch's own warnings would come out in the notebook, in no order
        os.dup2(silence, stream)
    os.environ["TORCH_DIST_INIT_BARRIER"] = (
        "1"  # or a rank that is soon done leaves while another is still joining
    )
    with open(folder / _ERROR.format(rank), "w", encoding="utf-8") as error_file:
        try:
            job = torch.load(folder / _JOB, weights_only=False)
            left_s = max(job["deadline"] - time.time(), 0.1)
            faulthandler.dump_traceback_later(left_s, exit=True, file=error_file)
            sys.path[:] = job["path"]
            torch.set_num_threads(1)
            meeting, timeout = f"file://{folder / _MEETING}", timedelta(seconds=job["timeout_s"])
            dist.init_process_group(
                "gloo", init_method=meeting, rank=rank, world_size=ranks, timeout=timeout
            )
            function = pickle.loads(job["function"])
            torch.save(function(**job["arguments"]), folder / _RESULT.format(rank))
        except BaseException as error:
            error_file.write(f"{type(error).__name__}: {error}")
            raise
    dist.destroy_process_group()
