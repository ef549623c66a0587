"""Chapter 10: the rate of a call, the fewest bytes and the least time of a norm, what a call waits
for, what a norm keeps for its backward pass, where in a trace nothing runs, and when a queue of
kernels is done."""

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain, cycle
from typing import Any

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import examine
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, Tolerance, read_probes
from course_utils.check.report import Report
from course_utils.check.sandbox import Sandbox

__all__ = [
    "eager_bytes",
    "longest_gap",
    "norm_bytes",
    "predicted_ms",
    "queue_us",
    "rate_gbps",
    "to_keep",
    "waits_for",
]


def _rate_gbps(call, bytes_moved, clock, runs):
    call()
    times = []
    for _ in range(runs):
        start = clock()
        call()
        times.append(clock() - start)
    seconds = statistics.median(times)
    return bytes_moved / seconds / 1e9


def _scripted(rate: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``rate`` as a function of what the runs of its call take, which a clock says."""

    def scripted(first_ms, runs_ms, bytes_moved):
        takes_ms, now = chain([first_ms], cycle(runs_ms)), 0.0

        def call():
            nonlocal now
            now += next(takes_ms) / 1e3

        return rate(call, bytes_moved, lambda: now, len(runs_ms))

    return scripted


def _format_script(call: Call) -> list[str]:
    first, runs, moved = call.arguments.values()
    return [
        f"rate_gbps(call, {moved:_}, clock, runs={len(runs)})",
        f"call takes {first} ms at first, then {', '.join(map(str, runs))} ms",
    ]


def _script(runs_ms: Sequence[int], **others: int) -> Call:
    first, moved = others["first_ms"], others["bytes_moved"]
    return Call({"first_ms": first, "runs_ms": tuple(runs_ms), "bytes_moved": moved})


rate_gbps = Exercise(
    "rate_gbps",
    _rate_gbps,
    # differences of a clock
    read_probes(__file__, "rate_gbps", _script, Tolerance(1e-9, 0.0), plain=True),
    load("rate_gbps", _rate_gbps),
    adapt=_scripted,
    may_shrink_to=lambda call: False,  # fewer runs have another median
    format_call=_format_script,
)


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


def _eager_bytes(rows, features, itemsize=4):
    matrix, vector = rows * features, features
    # a number a row: written by the mean and the norm, read by the difference and the product,
    # and read and written by the four operators from the norm to rstd
    numbers = 8 * matrix + 12 * rows + 2 * vector
    return numbers * itemsize


eager_bytes = Exercise(
    "eager_bytes",
    _eager_bytes,
    read_probes(__file__, "eager_bytes", tolerance=COUNTED),
    load("eager_bytes", _eager_bytes),
    may_shrink_to=norm_bytes.may_shrink_to,
)


def _predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory_ms = bytes_moved / (bandwidth_gbps * 1e6)  # 1 GB/s is a million bytes in a millisecond
    arithmetic_ms = operations / (peak_gflops * 1e6)
    return max(memory_ms, arithmetic_ms)


def _format_prediction(call: Call) -> list[str]:
    numbers = (f"{n:_}" if isinstance(n, int) else f"{n:g}" for n in call.arguments.values())
    return [f"predicted_ms({', '.join(numbers)})"]


predicted_ms = Exercise(
    "predicted_ms",
    _predicted_ms,
    # a division or two in float64
    read_probes(__file__, "predicted_ms", tolerance=Tolerance(1e-9, 0.0)),
    load("predicted_ms", _predicted_ms),
    may_shrink_to=lambda call: False,  # of one byte the time would be no number to read
    format_call=_format_prediction,
)


CAUSES = ("overhead", "bandwidth", "memory latency", "arithmetic", "instructions")


def _waits_for(share_of_copy, kept, twice, share_of_peak):
    if twice < 1.5:
        return "overhead"
    if kept < 0.75:
        return "bandwidth" if share_of_copy >= 0.5 else "memory latency"
    return "arithmetic" if share_of_peak >= 0.5 else "instructions"


def _by_place(name_of: Callable[..., str]) -> Callable[..., int]:
    """Return, in place of the name that ``name_of`` returns, its place among all."""

    def place(share_of_copy, kept, twice, share_of_peak):
        name = name_of(share_of_copy, kept, twice, share_of_peak)
        if name not in CAUSES:
            raise ValueError(f"expected a name among {', '.join(CAUSES)}; got {name!r}")
        return CAUSES.index(name)

    return place


_PLACED = Exercise(
    "waits_for",
    _waits_for,
    read_probes(__file__, "waits_for", tolerance=COUNTED),
    load("waits_for", _waits_for),
    adapt=_by_place,
    may_shrink_to=lambda call: False,  # another call waits for something else
)


def _by_name(name_of: Callable[..., str], sandbox: Sandbox) -> Report:
    """Return the report on ``name_of`` with names in place of their places."""
    report = examine(_PLACED, name_of, torch.device("cpu"))
    if not report.evidence or report.evidence.quantity != "output":
        return report
    measured = report.evidence.arguments.values()
    got = sandbox.call(lambda: name_of(*measured)).value
    names = {"expected": _waits_for(*measured), "got": str(got)}
    message = "" if report.mistakes else "It returns the wrong name."
    return replace(report, message=message, evidence=replace(report.evidence, **names))


waits_for = replace(_PLACED, judge=_by_name)


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


_COUNTED = Exercise(
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


def _in_words(choose: Callable[[bool, bool], Collection[str]], sandbox: Sandbox) -> Report:
    """Return the report on ``choose`` with what it returns in place of the numbers that it comes
    down to."""
    report = examine(_COUNTED, choose, torch.device("cpu"))
    if not report.evidence or report.evidence.quantity not in _COUNTED.returns:
        return report
    kept = report.evidence.arguments
    chosen = set(sandbox.call(lambda: choose(*kept.values())).value)
    size, has_x_hat, has_rstd = _weighed(lambda *_: chosen)(*kept.values())
    least, *_ = _weighed(_to_keep)(*kept.values())
    verdict = f"{size:,} bytes a row, and {least:,} are enough"
    if not has_x_hat:
        verdict = "no way back to x̂ without a sum over the row"
    if not has_rstd:
        verdict = "rstd is not among them"
    names = ", ".join(repr(name) for name in BYTES if name in chosen)
    call = f"{report.evidence.call} → {{{names}}}: {verdict}"
    return replace(report, evidence=replace(report.evidence, call=call, expected="", got=""))


to_keep = replace(_COUNTED, judge=_in_words)


def _longest_gap(operators, start, end):
    free, longest = start, (start, start)
    for begin, stop in sorted(operators):
        begin = min(max(begin, start), end)
        if begin - free > longest[1] - longest[0]:
            longest = (free, begin)
        free = max(free, min(stop, end))
    if end - free > longest[1] - longest[0]:
        longest = (free, end)
    return longest


def _trace(operators: Sequence[Sequence[int]], **part: int) -> Call:
    return Call({"operators": tuple(map(tuple, operators)), **part})


longest_gap = Exercise(
    "longest_gap",
    _longest_gap,
    read_probes(__file__, "longest_gap", _trace, COUNTED, plain=True),
    load("longest_gap", _longest_gap),
    returns=("begin of the gap", "end of the gap"),
    may_shrink_to=lambda call: False,  # fewer operators have another gap
)


def _queue_us(call_us, kernels_us):
    launched = done = 0
    for kernel_us in kernels_us:
        launched += call_us
        done = max(launched, done) + kernel_us
    return done


queue_us = Exercise(
    "queue_us",
    _queue_us,
    read_probes(__file__, "queue_us", tolerance=COUNTED, plain=True),
    load("queue_us", _queue_us),
    may_shrink_to=lambda call: False,  # fewer kernels may hide the mistake
)
