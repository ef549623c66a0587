"""Chapter 09: the least time of a computation on a machine with two limits, its memory and its arithmetic."""

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["predicted_ms"]


def _predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory_ms = bytes_moved / (bandwidth_gbps * 1e6)  # 1 GB/s is a million bytes in a millisecond
    arithmetic_ms = operations / (peak_gflops * 1e6)
    return max(memory_ms, arithmetic_ms)


def _probe(
    name: str, bytes_moved: int, operations: int, bandwidth_gbps: float, peak_gflops: float, stage: str = "both limits"
) -> Probe:
    arguments = {
        "bytes_moved": bytes_moved,
        "operations": operations,
        "bandwidth_gbps": bandwidth_gbps,
        "peak_gflops": peak_gflops,
    }
    return Probe(name, stage, Call(arguments), tolerance=Tolerance(1e-9, 0.0))  # a division or two in float64


predicted_ms = Check(
    "predicted_ms",
    _predicted_ms,
    [
        _probe("a norm: bytes decide", 40_000_000, 29_000_000, 20.0, 100.0),
        _probe("a product of matrices: operations decide", 12_582_912, 2_147_483_648, 20.0, 100.0),
        _probe("more operations than bytes, and bytes decide", 10_000_000, 30_000_000, 10.0, 60.0),
        _probe("exactly on the ridge", 10_000_000, 50_000_000, 10.0, 50.0),
        _probe("hardly anything to move", 8, 5_000_000, 10.0, 50.0),
        _probe("a copy: nothing to compute", 40_000_000, 0, 20.0, 100.0, "no operations"),
    ],
    load("predicted_ms", _predicted_ms),
)
