"""How long a call takes on this machine (chapter 10, used in all).

A time alone says little: it is shown beside the bytes that had to move, and those beside what a
plain copy moves per second, measured in the same run. Calls that are compared are timed in turns,
so that whatever else the machine does meets them all.
"""

import ctypes
import logging
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

from course_utils.session import generator

Call = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """What the runs of one call took. On a GPU that is its kernels and the launch of the graph that
    replays them; what they wrote and the L2 cache still holds goes to memory later, uncounted."""

    median_ms: float
    p10_ms: float  # 10th percentile: what the call takes when nothing disturbs it
    runs: int
    bytes_moved: int | None = None  # what a run had to move, if it was counted

    @property
    def gbps(self) -> float | None:
        """Bytes moved over the median time, in 1e9 bytes per second; None where no bytes were
        counted."""
        return None if self.bytes_moved is None else self.bytes_moved / self.median_ms / 1e6

    def __str__(self) -> str:
        rate = "" if self.gbps is None else f" · {self.gbps:,.3g} GB/s"
        return (
            f"{self.median_ms:.3g} ms (10th percentile {self.p10_ms:.3g}, {self.runs} runs){rate}"
        )


def measure(
    fn: Callable[..., Any],
    *args: Any,
    backward: bool = False,
    bytes_moved: int | None = None,
    **keywords: Any,
) -> Timing:
    """Time a call of ``fn`` without gradients, or with ``backward`` the call and the gradients of
    its arguments.

    The device is that of the first tensor among the arguments. On a CPU ``torch.utils.benchmark``
    times the call with the threads PyTorch has now; on a GPU CUDA events time the replay of a CUDA
    graph, each with nothing of the data in L2, so ``fn`` must not synchronise with the host.
    ``bytes_moved``, what a run has to move, gives ``Timing.gbps``. An argument of ``fn`` that is
    called ``backward`` or ``bytes_moved`` goes in with `functools.partial`.
    """
    tensors = [value for value in (*args, *keywords.values()) if isinstance(value, Tensor)]
    device = tensors[0].device if tensors else torch.device("cpu")

    def without_gradients() -> Any:
        with torch.no_grad():
            return fn(*args, **keywords)

    call = forward_and_backward(fn, *args, **keywords) if backward else without_gradients
    return measure_in_turns({"it": call}, device, bytes_moved=bytes_moved)["it"]


