"""Chapter 09: what a layer norm keeps for its backward pass, at the least cost."""

from collections.abc import Callable, Collection

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["to_keep"]

BYTES = {"x": 4096, "y": 4096, "x_hat": 4096, "mean": 4, "rstd": 4}  # of one row of 1,024 float32 numbers


def _to_keep(x_is_kept, y_is_kept):
    kept = {"x_hat", "rstd"}
    if x_is_kept:
        kept = {"x", "mean", "rstd"}
    if y_is_kept:
        kept = {"y", "rstd"}
    return kept


def _weighed(choose: Callable[[bool, bool], Collection[str]]) -> Callable[[bool, bool], tuple[int, bool, bool]]:
    """Return, in place of the names that ``choose`` returns, what they cost and what can be found again from them."""

    def weighed(x_is_kept, y_is_kept):
        chosen = choose(x_is_kept, y_is_kept)
        if isinstance(chosen, str) or not isinstance(chosen, Collection):
            raise TypeError(f"expected a set of names, such as {{'x', 'mean'}}; got {chosen!r}")
        if unknown := [name for name in chosen if name not in BYTES]:
            raise ValueError(f"expected names among {', '.join(BYTES)}; got {unknown[0]!r}")
        chosen, free = set(chosen), {name for name, kept in (("x", x_is_kept), ("y", y_is_kept)) if kept}
        has_x_hat = bool(chosen & {"x_hat", "y"}) or chosen >= {"x", "mean", "rstd"}
        return sum(BYTES[name] for name in chosen - free), has_x_hat, "rstd" in chosen

    return weighed


def _probe(stage: str, x_is_kept: bool, y_is_kept: bool) -> Probe:
    call = Call({"x_is_kept": x_is_kept, "y_is_kept": y_is_kept})
    return Probe(stage, stage, call, tolerance=Tolerance(0.0, 1e-9))  # of bytes that are counted none may be missing


to_keep = Check(
    "to_keep",
    _to_keep,
    [
        _probe("x is kept anyway", True, False),
        _probe("y is kept anyway", False, True),
        _probe("neither is kept", False, False),
        _probe("both are kept", True, True),
    ],
    load("to_keep", _to_keep),
    returns=("number of bytes for a row", "number of ways back to x̂", "number of ways back to rstd"),
    flatten=_weighed,
)
