"""The check of chapter 09's second exercise: the least time of a computation on a machine with two limits."""

from collections.abc import Callable

from course_utils.check.calls import Call, Probe
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.timing.profiling import Roofline

__all__ = ["predicted_ms"]

MISTAKES = Catalogue()
NEARLY_EXACT = Tolerance(1e-9, 0.0)  # a division or two in float64


def _predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    return Roofline(bandwidth_gbps, peak_gflops).predicted_ms(bytes_moved, operations)


def _combined(combine: Callable[[float, float], float], unit: float = 1e3, giga: float = 1e9) -> Callable[..., float]:
    """Return a prediction that combines both times in another way, or counts in other units."""

    def predict(bytes_moved, operations, bandwidth_gbps, peak_gflops):
        return combine(bytes_moved / (bandwidth_gbps * giga), operations / (peak_gflops * 1e9)) * unit

    return predict


MISTAKES.add(
    "adds_both",
    "both times added up",
    "It adds the time of the bytes to the time of the operations.",
    "A processor computes while it waits for memory: the longer of the two hides the shorter. Added up, the prediction "
    "is up to twice too long, and it is no lower bound any more.",
    "What does the machine do while the next row is on its way?",
    _combined(lambda memory, arithmetic: memory + arithmetic),
)
MISTAKES.add(
    "takes_the_shorter",
    "the shorter of the two times",
    "It takes the shorter of the two times.",
    "Both parts have to be done, so the work is over when the slower of them is.",
    "Two people carry a table through a door. Who decides how fast?",
    _combined(min),
)
MISTAKES.add(
    "memory_only",
    "the operations are left out",
    "It predicts from the bytes alone.",
    "That is right for a norm, and three hundred times too short for a product of large matrices.",
    "On which side of the ridge does a matrix product lie?",
    _combined(lambda memory, arithmetic: memory),
)
MISTAKES.add(
    "arithmetic_only",
    "the bytes are left out",
    "It predicts from the operations alone.",
    "A norm has so few operations for each byte that the machine waits for memory nearly all the time.",
    "How long does a sum of two large tensors take, if only additions count?",
    _combined(lambda memory, arithmetic: arithmetic),
)
MISTAKES.add(
    "seconds",
    "seconds, not milliseconds",
    "The result is a thousand times too small: it is in seconds.",
    "Asked for are milliseconds, as the tables of this chapter have them.",
    "How many milliseconds has a second?",
    _combined(max, unit=1.0),
)
MISTAKES.add(
    "microseconds",
    "microseconds, not milliseconds",
    "The result is a thousand times too large: it is in microseconds.",
    "1e9 bytes at 1 GB/s take a second, a thousand milliseconds.",
    "How long do 10 GB take at 10 GB/s?",
    _combined(max, unit=1e6),
)
MISTAKES.add(
    "nanoseconds",
    "the giga is forgotten",
    "Bytes are divided by gigabytes per second as they are: the result is in nanoseconds.",
    "A rate in GB/s is 1e9 bytes a second, and 1e6 bytes a millisecond.",
    "How many bytes does 1 GB/s move in one millisecond?",
    _combined(max, unit=1e9),
)
MISTAKES.add(
    "binary_giga",
    "a gigabyte of 2³⁰ bytes",
    "It takes a gigabyte for 2³⁰ bytes.",
    "Rates of memory and of networks count in powers of ten: 1 GB/s is 10⁹ bytes a second. 2³⁰ bytes are a GiB.",
    "By how much do 10⁹ and 2³⁰ differ?",
    _combined(max, giga=2**30),
)
MISTAKES.add(
    "compares_numbers",
    "bytes compared with operations",
    "It asks whether there are more bytes or more operations, and divides the larger number.",
    "In a second the machine does not do as many of the one as of the other: compare times, or intensity with the "
    "ridge.",
    "At which number of operations per byte do the two limits meet?",
    lambda bytes_moved, operations, bandwidth_gbps, peak_gflops: (
        bytes_moved / bandwidth_gbps / 1e6 if bytes_moved > operations else operations / peak_gflops / 1e6
    ),
)


def _probe(name: str, bytes_moved: int, operations: int, bandwidth_gbps: float, peak_gflops: float) -> Probe:
    arguments = {
        "bytes_moved": bytes_moved,
        "operations": operations,
        "bandwidth_gbps": bandwidth_gbps,
        "peak_gflops": peak_gflops,
    }
    return Probe(name, "both limits", Call(arguments), tolerance=NEARLY_EXACT)


predicted_ms = Check(
    "predicted_ms",
    _predicted_ms,
    [
        _probe("a norm: bytes decide", 40_000_000, 29_000_000, 20.0, 100.0),
        _probe("a product of matrices: operations decide", 12_582_912, 2_147_483_648, 20.0, 100.0),
        _probe("more operations than bytes, and bytes decide", 10_000_000, 30_000_000, 10.0, 60.0),
        _probe("exactly on the ridge", 10_000_000, 50_000_000, 10.0, 50.0),
        _probe("hardly anything to move", 8, 5_000_000, 10.0, 50.0),
    ],
    MISTAKES,
)
