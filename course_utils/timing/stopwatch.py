"""The times of single runs, each call in turn: PyTorch's ``Timer`` on a CPU, events around CUDA graphs on a GPU."""

import math
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["Call", "on_cpu", "on_cuda"]

Call = Callable[[], Any]


def on_cpu(calls: Mapping[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return milliseconds of each call in each round; ``Timer`` warms it up again before each.

    Every round has an order of its own: what ran before a call leaves the caches and the heap as it likes them.

    Args:
        calls: by name; run on the threads that PyTorch has now.
        rounds: how many rounds at most.
        seconds: for each call; once they are used up, no round is begun after the fifth.
    """
    # Only here: where there is a CUDA toolkit and no GPU, the import writes to stderr, which no first cell should.
    from torch.utils.benchmark import Timer

    shuffled = random.Random(0)  # the same orders in every run
    timers = {
        name: Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
        for name, call in calls.items()
    }
    repeats = {name: _repeats(timer) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds * len(calls)
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > deadline:
            break
        for name in shuffled.sample(list(timers), len(timers)):
            times[name].append(timers[name].timeit(repeats[name]).mean * 1e3)
    return times


def _repeats(timer: Any) -> int:
    """Return how many runs last 2 ms, so that the clock's grain does not show; among a few, the first may be slow."""
    fastest = min(timer.timeit(1).mean for _ in range(5))
    return max(1, math.ceil(2e-3 / fastest))


def on_cuda(calls: Mapping[str, Call], rounds: int) -> tuple[dict[str, list[float]], dict[str, float | None]]:
    """Return milliseconds of each call's kernels in each round, and of Python's issuing it.

    Args:
        calls: by name; on the current device, and none that waits for it.
        rounds: how many rounds.

    Raises:
        RuntimeError: a call waits for the GPU, so that no graph can hold it.
    """
    launches: dict[str, float | None] = {name: _launch_ms(call) for name, call in calls.items()}  # warms up, too
    pool = torch.cuda.graph_pool_handle()  # the replays never overlap and nobody reads their results
    graphs = {name: _capture(call, pool) for name, call in calls.items()}
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    # Twice L2 would empty it; four times that keeps the GPU busy until Python has issued the replay, which then waits
    # for nothing: the events would time the waiting.
    eviction = torch.ones(8 * l2_bytes // 4, device="cuda")

    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            eviction.sum()  # reads: a write would leave lines in L2 whose way back to memory the call would pay for
            start.record()
            graph.replay()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}, launches


def _capture(call: Call, pool: Any) -> torch.cuda.CUDAGraph:
    """Record a warm call's kernels, so that replaying them leaves Python and the dispatcher out."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), _waits_refused():
        call()  # once on a side stream, as PyTorch's notes on CUDA graphs ask
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        call()
    return graph


@contextmanager
def _waits_refused() -> Iterator[None]:
    """Raise at an operation that waits for the GPU: raised within a capture, it would break every later one, too."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode does not see every such operation
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _launch_ms(call: Call, runs: int = 20) -> float:
    """Return the median time until ``call`` has returned to Python, its kernels issued and not yet awaited."""
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    torch.cuda.synchronize()
    return statistics.median(times)
