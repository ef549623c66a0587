"""The smallest input that still shows a failure, found by making a failing call smaller step by step."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from course_utils.check.probes import Call, counting

__all__ = ["smallest_failing"]

_SEARCH_CALLS = 400  # of the function; most searches take 30 to 150
_SEARCH_LIMIT_S = 1.0  # for a function so slow that it would not get through these

Simplest = Callable[[Sequence[int], torch.dtype], Tensor]


def smallest_failing(
    call: Call, fails: Callable[[Call], bool], optional: Sequence[str], simplest: Mapping[str, Simplest] | None = None
) -> Call:
    """Return ``call``, for which ``fails`` is true, so small that no step further down fails in the same way.

    ``optional`` names the arguments that may be left out, ``simplest`` for an argument the values that are best to
    read; else these are 1, 2, 3, ...
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


def _steps_down(call: Call, optional: Sequence[str], simplest: Mapping[str, Simplest]) -> Iterator[Call]:
    """Yield simpler calls, the boldest steps first: fewer arguments, fewer entries, simpler numbers and layouts."""
    yield from (call.without(name) for name in optional if name in call.arguments)
    for letter, size in call.sizes().items():
        fewer = sorted({1, 2, 3, size // 2, size - 1})
        yield from (call.narrowed(letter, left) for left in fewer if 0 < left < size)
    for name, value in call.arguments.items():
        if isinstance(value, Tensor):
            aim = simplest.get(name, counting)(tuple(value.shape), value.dtype)
            yield from (call.replace(**{name: simpler}) for simpler in _simpler(value, aim))
        elif isinstance(value, dict):
            yield from (call.replace(**{name: {k: v for k, v in value.items() if k != key}}) for key in value)
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
    """Order values by how hard they are to take in: first fractions, then how far they are from the aim."""
    fractions = ((values != values.round()) & (values != aim)).sum().item()
    return fractions * 1e6 + (values - aim).abs().double().clamp_max(1e4).mean().item()
