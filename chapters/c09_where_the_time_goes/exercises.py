"""Chapter 09: the fewest bytes and the least time of a norm, and what it keeps for its backward
pass."""

from collections.abc import Callable, Collection

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, Probe, Tolerance

__all__ = ["norm_bytes", "predicted_ms", "to_keep"]


def _norm_bytes(rows, features, itemsize=4, backward=False):
    matrix, vector = rows * features, features
    numbers = 2 * matrix + 2 * vector  # x, weight and bias read, y written
    if backward:
        numbers += 3 * matrix + 3 * vector  # dy, x and weight read, dx, dweight and dbias written
    return numbers * itemsize


def _of_size(stage: str, rows: int, features: int, **others: int | bool) -> Probe:
    name = f"{rows:,} rows of {features:,}" + "".join(
        f", {key}={value}" for key, value in others.items()
    )
    return Probe(
        name, stage, Call({"rows": rows, "features": features, **others}), tolerance=COUNTED
    )


norm_bytes = Exercise(
    "norm_bytes",
    _norm_bytes,
    [
        _of_size("forward", 3, 5),
        _of_size("forward", 1, 8),
        _of_size("forward", 7, 1),
        _of_size("forward", 4096, 1024),
        _of_size("dtype", 3, 5, itemsize=2),
        _of_size("dtype", 4096, 1024, itemsize=8),
        _of_size("backward", 3, 5, backward=True),
        _of_size("backward", 7, 2, backward=True, itemsize=2),
        _of_size("backward", 4096, 1024, backward=True, itemsize=2),
    ],
    load("norm_bytes", _norm_bytes),
    # tells matrix from vector
    may_shrink_to=lambda call: 1 < call.arguments["rows"] != call.arguments["features"] > 1,
)


def _predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory_ms = bytes_moved / (bandwidth_gbps * 1e6)  # 1 GB/s is a million bytes in a millisecond
    arithmetic_ms = operations / (peak_gflops * 1e6)
    return max(memory_ms, arithmetic_ms)


def _limited(name: str, *numbers: float, stage: str = "both limits") -> Probe:
    arguments = dict(
        zip(("bytes_moved", "operations", "bandwidth_gbps", "peak_gflops"), numbers, strict=True)
    )
    # a division or two in float64
    return Probe(name, stage, Call(arguments), tolerance=Tolerance(1e-9, 0.0))


predicted_ms = Exercise(
    "predicted_ms",
    _predicted_ms,
    [
        _limited("a norm: bytes decide", 40_000_000, 29_000_000, 20.0, 100.0),
        _limited(
            "a product of matrices: operations decide", 12_582_912, 2_147_483_648, 20.0, 100.0
        ),
        _limited(
            "more operations than bytes, and bytes decide", 10_000_000, 30_000_000, 10.0, 60.0
        ),
        _limited("exactly on the ridge", 10_000_000, 50_000_000, 10.0, 50.0),
        _limited("hardly anything to move", 8, 5_000_000, 10.0, 50.0),
        _limited("a copy: nothing to compute", 40_000_000, 0, 20.0, 100.0, stage="no operations"),
    ],
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


def _kept(stage: str, x_is_kept: bool, y_is_kept: bool) -> Probe:
    return Probe(
        stage, stage, Call({"x_is_kept": x_is_kept, "y_is_kept": y_is_kept}), tolerance=COUNTED
    )


to_keep = Exercise(
    "to_keep",
    _to_keep,
    [
        _kept("x is kept anyway", True, False),
        _kept("y is kept anyway", False, True),
        _kept("neither is kept", False, False),
        _kept("both are kept", True, True),
    ],
    load("to_keep", _to_keep),
    returns=(
        "number of bytes for a row",
        "number of ways back to x̂",
        "number of ways back to rstd",
    ),
    adapt=_weighed,
)
