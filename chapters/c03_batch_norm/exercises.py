"""Chapter 03: batch norm."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import (
    AS_PRINTED,
    CHANNELS,
    FRESH,
    SMALL_VARIANCE,
    Norm,
    identity,
    in_stages,
    norm_probes,
    numbers,
    running_call,
)
from course_utils.check.probes import Call, Probe

__all__ = ["batch_norm"]


def _batch_norm_in_steps(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    dims = (0, *range(2, x.ndim))  # all but the channels
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if training:
        mean = z.mean(dims, keepdim=True)
        variance = (z - mean).square().mean(dims, keepdim=True)
    else:
        mean, variance = running_mean.reshape(column), running_var.reshape(column)
    if training and running_mean is not None:
        values = z.transpose(0, 1).flatten(1)  # (C, n)
        batch_mean, batch_var = values.mean(-1), values.var(-1)
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * batch_mean)
            running_var.copy_((1 - momentum) * running_var + momentum * batch_var)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _batch_norm(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def _training(x: Tensor, **arguments: Any) -> Call:
    return running_call(x, training=True, **arguments)


_NORM = Norm(
    _training,
    "channels",
    equal=torch.full((4, 3), 4.0),
    small=(6, 3),
    weighted=(4, 3, 5),
    wide=(2, 3, 2, 2),
    offset=_training(numbers(48, 64, seed=33, scale=0.25, offset=1e4)),
    pairs=lambda values: _training(values.t().contiguous()),
)
_BOTH = {"weight": True, "bias": True}
_VECTORS = numbers(4, 3, seed=10)

_STATISTICS = {
    **CHANNELS,
    "volumes": numbers(2, 2, 2, 2, 3, seed=6),
    "not contiguous": numbers(2, 3, 4, 3, seed=7).permute(0, 3, 1, 2),
}
_OUTPUTS = [
    *(("statistics", name, _training(x)) for name, x in _STATISTICS.items()),
    (
        "statistics",
        "an affine step that changes nothing",
        _training(numbers(8, 3, seed=8), **identity(3)),
    ),
    ("evaluation", "vectors, evaluation", running_call(_VECTORS)),
    ("evaluation", "one vector, evaluation", running_call(numbers(1, 3, seed=11))),
    ("evaluation", "images, evaluation", running_call(numbers(2, 4, 3, 4, seed=12))),
    (
        "epsilon",
        "small running_var",
        running_call(numbers(4, 3, seed=24, scale=2.0**-10), **SMALL_VARIANCE),
    ),
    ("affine", "as wide as channels", _training(numbers(2, 4, 3, 4, seed=27), **_BOTH)),
    ("affine", "vectors with weights", _training(numbers(6, 3, seed=28), **_BOTH)),
    ("affine", "weights in evaluation", running_call(numbers(2, 3, 4, seed=29), **_BOTH)),
]
_STEPS = {
    "vectors, one step": _training(numbers(4, 3, seed=14)),
    "two vectors, one step": _training(numbers(2, 3, seed=15)),
    "images, one step": _training(numbers(3, 2, 2, 3, seed=16)),
    "momentum=0.5": _training(numbers(4, 3, seed=17), momentum=0.5),
}
_HALF = running_call(numbers(4, 3, seed=13).bfloat16())


def _has_three_values(call: Call) -> bool:
    x = call.arguments["x"]
    return x.numel() >= 3 * x.shape[1] or not call.arguments.get("training")


batch_norm = Exercise(
    "batch_norm",
    _batch_norm,
    in_stages(
        [
            *norm_probes(_NORM),
            *(Probe(name, stage, call, compares=("output",)) for stage, name, call in _OUTPUTS),
            Probe(
                "evaluation, no step", "running statistics in evaluation", running_call(_VECTORS)
            ),
            Probe(
                "the worked number",
                "running statistics",
                _training(torch.tensor([[1.0], [3.0]]), **FRESH),
                tolerance=AS_PRINTED,
            ),
            *(Probe(name, "running statistics", call) for name, call in _STEPS.items()),
            Probe(
                "running_mean=None",
                "no running statistics",
                _training(numbers(4, 3, seed=18), running=False),
            ),
            Probe(
                "gradients in evaluation",
                "gradient",
                running_call(numbers(4, 3, seed=32), **_BOTH),
                ("x", *_BOTH),
            ),
            Probe(
                "bfloat16, evaluation", "half precision", _HALF, compares=("output",), rough=True
            ),
        ]
    ),
    load("batch_norm", _batch_norm_in_steps),
    updates=("running_mean", "running_var"),
    may_shrink_to=_has_three_values,
)
