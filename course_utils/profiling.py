"""How long a call takes on this machine, and the limits that it is held against.

A time alone says little: it is shown beside the bytes that had to move, and those beside what a plain copy moves per
second, measured in the same run. Calls that are compared are timed in turns, so that whatever else the machine does
meets them all.
"""

import ctypes
import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from course_utils.session import generator

__all__ = [
    "Roofline",
    "Timing",
    "copy_bandwidth",
    "forward_and_backward",
    "keep_freed_memory",
    "measure",
    "measure_in_turns",
]

Call = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """What the runs of one call took.

    Args:
        median_ms: median time of a run, in milliseconds; on a GPU of the kernels alone, replayed from a CUDA graph.
        p10_ms: 10th percentile: what the call takes when nothing disturbs it.
        runs: how many runs were timed.
        bytes_moved: bytes that a run had to move, if they were counted.
        launch_ms: on a GPU, the median time in which Python issues one eager call; a call whose kernels are shorter
            is bound by it. None on a CPU.
    """

    median_ms: float
    p10_ms: float
    runs: int
    bytes_moved: int | None = None
    launch_ms: float | None = None

    @property
    def gbps(self) -> float | None:
        """Bytes moved over the median time, in 1e9 bytes per second; None where no bytes were counted."""
        return None if self.bytes_moved is None else self.bytes_moved / self.median_ms / 1e6

    def __str__(self) -> str:
        rate = "" if self.gbps is None else f" · {self.gbps:,.3g} GB/s"
        launch = "" if self.launch_ms is None else f" · launched in {self.launch_ms:.3g} ms"
        return f"{self.median_ms:.3g} ms (10th percentile {self.p10_ms:.3g}, {self.runs} runs){rate}{launch}"


def measure(fn: Callable[..., Any], *args: Any, backward: bool = False, bytes_moved: int | None = None) -> Timing:
    """Time ``fn(*args)``, or the call and the gradients of its arguments.

    The device is that of the first tensor in ``args``. On a CPU ``torch.utils.benchmark`` times the call with the
    threads PyTorch has now; on a GPU CUDA events time the replay of a CUDA graph, each with nothing of the data in L2.

    Args:
        fn: the function; on a GPU one that does not synchronise with the host.
        args: its arguments.
        backward: time forward and backward together, as ``forward_and_backward`` does.
        bytes_moved: bytes that a run has to move, to have ``Timing.gbps``.

    Returns:
        The ``Timing``.

    Raises:
        ValueError: tensors on a device that is neither a CPU nor a CUDA one.
    """
    device = next((arg.device for arg in args if isinstance(arg, Tensor)), torch.device("cpu"))
    call = forward_and_backward(fn, *args) if backward else _without_gradients(fn, *args)
    return measure_in_turns({"it": call}, device, bytes_moved=bytes_moved)["it"]


