"""The check of the exponential moving average, in both conventions of momentum."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue

__all__ = ["ema"]

EMA = Catalogue()


def _ema(average, value, momentum, convention="torch"):
    old, new = (1 - momentum, momentum) if convention == "torch" else (momentum, 1 - momentum)
    return old * average + new * value


def _with_weights(change: Callable[[float, float], tuple[float, float]]) -> Callable[..., Tensor]:
    """Return a moving average with other weights, made from the right ones of the old average and of the value."""

    def changed(average, value, momentum, convention="torch"):
        old, new = change(*((1 - momentum, momentum) if convention == "torch" else (momentum, 1 - momentum)))
        return old * average + new * value

    return changed


def _with_own_momentum(own: float) -> Callable[..., Tensor]:
    return _with_weights(lambda old, new: (1 - own, own))


EMA.add(
    "momentum_swapped",
    "momentum weighs the old average",
    "With convention=\"torch\" momentum must be the new value's weight; here it is the old average's.",
    "torch's 0.1 is keras' 0.9. With the two mixed up, an average that should remember ten batches remembers one, "
    "and nothing raises an error.",
    "With momentum=0.1 in torch's convention, how much of the old average should be left after one step?",
    _with_weights(lambda old, new: (new, old)),
    lambda average, value, momentum, convention="torch": momentum * average + (1 - momentum) * value,
)
EMA.add(
    "plain_mean",
    "the mean of old and new",
    "It returns the mean of the average and the value, each with half the weight.",
    "That is a moving average with a momentum of one half, whatever was asked for.",
    "For average=0, value=1 and momentum=0.1, what should come out?",
    lambda average, value, momentum, convention="torch": (average + value) / 2,
)
EMA.add(
    "old_not_reduced",
    "the old average keeps its full weight",
    "The new value's share is added, and the old average is not made smaller first.",
    "The two weights must add up to 1. Otherwise the average grows with every step.",
    "If average and value are both 4, what should their moving average be?",
    _with_weights(lambda old, new: (1.0, new)),
)
EMA.add(
    "new_at_full_weight",
    "the new value at full weight",
    "The old average is made smaller, and the new value is then added whole.",
    "The sum then tends to value / momentum: it is a running sum that forgets, not an average.",
    "If average and value are both 4, what should their moving average be?",
    _with_weights(lambda old, new: (old, 1.0)),
)
EMA.add(
    "moves_away",
    "a step away from the value",
    "It moves away from the new value, by the right amount.",
    "In the form with the difference the order decides: it is average − weight·(average − value).",
    "For average=0 and value=1, should the result be above or below 0?",
    _with_weights(lambda old, new: (1 + new, -new)),
)
EMA.add(
    "ignores_momentum",
    "the momentum argument is ignored",
    "Another momentum than the one that is passed in is written into the code.",
    "Momentum decides over how many values is averaged.",
    "Call it with momentum=0.1 and with momentum=0.5. Do the results differ?",
    *map(_with_own_momentum, (0.1, 0.9, 0.01)),
)
EMA.add(
    "ignores_convention",
    "the convention argument is ignored",
    "It takes momentum in torch's convention, whatever convention says.",
    "A value ported from TensorFlow, Keras or JAX, 0.99 say, then keeps one hundredth of the past instead of 99.",
    'With convention="keras" and momentum=0.99, how much of the old average should be left after one step?',
    lambda average, value, momentum, convention="torch": _ema(average, value, momentum),
)


def _in_place(change: Callable[[Tensor, Tensor, float], Any]) -> Callable[..., Any]:
    def changed(average, value, momentum, convention="torch"):
        return change(average, value, momentum if convention == "torch" else 1 - momentum)

    return changed


EMA.add(
    "in_place",
    "the old average is overwritten",
    "It writes the result into the tensor that was passed in.",
    "A layer does that to its own buffer, on purpose. A function that is asked for a value should leave its arguments "
    "alone: here the caller compares the averages before and after.",
    "Which of your operations end in an underscore, or are an assignment such as += ?",
    _in_place(lambda average, value, new: average.mul_(1 - new).add_(new * value)),
)


@EMA.form_of("in_place")
def value_in_place(average, value, momentum, convention="torch"):
    new = momentum if convention == "torch" else 1 - momentum
    return value.mul_(new).add_((1 - new) * average)


def _rounded_through(dtype: torch.dtype, average, value, momentum, convention="torch"):
    return _ema(average.to(dtype), value.to(dtype), momentum, convention).to(average.dtype)


EMA.add(
    "computed_in_half",
    "computed in half precision",
    "It computes in half precision, although it is given more.",
    "Near 1, bfloat16 has no number between 1 and 1.008: an average there stops moving as soon as its steps are "
    "smaller than half of that.",
    "Which dtype do your intermediate results have?",
    *(partial(_rounded_through, dtype) for dtype in (torch.bfloat16, torch.float16)),
)

EMA.add(
    "computed_in_single",
    "computed in float32",
    "It computes in float32, although it is given float64.",
    "An average can be no more exact than what it was computed in: beside a layer in float64 it is right to seven "
    "digits of fifteen.",
    "What does `.float()` make of a float64?",
    lambda average, value, momentum, convention="torch": _ema(average.float(), value.float(), momentum, convention),
    partial(_rounded_through, torch.float32),
)
EMA.add(
    "tensors_only",
    "no plain numbers",
    "It takes tensors, and no plain numbers.",
    "A loss in a log is a number, and is averaged too. torch.lerp and the methods of a tensor know tensors only; "
    "plus, minus and times know both.",
    "Which of your operations does a float not have?",
    lambda average, value, momentum, convention="torch": torch.lerp(
        average, value, momentum if convention == "torch" else 1 - momentum
    ),
    _in_place(lambda average, value, new: average.mul(1 - new).add(value, alpha=new)),
)


def _probe(name: str, stage: str, average: Tensor, value: Tensor, momentum: float, **others: Any) -> Probe:
    letters = "RC"[-average.dim() :] if average.dim() else ""
    rough = stage == "precision"
    call = Call(
        {"average": average, "value": value, "momentum": momentum, **others}, {"average": letters, "value": letters}
    )
    return Probe(name, stage, call, rough=rough)


_THIRDS = {name: integers(5, seed=seed).double() / 3 for name, seed in (("average", 90), ("value", 91))}
_CLOSE = 1 + integers(6, seed=96) / 4096  # numbers that bfloat16 and float16 cannot tell from 1, or hardly

ema = Check(
    "ema",
    _ema,
    [
        _probe("momentum 0.1", "torch's convention", integers(5, seed=90), integers(5, seed=91), 0.1),
        _probe("momentum 0.5", "torch's convention", integers(5, seed=92), integers(5, seed=93), 0.5),
        _probe("momentum 0.75, spelled out", "torch's convention",
               integers(2, 3, seed=94), integers(2, 3, seed=95), 0.75, convention="torch"),
        _probe("momentum 0: nothing new", "torch's convention", integers(4, seed=92), integers(4, seed=93), 0.0),
        _probe("momentum 1: nothing old", "torch's convention", integers(4, seed=92), integers(4, seed=93), 1.0),
        _probe("a single number", "torch's convention", torch.tensor(2.0), torch.tensor(-6.0), 0.25),
        _probe("momentum 0.9", "keras' convention",
               integers(5, seed=90), integers(5, seed=91), 0.9, convention="keras"),
        _probe("momentum 0.25", "keras' convention",
               integers(2, 3, seed=94), integers(2, 3, seed=95), 0.25, convention="keras"),
        _probe("averages near 1", "precision", _CLOSE, _CLOSE.flip(0), 0.25),
        Probe("thirds in float64", "float64", Call({**_THIRDS, "momentum": 0.1}, {"average": "C", "value": "C"}),
              rough=True, tolerance=Tolerance(0.0, 1e-14)),
        Probe("plain numbers", "plain numbers", Call({"average": 2.0, "value": -6.0, "momentum": 0.25})),
    ],
    EMA,
)  # fmt: skip
