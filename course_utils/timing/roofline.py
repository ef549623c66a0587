"""The roofline of chapter 10: a bandwidth, an arithmetic rate, and the time that they allow."""

import math
from dataclasses import dataclass

import torch

from course_utils.session import generator
from course_utils.timing.timers import device_type, large_copy, measure_in_turns


@dataclass(frozen=True)
class Roofline:
    """What a machine can do at most, in 1e9 bytes and in 1e9 operations per second. Chapter 10.

    Source: Williams, Waterman and Patterson 2009, Roofline.

    >>> machine = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
    >>> machine.ridge
    5.0
    >>> machine.predicted_ms(bytes_moved=40_000_000)
    2.0
    """

    bandwidth_gbps: float
    peak_gflops: float

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            if not 0 < rate < math.inf:
                raise ValueError(f"{name} must be a positive number: got {rate!r}")

    @classmethod
    def of(
        cls, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Roofline":
        """Measure both on ``device``: the bandwidth by a large copy, the rate by a matrix product,
        in turns.

        Both at the 10th percentile: what else the machine does can only make a limit look lower
        than it is.
        """
        size = 8192 if device_type(device) == "cuda" else 1024
        a, b = (
            torch.randn(size, size, generator=generator(s), dtype=torch.float32).to(device, dtype)
            for s in (0, 1)
        )
        copy, moved = large_copy(device, dtype)
        product = torch.empty_like(a)
        timings = measure_in_turns(
            {"copy": copy, "product": lambda: torch.mm(a, b, out=product)}, device, rounds=10
        )
        return cls(
            moved / timings["copy"].p10_ms / 1e6, 2 * size**3 / timings["product"].p10_ms / 1e6
        )

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic is the limit, below which memory is."""
        return self.peak_gflops / self.bandwidth_gbps

    def predicted_ms(self, bytes_moved: float, operations: float = 0.0) -> float:
        """Return the least time, in milliseconds, for ``bytes_moved`` bytes and ``operations``
        operations."""
        return max(bytes_moved / self.bandwidth_gbps, operations / self.peak_gflops) / 1e6