def measure_in_turns(
    calls: Mapping[str, Call],
    device: str | torch.device = "cpu",
    *,
    rounds: int = 30,
    seconds: float = 2.0,
    bytes_moved: int | None = None,
) -> dict[str, Timing]:
    """Time several calls that do the same work, each without arguments, one run of each in every
    round.

    On a CPU it stops before ``rounds`` when ``seconds`` a call are used up, but not before 5
    rounds. ``bytes_moved`` are what each of them has to move.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1: got {rounds!r}")
    times = (
        _on_cpu(calls, rounds, seconds) if device_type(device) == "cpu" else _on_cuda(calls, rounds)
    )
    timings = {}
    for name, runs in times.items():
        # the smallest where there are ten or fewer
        p10_ms = sorted(runs)[math.ceil(len(runs) / 10) - 1]
        timings[name] = Timing(statistics.median(runs), p10_ms, len(runs), bytes_moved)
    return timings


def copy_bandwidth(device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> float:
    """Return what a large copy moves on ``device``, reads and writes both counted, in 1e9 bytes per
    second."""
    copy, moved = large_copy(device, dtype)
    return moved / measure_in_turns({"copy": copy}, device, rounds=20)["copy"].median_ms / 1e6


def keep_freed_memory(keep: bool = True) -> bool:
    """Have this process keep the memory of freed tensors, as a GPU's allocator does; return whether
    glibc obeys.

    Otherwise glibc hands large blocks back to the system, depending on what was freed before, and
    the next call pays for getting them again, page by page. An eager norm of 16 MB then takes from
    one to five times its own time. With ``keep=False`` it does again what it does at first, though
    a block that lies below others in use may stay.
    """
    m_trim_threshold, m_mmap_max = -1, -4  # of <malloc.h>
    # the defaults of mallopt(3)
    blocks_apart, trimmed_at = (0, -1) if keep else (65_536, 128 * 1024)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and bool(
        mallopt(m_mmap_max, blocks_apart) and mallopt(m_trim_threshold, trimmed_at)
    )


def forward_and_backward(
    fn: Callable[..., Any], *args: Any, upstream: Sequence[Tensor] = (), **keywords: Any
) -> Call:
    """Return a call without arguments that runs ``fn`` and its backward pass, and returns the
    gradients.

    Gradients are taken of the arguments that require one; where none does, of every tensor of a
    floating type, on detached copies that share its memory. ``upstream`` are the gradients of the
    outputs; where none are given they are drawn once, at random.
    """
    arguments: dict[Any, Any] = {**dict(enumerate(args)), **keywords}
    tensors = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
    leaves = {key: tensor for key, tensor in tensors.items() if tensor.requires_grad}
    if not leaves:
        leaves = {
            key: t.detach().requires_grad_() for key, t in tensors.items() if t.is_floating_point()
        }
    arguments |= leaves
    positional = [arguments.pop(position) for position in range(len(args))]

    def outputs() -> tuple[Tensor, ...]:
        result = fn(*positional, **arguments)
        return result if isinstance(result, tuple) else (result,)

    if not upstream:
        upstream = [
            torch.randn(y.shape, generator=generator(1, y.device), device=y.device).to(y.dtype)
            for y in outputs()
        ]
    inputs = list(leaves.values())
    return lambda: torch.autograd.grad(outputs(), inputs, upstream)


def device_type(device: str | torch.device) -> str:
    """Return "cpu" or "cuda"; ``torch.device`` would answer a wrong name with twenty others that
    cannot be timed."""
    kind = str(device).partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda: got {str(device)!r}")
    return kind


def large_copy(device: str | torch.device, dtype: torch.dtype) -> tuple[Call, int]:
    """Return a copy from tensor to tensor, several times larger than any cache, and the bytes that
    it moves."""
    megabytes = 1024 if device_type(device) == "cuda" else 128  # each way
    source = torch.ones(megabytes * 2**20 // dtype.itemsize, dtype=dtype, device=device)
    return copy_of(source), 2 * source.numel() * dtype.itemsize


def copy_of(source: Tensor) -> Call:
    """Return a call that reads ``source`` and writes as much.

    On a GPU that is a kernel with another sign: a plain copy of 512 MB within a CUDA graph may go
    to a copy engine, which moves a fifth less a second on an H100.
    """
    destination = torch.zeros_like(source)
    if source.is_cuda:
        return lambda: torch.neg(source, out=destination)
    return lambda: destination.copy_(source)


def _timer() -> Any:
    """Return PyTorch's ``Timer``, without the warning of its import where there is a CUDA toolkit
    and no GPU: what builds extensions is imported with it, and not used."""
    logger = logging.getLogger("torch.utils.cpp_extension")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        from torch.utils.benchmark import Timer
    finally:
        logger.setLevel(before)
    return Timer


def _on_cpu(calls: Mapping[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return milliseconds of each call in each round; ``Timer`` warms it up again before each.

    Every round has an order of its own: what ran before a call leaves the caches and the heap as it
    likes them.
    """
    Timer = _timer()
    shuffled = random.Random(0)  # the same orders in every run
    threads = torch.get_num_threads()
    timers = {
        name: Timer("call()", globals={"call": call}, num_threads=threads)
        for name, call in calls.items()
    }
    # So many runs last 2 ms, so that the clock's grain does not show; among a few, the first may be
    # slow.
    fastest = {name: min(timer.timeit(1).mean for _ in range(5)) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds * len(calls)
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > deadline:
            break
        for name in shuffled.sample(list(timers), len(timers)):
            times[name].append(
                timers[name].timeit(max(1, math.ceil(2e-3 / fastest[name]))).mean * 1e3
            )
    return times


def _on_cuda(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of each call's kernels in each round."""
    # the replays never overlap and nobody reads their results
    pool = torch.cuda.graph_pool_handle()
    graphs = {name: _capture(call, pool) for name, call in calls.items()}
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    # Twice L2 would empty it; four times that keeps the GPU busy until Python has issued the
    # replay, which then waits for nothing: the events would time the waiting.
    eviction = torch.ones(8 * l2_bytes // 4, device="cuda")

    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {
        name: [] for name in calls
    }
    shuffled = random.Random(0)
    for _ in range(rounds):
        for name in shuffled.sample(list(graphs), len(graphs)):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            # reads: a write would leave lines in L2 whose way back to memory the call would pay for
            eviction.sum()
            start.record()
            graphs[name].replay()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()
    }


def _capture(call: Call, pool: Any) -> torch.cuda.CUDAGraph:
    """Record a warm call's kernels, so that replaying them leaves Python and the dispatcher out."""
    torch.cuda.empty_cache()  # which a capture cannot do
    for _ in range(3):
        call()  # what is compiled may wait for the GPU
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
    """Raise at an operation that waits for the GPU: raised within a capture, it would break every
    later one, too."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode does not see every such operation
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
