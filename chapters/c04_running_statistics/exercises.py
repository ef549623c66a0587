"""Chapter 04: one step of a running average."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, integers

__all__ = ["ema"]


def _ema(average, value, momentum, convention="torch"):
    new = momentum if convention == "torch" else 1 - momentum
    old = 1 - new
    return old * average + new * value


def _step(name: str, stage: str, average: Any, value: Any, momentum: float, **others: Any) -> Probe:
    arguments = {"average": average, "value": value, "momentum": momentum}
    if "convention" in others:
        arguments["convention"] = others.pop("convention")
    letters = "RC"[-average.dim() :] if isinstance(average, Tensor) and average.dim() else ""
    return Probe(
        name,
        stage,
        Call(arguments, {"average": letters, "value": letters} if letters else {}),
        **others,
    )


_FIVE, _FIVE_NEW = integers(5, seed=90), integers(5, seed=91)
_GRID, _GRID_NEW = integers(2, 3, seed=94), integers(2, 3, seed=95)
_FOUR, _FOUR_NEW = integers(4, seed=92), integers(4, seed=93)
# numbers that bfloat16 and float16 cannot tell from 1, or hardly
_CLOSE = 1 + integers(6, seed=96) / 4096

ema = Exercise(
    "ema",
    _ema,
    [
        _step("momentum 0.1", "torch's convention", _FIVE, _FIVE_NEW, 0.1),
        _step("momentum 0.5", "torch's convention", _FOUR, _FOUR_NEW, 0.5),
        _step(
            "momentum 0.75, spelled out",
            "torch's convention",
            _GRID,
            _GRID_NEW,
            0.75,
            convention="torch",
        ),
        _step("momentum 0: nothing new", "torch's convention", _FOUR, _FOUR_NEW, 0.0),
        _step("momentum 1: nothing old", "torch's convention", _FOUR, _FOUR_NEW, 1.0),
        _step("a single number", "torch's convention", torch.tensor(2.0), torch.tensor(-6.0), 0.25),
        _step(
            "an average of zeros",
            "torch's convention",
            torch.zeros(3),
            torch.tensor([1.0, -2.0, 4.0]),
            0.1,
        ),
        _step("momentum 0.9", "keras' convention", _FIVE, _FIVE_NEW, 0.9, convention="keras"),
        _step("momentum 0.25", "keras' convention", _GRID, _GRID_NEW, 0.25, convention="keras"),
        _step("averages near 1", "precision", _CLOSE, _CLOSE.flip(0), 0.25, rough=True),
        _step(
            "thirds in float64",
            "float64",
            _FIVE.double() / 3,
            _FIVE_NEW.double() / 3,
            0.1,
            rough=True,
            tolerance=Tolerance(0.0, 1e-14),
        ),
        _step("plain numbers", "plain numbers", 2.0, -6.0, 0.25),
        _step("0 and then 1", "plain numbers", 0.0, 1.0, 0.1),
        _step("0 and then 1, keras", "plain numbers", 0.0, 1.0, 0.1, convention="keras"),
    ],
    load("ema", _ema),
)
