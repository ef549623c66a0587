"""Chapter 09: the fewest bytes and the least time of a norm, and what it keeps for its backward
pass."""

from collections.abc import Callable, Collection

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Tolerance, read_probes

__all__ = ["norm_bytes", "predicted_ms", "to_keep"]


def _norm_bytes(rows, features, itemsize=4, backward=False):
    matrix, vector = rows * features, features
    numbers = 2 * matrix + 2 * vector  # x, weight and bias read, y written
    if backward:
        numbers += 3 * matrix + 3 * vector  # dy, x and weight read, dx, dweight and dbias written
    return numbers * itemsize


norm_bytes = Exercise(
    "norm_bytes",
    _norm_bytes,
    read_probes(__file__, "norm_bytes", tolerance=COUNTED),
    load("norm_bytes", _norm_bytes),
    # tells matrix from vector
    may_shrink_to=lambda call: 1 < call.arguments["rows"] != call.arguments["features"] > 1,
)


def _predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory_ms = bytes_moved / (bandwidth_gbps * 1e6)  # 1 GB/s is a million bytes in a millisecond
    arithmetic_ms = operations / (peak_gflops * 1e6)
    return max(memory_ms, arithmetic_ms)


predicted_ms = Exercise(
    "predicted_ms",
    _predicted_ms,
    # a division or two in float64
    read_probes(__file__, "predicted_ms", tolerance=Tolerance(1e-9, 0.0)),
    load("predicted_ms", _predicted_ms),
)


# of one row of 1,024 float32 numbers
BYTES = {
    "x": 4096,
    "y": 4096,
    "x_hat": 4096,
    "mean": 4,
    "rstd": 4,
}


def _to_keep(x_is_kept, y_is_kept):
    kept = {"x_hat", "rstd"}
    if x_is_kept:
        kept = {"x", "mean", "rstd"}
    if y_is_kept:
        kept = {"y", "rstd"}
    return kept


def _weighed(
    choose: Callable[[bool, bool], Collection[str]],
) -> Callable[[bool, bool], tuple[int, bool, bool]]:
    """Return, in place of the names that ``choose`` returns, what they cost and what can be found
    again from them."""

    def weighed(x_is_kept, y_is_kept):
        chosen = choose(x_is_kept, y_is_kept)
        if isinstance(chosen, str) or not isinstance(chosen, Collection):
            raise TypeError(f"expected a set of names, such as {{'x', 'mean'}}; got {chosen!r}")
        if unknown := [name for name in chosen if name not in BYTES]:
            raise ValueError(f"expected names among {', '.join(BYTES)}; got {unknown[0]!r}")
        chosen, free = (
            set(chosen),
            {name for name, kept in (("x", x_is_kept), ("y", y_is_kept)) if kept},
        )
        has_x_hat = bool(chosen & {"x_hat", "y"}) or chosen >= {"x", "mean", "rstd"}
        return sum(BYTES[name] for name in chosen - free), has_x_hat, "rstd" in chosen

    return weighed


to_keep = Exercise(
    "to_keep",
    _to_keep,
    read_probes(__file__, "to_keep", tolerance=COUNTED),
    load("to_keep", _to_keep),
    returns=(
        "number of bytes for a row",
        "number of ways back to x̂",
        "number of ways back to rstd",
    ),
    adapt=_weighed,
)