def measure_in_turns(
    calls: Mapping[str, Call],
    device: str | torch.device = "cpu",
    *,
    rounds: int = 30,
    seconds: float = 2.0,
    bytes_moved: int | None = None,
) -> dict[str, Timing]:
    """Time several calls that do the same work, one run of each in every round.

    Args:
        calls: a name for each call; a call takes no arguments.
        device: where they run.
        rounds: how many rounds at most.
        seconds: stop before ``rounds`` when a call's share of the time is used up, but not before 5 rounds.
        bytes_moved: bytes that each of them has to move.

    Returns:
        A ``Timing`` for each name.

    Raises:
        ValueError: ``device`` is neither a CPU nor a CUDA one, or no round is asked for.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1: got {rounds!r}")
    if _device_type(device) == "cpu":
        times, launches = _time_on_cpu(calls, rounds, seconds), dict.fromkeys(calls)
    else:
        times, launches = _time_on_cuda(calls, rounds)
    return {
        name: Timing(statistics.median(runs), _tenth_percentile(runs), len(runs), bytes_moved, launches[name])
        for name, runs in times.items()
    }


def copy_bandwidth(device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> float:
    """Measure what a large copy moves on ``device``, reads and writes both counted, in 1e9 bytes per second.

    Args:
        device: cpu or cuda.
        dtype: of the elements copied.

    Returns:
        Bytes read plus bytes written over the median time.

    Raises:
        ValueError: ``device`` is neither a CPU nor a CUDA one.
    """
    megabytes = 1024 if _device_type(device) == "cuda" else 128  # each way; several times any cache
    source = torch.ones(megabytes * 2**20 // dtype.itemsize, dtype=dtype, device=device)
    destination = torch.zeros_like(source)
    moved = 2 * source.numel() * dtype.itemsize
    timing = measure_in_turns({"copy": lambda: destination.copy_(source)}, device, rounds=20, bytes_moved=moved)["copy"]
    assert timing.gbps is not None
    return timing.gbps


def keep_freed_memory(keep: bool = True) -> bool:
    """Have this process keep the memory of freed tensors, as a GPU's allocator does, where the C library is glibc.

    Otherwise glibc hands large blocks back to the system, depending on what was freed before, and the next call pays
    for getting them again, page by page. An eager norm of 16 MB then takes from one to five times its own time.

    Args:
        keep: whether to keep it; false goes back to what the C library does at first, though a block that lies below
            others in use may stay until those are freed.

    Returns:
        Whether it took effect; it lasts as long as the process.
    """
    m_trim_threshold, m_mmap_max = -1, -4  # of <malloc.h>
    blocks_apart, trimmed_at = (0, -1) if keep else (65_536, 128 * 1024)  # the defaults of mallopt(3)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and bool(mallopt(m_mmap_max, blocks_apart) and mallopt(m_trim_threshold, trimmed_at))


def forward_and_backward(fn: Callable[..., Any], *args: Any, upstream: Sequence[Tensor] = ()) -> Call:
    """Return a call without arguments that runs ``fn(*args)`` and its backward pass, and returns the gradients.

    Args:
        fn: a function that returns a tensor or a tuple of tensors.
        args: its arguments. Gradients are taken of the tensors that require one; where none does, of every tensor of a
            floating type, on detached copies that share its memory.
        upstream: the gradients of the outputs; drawn once, at random, where none are given.

    Returns:
        The call.
    """
    if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
        args = tuple(
            arg.detach().requires_grad_() if isinstance(arg, Tensor) and arg.is_floating_point() else arg
            for arg in args
        )
    inputs = [arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad]

    def outputs() -> tuple[Tensor, ...]:
        result = fn(*args)
        return result if isinstance(result, tuple) else (result,)

    if not upstream:
        upstream = [
            torch.randn(y.shape, generator=generator(1, y.device), device=y.device).to(y.dtype) for y in outputs()
        ]
    return lambda: torch.autograd.grad(outputs(), inputs, upstream)


@dataclass(frozen=True)
class Roofline:
    """What a machine can do at most: a bandwidth and an arithmetic rate, and the time that they allow.

    Raises:
        ValueError: one of the two is not positive and finite.

    >>> machine = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
    >>> machine.ridge, machine.attainable_gflops(1.0), machine.attainable_gflops(50.0)
    (5.0, 20.0, 100.0)
    >>> machine.predicted_ms(bytes_moved=40_000_000)
    2.0
    """

    bandwidth_gbps: float
    peak_gflops: float

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            if not isinstance(rate, (int, float)) or not 0 < rate < math.inf:
                raise ValueError(f"{name} must be a positive number: got {rate!r}")

    @classmethod
    def of(cls, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> "Roofline":
        """Measure both on ``device``: the bandwidth by a large copy, the rate by a large matrix product.

        Raises:
            ValueError: ``device`` is neither a CPU nor a CUDA one.
        """
        size = 8192 if _device_type(device) == "cuda" else 1024
        a, b = (torch.randn(size, size, generator=generator(s), dtype=torch.float32).to(device, dtype) for s in (0, 1))
        product = measure_in_turns({"product": lambda: a @ b}, device, rounds=20)["product"]
        return cls(copy_bandwidth(device, dtype), 2 * size**3 / product.median_ms / 1e6)

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic is the limit, below which memory is."""
        return self.peak_gflops / self.bandwidth_gbps

    def attainable_gflops(self, intensity: float) -> float:
        """Return the highest rate for code that does ``intensity`` operations per byte."""
        return min(self.peak_gflops, intensity * self.bandwidth_gbps)

    def predicted_ms(self, bytes_moved: float, operations: float = 0.0) -> float:
        """Return the least time, in milliseconds, for ``bytes_moved`` bytes and ``operations`` operations."""
        return max(bytes_moved / self.bandwidth_gbps, operations / self.peak_gflops) / 1e6


def _device_type(device: str | torch.device) -> str:
    """Return "cpu" or "cuda"; ``torch.device`` would answer a wrong name with twenty others that cannot be timed."""
    kind = str(device).partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda: got {str(device)!r}")
    return kind


def _without_gradients(fn: Callable[..., Any], *args: Any) -> Call:
    def call() -> Any:
        with torch.no_grad():
            return fn(*args)

    return call


def _tenth_percentile(runs: list[float]) -> float:
    """Return the value that a tenth of ``runs`` do not exceed: the smallest where there are ten or fewer."""
    return sorted(runs)[max(0, math.ceil(len(runs) / 10) - 1)]


def _time_on_cpu(calls: Mapping[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return milliseconds of each call in each round; ``Timer`` warms it up again before each.

    Every round has an order of its own: what ran before a call leaves the caches and the heap as it likes them.
    """
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


def _repeats(timer: Timer) -> int:
    """Return how many runs last 2 ms, so that the clock's grain does not show; among a few, the first may be slow."""
    fastest = min(timer.timeit(1).mean for _ in range(5))
    return max(1, math.ceil(2e-3 / fastest))


def _time_on_cuda(calls: Mapping[str, Call], rounds: int) -> tuple[dict[str, list[float]], dict[str, float | None]]:
    """Return milliseconds of each call's kernels in each round, and of Python's issuing it."""
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
