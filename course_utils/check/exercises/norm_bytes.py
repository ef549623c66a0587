"""Chapter 09: the fewest bytes that a layer norm has to move, forward and with its backward pass."""

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["norm_bytes"]


def _norm_bytes(rows, features, itemsize=4, backward=False):
    matrix, vector = rows * features, features
    numbers = 2 * matrix + 2 * vector  # x, weight and bias read, y written
    if backward:
        numbers += 3 * matrix + 3 * vector  # dy, x and weight read, dx, dweight and dbias written
    return numbers * itemsize


def _probe(stage: str, rows: int, features: int, **others: int | bool) -> Probe:
    name = f"{rows:,} rows of {features:,}" + "".join(f", {key}={value}" for key, value in others.items())
    call = Call({"rows": rows, "features": features, **others})
    return Probe(name, stage, call, tolerance=Tolerance(0.0, 1e-9))  # of bytes that are counted none may be missing


norm_bytes = Check(
    "norm_bytes",
    _norm_bytes,
    [
        _probe("forward", 3, 5),
        _probe("forward", 1, 8),
        _probe("forward", 7, 1),
        _probe("forward", 4096, 1024),
        _probe("dtype", 3, 5, itemsize=2),
        _probe("dtype", 4096, 1024, itemsize=8),
        _probe("backward", 3, 5, backward=True),
        _probe("backward", 7, 2, backward=True, itemsize=2),
        _probe("backward", 4096, 1024, backward=True, itemsize=2),
    ],
    load("norm_bytes", _norm_bytes),
    is_possible=lambda call: 1 < call.arguments["rows"] != call.arguments["features"] > 1,  # tells matrix from vector
)
