"""How long a call takes on this machine, and the limits that it is held against.

A time alone says little: it is shown beside the bytes that had to move, and those beside what a plain copy moves per
second, measured in the same run. Calls that are compared are timed in turns, so that whatever else the machine does
meets them all.
"""

import ctypes
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils.session import generator
from course_utils.timing import stopwatch
from course_utils.timing.stopwatch import Call

__all__ = [
    "Roofline",
    "Timing",
    "copy_bandwidth",
    "forward_and_backward",
    "keep_freed_memory",
    "measure",
    "measure_in_turns",
]


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
        times, launches = stopwatch.on_cpu(calls, rounds, seconds), dict.fromkeys(calls)
    else:
        times, launches = stopwatch.on_cuda(calls, rounds)
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
    copy, moved = _large_copy(device, dtype)
    timing = measure_in_turns({"copy": copy}, device, rounds=20, bytes_moved=moved)["copy"]
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
        """Measure both on ``device``: the bandwidth by a large copy, the rate by a matrix product, in turns.

        Both at the 10th percentile: what else the machine does can only make a limit look lower than it is.

        Raises:
            ValueError: ``device`` is neither a CPU nor a CUDA one.
        """
        size = 8192 if _device_type(device) == "cuda" else 1024
        a, b = (torch.randn(size, size, generator=generator(s), dtype=torch.float32).to(device, dtype) for s in (0, 1))
        copy, moved = _large_copy(device, dtype)
        product = torch.empty_like(a)
        timings = measure_in_turns({"copy": copy, "product": lambda: torch.mm(a, b, out=product)}, device, rounds=20)
        return cls(moved / timings["copy"].p10_ms / 1e6, 2 * size**3 / timings["product"].p10_ms / 1e6)

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


def _large_copy(device: str | torch.device, dtype: torch.dtype) -> tuple[Call, int]:
    """Return a copy from tensor to tensor, several times larger than any cache, and the bytes that it moves."""
    megabytes = 1024 if _device_type(device) == "cuda" else 128  # each way
    source = torch.ones(megabytes * 2**20 // dtype.itemsize, dtype=dtype, device=device)
    destination = torch.zeros_like(source)
    return lambda: destination.copy_(source), 2 * source.numel() * dtype.itemsize


def _without_gradients(fn: Callable[..., Any], *args: Any) -> Call:
    def call() -> Any:
        with torch.no_grad():
            return fn(*args)

    return call


def _tenth_percentile(runs: list[float]) -> float:
    """Return the value that a tenth of ``runs`` do not exceed: the smallest where there are ten or fewer."""
    return sorted(runs)[math.ceil(len(runs) / 10) - 1]
