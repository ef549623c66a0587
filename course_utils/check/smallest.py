"""The smallest input that still shows a failure, found by making a failing call smaller step by
step."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import Mistake
from course_utils.check.comparison import Comparison
from course_utils.check.probes import Call, Simplest, counting
from course_utils.check.runner import Caller, Runner

__all__ = ["CLEARLY_WRONG", "Shrink", "smallest_failing"]

CLEARLY_WRONG = 3.0  # times the tolerance: what a smaller input must show to replace a larger one
_SEARCH_CALLS = 400  # of the function; most searches take 30 to 150
_SEARCH_LIMIT_S = 1.0  # for a function so slow that it would not get through these


class Shrink:
    """Makes the call of a failed probe smaller, for as long as the function fails on it in the same
    way; and so does the example of a ``mistake``, so that what is shown is that one of several."""

    def __init__(
        self,
        runner: Runner,
        function: Callable[..., Any],
        caller: Caller,
        failed: Comparison,
        mistake: Mistake | None = None,
    ) -> None:
        self.runner = runner
        self.function = function
        self.caller = caller
        self.failed = failed
        self.best = failed
        self.mistake = mistake

    def smallest(self) -> Comparison:
        """Return what the function shows on the smallest call found.

        An input to be refused stays as it is: a smaller one may have to be refused for another
        reason.
        """
        exercise, probe = self.runner.exercise, self.failed.probe
        if not probe.is_refused:
            kept = (*probe.gradients, *exercise.updates)
            optional = [name for name in exercise.arguments[1] if name not in kept]
            smallest_failing(probe.call, self.fails, optional, exercise.simplest)
        return self.best

    def fails(self, call: Call) -> bool:
        """Return whether the function fails on a smaller call as on the failed probe, and keep what
        it shows."""
        if not self.runner.exercise.may_shrink_to(call):
            return False
        probe = replace(self.failed.probe, call=call)
        try:
            expected = self.runner.expect(probe)
        except ValueError:  # the oracle does not take this call
            return False
        comparison = self.runner.compare(self.function, probe, self.caller, expected)
        if not self._is_like_failed(comparison):
            return False
        if self.mistake and all(
            self.runner.compare(example, probe, expected=expected).passed
            for example in self.mistake.examples
        ):
            return False
        self.best = comparison
        return True

    def _is_like_failed(self, comparison: Comparison) -> bool:
        finding, failed_finding = comparison.observed.finding, self.failed.observed.finding
        if finding or failed_finding:
            return bool(finding and failed_finding and finding.is_like(failed_finding))
        ratio, failed_ratio = (
            comparison.ratios[self.failed.worst],
            self.failed.ratios[self.failed.worst],
        )
        return ratio >= min(CLEARLY_WRONG, failed_ratio) and isfinite(ratio) == isfinite(
            failed_ratio
        )


def smallest_failing(
    call: Call,
    fails: Callable[[Call], bool],
    optional: Sequence[str],
    simplest: Mapping[str, Simplest] | None = None,
) -> Call:
    """Return ``call``, for which ``fails`` is true, so small that no step further down fails in the
    same way.

    ``optional`` names the arguments that may be left out, ``simplest`` for an argument the values
    that are best to read; else these are 1, 2, 3, ...
    """
    deadline = time.monotonic() + _SEARCH_LIMIT_S
    calls, smaller = 0, True
    while smaller:
        smaller = False
        for candidate in _steps_down(call, optional, simplest or {}):
            if calls >= _SEARCH_CALLS or time.monotonic() > deadline:
                return call
            calls += 1
            if fails(candidate):
                call, smaller = candidate, True
                break
    return call


def _steps_down(
    call: Call, optional: Sequence[str], simplest: Mapping[str, Simplest]
) -> Iterator[Call]:
    """Yield simpler calls, the boldest steps first: fewer arguments, fewer entries, simpler numbers
    and layouts."""
    yield from (call.without(name) for name in optional if name in call.arguments)
    for letter, size in call.sizes().items():
        fewer = sorted({1, 2, 3, size // 2, size - 1})
        yield from (call.narrowed(letter, count) for count in fewer if 0 < count < size)
    for name, value in call.arguments.items():
        if isinstance(value, Tensor):
            aim = simplest.get(name, counting)(tuple(value.shape), value.dtype)
            yield from (call.replace(**{name: simpler}) for simpler in _simpler(value, aim))
        elif isinstance(value, dict):
            yield from (
                call.replace(**{name: {k: v for k, v in value.items() if k != key}})
                for key in value
            )
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            yield call.replace(**{name: 1})


def _simpler(values: Tensor, aim: Tensor) -> Iterator[Tensor]:
    if not values.is_floating_point() or not values.numel():
        return
    if not values.is_contiguous():
        yield values.contiguous()
    for wholes in (aim, values.round()):
        if not torch.equal(values, wholes) and _untidiness(wholes, aim) < _untidiness(values, aim):
            yield wholes


def _untidiness(values: Tensor, aim: Tensor) -> float:
    """Order values by how hard they are to take in: first fractions, then how far they are from the
    aim."""
    fractions = ((values != values.round()) & (values != aim)).sum().item()
    return fractions * 1e6 + (values - aim).abs().double().clamp_max(1e4).mean().item()
