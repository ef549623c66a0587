"""What synchronised batch norm costs: bytes, messages and time of a step (chapter 09).

A rank sends one message after the other. Each takes the link's latency, and its bytes take their
share of the link's bandwidth (Thakur, Rabenseifner, Gropp 2005, section 3):

    time = messages · latency + bytes / bandwidth

With P ranks, C channels and b bytes a number, one layer's step is

    forward     all_gather of n = 2C + 1 numbers    P − 1 messages       (P − 1)·n·b bytes
    backward    all_reduce of n = 2C numbers        2·(P − 1) messages   2·(P − 1)/P·n·b bytes

around a ring, which is what gloo does. Where every message may go to another rank, ⌈log₂ P⌉ of
growing size do for P − 1 (recursive doubling; halving and doubling, section 4); the bytes stay the
same.
"""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROUTES", "Traffic", "gather", "layer_step", "reduce", "written_bytes"]

ROUTES = {"ring": "around a ring", "doubling": "by doubling"}


@dataclass(frozen=True)
class Traffic:
    """What one rank sends: ``messages``, one after the other, and the ``bytes`` in all of them
    together."""

    messages: int
    bytes: float

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)

    def time_ms(self, latency_us: float, bandwidth_gbps: float) -> float:
        """Return how long it takes on a link with ``latency_us`` a message and ``bandwidth_gbps``
        (10⁹ bytes/s)."""
        if latency_us < 0 or not bandwidth_gbps > 0:
            raise ValueError(
                f"latency_us must be 0 or more, and bandwidth_gbps above 0: got {latency_us!r} and "
                f"{bandwidth_gbps!r}"
            )
        return self.messages * latency_us / 1e3 + self.bytes / bandwidth_gbps / 1e6


def gather(channels: int, ranks: int, itemsize: int = 4, route: str = "ring") -> Traffic:
    """Return the traffic of the forward pass: count, mean and M2 of every rank to every rank.

    ``channels`` is C, ``ranks`` P, ``itemsize`` b, and ``route`` a key of ``ROUTES``.
    """
    return Traffic(_hops(channels, ranks, route), (ranks - 1) * (2 * channels + 1) * itemsize)


def reduce(channels: int, ranks: int, itemsize: int = 4, route: str = "ring") -> Traffic:
    """Return the traffic of the backward pass: two sums a channel, added over all ranks; arguments
    as `gather`'s."""
    return Traffic(
        2 * _hops(channels, ranks, route), 2 * (ranks - 1) / ranks * 2 * channels * itemsize
    )


def layer_step(channels: int, ranks: int, itemsize: int = 4, route: str = "ring") -> Traffic:
    """Return the traffic of one layer in one training step, forward and backward; arguments as
    `gather`'s."""
    return gather(channels, ranks, itemsize, route) + reduce(channels, ranks, itemsize, route)


def written_bytes() -> int:
    """Return how many bytes this process has written so far, to files and sockets; Linux alone
    counts them."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def _hops(channels: int, ranks: int, route: str) -> int:
    """Return how many messages bring something from one rank to all others."""
    if route not in ROUTES:
        raise ValueError(f"route must be one of {', '.join(ROUTES)}: got {route!r}")
    if channels < 1 or ranks < 1:
        raise ValueError(
            f"channels and ranks must be at least 1: got channels={channels}, ranks={ranks}"
        )
    return ranks - 1 if route == "ring" else (ranks - 1).bit_length()
