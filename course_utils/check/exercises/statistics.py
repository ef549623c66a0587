"""Chapter 04: moving averages, and the moments of two parts merged (Chan, Golub & LeVeque 1979, eq. 2.1)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance, counting, integers
from course_utils.norms.statistics import Moments

__all__ = ["ema", "merge_moments"]


def _ema(average, value, momentum, convention="torch"):
    new = momentum if convention == "torch" else 1 - momentum
    old = 1 - new
    return old * average + new * value


def _step(name: str, stage: str, average: Any, value: Any, momentum: float, **others: Any) -> Probe:
    arguments = {"average": average, "value": value, "momentum": momentum}
    if "convention" in others:
        arguments["convention"] = others.pop("convention")
    letters = "RC"[-average.dim() :] if isinstance(average, Tensor) and average.dim() else ""
    return Probe(name, stage, Call(arguments, {"average": letters, "value": letters} if letters else {}), **others)


_FIVE, _FIVE_NEW = integers(5, seed=90), integers(5, seed=91)
_GRID, _GRID_NEW = integers(2, 3, seed=94), integers(2, 3, seed=95)
_FOUR, _FOUR_NEW = integers(4, seed=92), integers(4, seed=93)
_CLOSE = 1 + integers(6, seed=96) / 4096  # numbers that bfloat16 and float16 cannot tell from 1, or hardly

ema = Check(
    "ema",
    _ema,
    [
        _step("momentum 0.1", "torch's convention", _FIVE, _FIVE_NEW, 0.1),
        _step("momentum 0.5", "torch's convention", _FOUR, _FOUR_NEW, 0.5),
        _step("momentum 0.75, spelled out", "torch's convention", _GRID, _GRID_NEW, 0.75, convention="torch"),
        _step("momentum 0: nothing new", "torch's convention", _FOUR, _FOUR_NEW, 0.0),
        _step("momentum 1: nothing old", "torch's convention", _FOUR, _FOUR_NEW, 1.0),
        _step("a single number", "torch's convention", torch.tensor(2.0), torch.tensor(-6.0), 0.25),
        _step("an average of zeros", "torch's convention", torch.zeros(3), torch.tensor([1.0, -2.0, 4.0]), 0.1),
        _step("momentum 0.9", "keras' convention", _FIVE, _FIVE_NEW, 0.9, convention="keras"),
        _step("momentum 0.25", "keras' convention", _GRID, _GRID_NEW, 0.25, convention="keras"),
        _step("averages near 1", "precision", _CLOSE, _CLOSE.flip(0), 0.25, rough=True),
        _step("thirds in float64", "float64", _FIVE.double() / 3, _FIVE_NEW.double() / 3, 0.1,
               rough=True, tolerance=Tolerance(0.0, 1e-14)),
        _step("plain numbers", "plain numbers", 2.0, -6.0, 0.25),
        _step("0 and then 1", "plain numbers", 0.0, 1.0, 0.1),
        _step("0 and then 1, keras", "plain numbers", 0.0, 1.0, 0.1, convention="keras"),
    ],
    load("ema", _ema),
)  # fmt: skip


def _merge_moments(a, b):
    n = a.count + b.count
    delta = b.mean - a.mean
    mean = a.mean + delta * b.count / n.clamp(min=1)
    between = delta**2 * a.count * b.count / n.clamp(min=1)
    return n, mean, a.m2 + b.m2 + between


def _of_values(merge: Callable[[Moments, Moments], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return ``merge`` as a function of the values of two parts: whatever they are, such a part is possible."""

    def of_values(a, b):
        parts = [Moments.of(values.double(), 0) for values in (a, b)]
        merged = merge(*parts)
        for values, part in zip((a, b), parts, strict=True):
            if any((now != before).any() for now, before in zip(part, Moments.of(values.double(), 0), strict=True)):
                values += 1  # what it does to a part is seen in the part's values
        return tuple(merged) if isinstance(merged, Moments) else merged

    return of_values


def _shown(call: Call) -> list[str]:
    parts = [", ".join(f"{value:.12g}" for value in call.arguments[name].tolist()) for name in "ab"]
    return ["merge_moments(a, b)", *(f"{name} = Moments.of([{part}])" for name, part in zip("ab", parts, strict=True))]


def _parts(name: str, stage: str, a: Any, b: Any, *compares: str, **others: Any) -> Probe:
    arguments = {"a": torch.as_tensor(a, dtype=torch.float64), "b": torch.as_tensor(b, dtype=torch.float64)}
    return Probe(name, stage, Call(arguments, {"a": "A", "b": "B"}), compares=compares or None, **others)


_NEAR, _FAR = 100 + integers(4, seed=104).double() / 7, 1e8 + integers(5, seed=105).double()
# Right forms in float64 are off by up to 1e-13 of the largest; float32 anywhere on the way costs 3e-8.
_DOUBLE = Tolerance(0.0, 1e-10)

merge_moments = Check(
    "merge_moments",
    _merge_moments,
    [
        *(
            probe
            for stage, compares in (("count and mean", ("count", "mean")), ("m2", ("m2",)))
            for probe in (
                _parts("two values and three", stage, [0, 0], [1, 1, 4], *compares),
                _parts("two values and two", stage, [1, 4], [9, 3], *compares),
                _parts("two values and six", stage, integers(2, seed=100), integers(6, seed=101, offset=4), *compares),
                _parts("nine values and three", stage, integers(9, seed=102), integers(3, seed=103), *compares),
                _parts("one value and one", stage, [1], [6], *compares),
            )
        ),
        _parts("nothing, then two values", "empty part", [], [1, 4]),
        _parts("two values, then nothing", "empty part", [1, 4], []),
        _parts("nothing and nothing", "empty part", [], []),
        _parts("means near 100", "precision", _NEAR, _NEAR[:3].flip(0) - 2, tolerance=_DOUBLE, rough=True),
        _parts("means near 100,000,000", "large offset", _FAR, _FAR[:3] + 5, "m2", rough=True),
    ],
    load("merge_moments", _merge_moments),
    returns=("count", "mean", "m2"),
    any_dtype=True,
    flatten=_of_values,
    simplest={"b": lambda shape, dtype: counting(shape, dtype) + 5},
    shown=_shown,
)
