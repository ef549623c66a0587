"""A case timed in several processes, one after the other.

Where the memory of a call lies is drawn anew in every process, and what else the machine does changes from one to the
next: a process that repeats a call, however often, meets one case of each. Repetition is most needed where most
uncertainty arises (Kalibera and Jones 2013, Rigorous Benchmarking in Reasonable Time, abstract).
"""

import multiprocessing
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

import torch

from course_utils.timing.bench.sweep import Case
from course_utils.timing.bench.trial import Outcome, attempt
from course_utils.timing.profiling import keep_freed_memory

__all__ = ["Attempt", "merged", "started"]

Attempt = Callable[[Case], Outcome]


@contextmanager
def started(count: int, device: str, seed: int, rounds: int, seconds: float) -> Iterator[Attempt]:
    """Start ``count`` processes and give a function that has each of them in turn attempt a case.

    They live through the whole run, so that each starts once. Only one works at a time.

    Args:
        count: how many processes; with 1 the caller's own does it.
        device, seed, rounds, seconds: as ``trial.attempt`` takes them, for each process.
    """
    if count == 1:
        yield lambda case: merged([attempt(case, device, seed, rounds, seconds)])
        return
    fresh = multiprocessing.get_context("spawn")  # a forked one would have its memory where the caller has it
    with ExitStack() as stack, _ended_by_an_exception():
        workers = [
            stack.enter_context(ProcessPoolExecutor(1, fresh, _begin, (torch.get_num_threads(),))) for _ in range(count)
        ]
        yield lambda case: merged(
            [worker.submit(attempt, case, device, seed, rounds, seconds).result() for worker in workers]
        )


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome for those of several processes: medians of their times, and the range of their median times.

    An implementation that any of them left out is left out.
    """
    left_out = {item["implementation"]: item for _, items in outcomes for item in items}
    by_name = [{result["implementation"]: result for result in results} for results, _ in outcomes]
    names = [name for name in by_name[0] if name not in left_out]
    return [_median([results[name] for results in by_name]) for name in names], list(left_out.values())


def _median(results: Sequence[dict]) -> dict:
    """Return the results of one implementation as one."""
    medians = [result["median_ms"] for result in results]
    launches = [result["launch_ms"] for result in results if result["launch_ms"] is not None]
    return {
        **results[0],
        "errors": {name: max(result["errors"][name] for result in results) for name in results[0]["errors"]},
        **{key: statistics.median(result[key] for result in results) for key in ("median_ms", "p10_ms", "copy_gbps")},
        "range_ms": [min(medians), max(medians)],
        "runs": sum(result["runs"] for result in results),
        "launch_ms": statistics.median(launches) if launches else None,
    }


@contextmanager
def _ended_by_an_exception() -> Iterator[None]:
    """End the processes started within at once: an executor that is left waits for what it has begun."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise


def _begin(threads: int) -> None:
    """Prepare a process as the command line prepares its own; an interruption is for that one to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    keep_freed_memory()
