"""Chapter 03: batch norm, and the layer that does without the one behind it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import (
    Norm,
    in_stages,
    norm_probes,
    numbers,
    running_call,
    shared_probes,
)
from course_utils.check.probes import Call, read_probes

__all__ = ["batch_norm", "fold"]


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


def _has_three_values(call: Call) -> bool:
    x = call.arguments["x"]
    return x.numel() >= 3 * x.shape[1] or not call.arguments.get("training")


batch_norm = Exercise(
    "batch_norm",
    _batch_norm,
    in_stages(
        [
            *shared_probes("channels", _training),
            *norm_probes(_NORM),
            *read_probes(__file__, "batch_norm", running_call),
        ]
    ),
    load("batch_norm", _batch_norm_in_steps),
    updates=("running_mean", "running_var"),
    may_shrink_to=_has_three_values,
)


def _fold(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    a = gamma / torch.sqrt(variance + eps)
    column = a.reshape(-1, *[1] * (weight.ndim - 1))  # along the outputs
    bias = torch.zeros_like(beta) if bias is None else bias
    return weight * column, a * bias + beta - a * mean


def _layer_and_norm(weight: Tensor, bias: Tensor | None = None, **of_norm: Any) -> Call:
    axes = {"weight": "OIKL"[: weight.dim()], "mean": "O", "variance": "O", "gamma": "O"}
    axes |= {"beta": "O"} if bias is None else {"beta": "O", "bias": "O"}
    return Call({"weight": weight, "bias": bias, **of_norm}, axes)


fold = Exercise(
    "fold",
    _fold,
    read_probes(__file__, "fold", _layer_and_norm),
    load("fold", _fold),
    returns=("new_weight", "new_bias"),
)
