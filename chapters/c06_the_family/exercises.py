"""Chapter 06: group, instance and RMS norm."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import (
    AS_PRINTED,
    RMS,
    Norm,
    channel_call,
    fill_eps,
    has_three_values,
    identity,
    in_stages,
    norm_probes,
    numbers,
    running_call,
    shared_probes,
    trailing_call,
    trailing_probes,
)
from course_utils.check.probes import Call, Probe, read_probes

__all__ = ["group_norm", "instance_norm", "rms_norm"]


def _group_norm_in_steps(x, num_groups, weight=None, bias=None, eps=1e-5):
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    groups = num_groups
    z = z.reshape(x.shape[0], groups, -1)
    dims = 2  # the channels of a group, and all positions
    mean = z.mean(dims, keepdim=True)
    variance = (z - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    y = ((z - mean) / std).reshape(x.shape)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, weight, bias, eps)


def _grouped(x: Tensor, groups: int = 2, **arguments: Any) -> Call:
    return channel_call(x, num_groups=groups, **arguments)


_GROUP = Norm(
    _grouped,
    "groups",
    equal=torch.full((2, 4, 3), 4.0),
    small=(2, 4, 3),
    weighted=(2, 6, 2, 3),
    wide=(2, 6, 2, 2),
    offset=_grouped(numbers(16, 8, 24, seed=20, scale=0.25, offset=1e4), 4),
    pairs=lambda values: _grouped(values.reshape(1, 4, 1)),
)

group_norm = Exercise(
    "group_norm",
    _group_norm,
    in_stages(
        [
            Probe(
                "the worked number, two groups",
                "epsilon",
                _grouped(torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])),
                tolerance=AS_PRINTED,
            ),
            *norm_probes(_GROUP),
            *read_probes(__file__, "group_norm", _grouped),
        ]
    ),
    load("group_norm", _group_norm_in_steps),
    may_shrink_to=lambda call: call.arguments["x"][0].numel() >= 3 * call.arguments["num_groups"],
)


def _instance_norm_in_steps(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    dims = tuple(range(2, x.ndim))  # the positions
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if use_input_stats:
        mean = z.mean(dims, keepdim=True)
        variance = (z - mean).square().mean(dims, keepdim=True)
    else:
        mean, variance = running_mean.reshape(column), running_var.reshape(column)
    if use_input_stats and running_mean is not None:
        values = z.flatten(2)  # (N, C, n)
        batch_mean, batch_var = values.mean(-1).mean(0), values.var(-1).mean(0)
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * batch_mean)
            running_var.copy_((1 - momentum) * running_var + momentum * batch_var)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _instance_norm(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    return F.instance_norm(
        x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _without_buffers(x: Tensor, **arguments: Any) -> Call:
    return (
        running_call(x, running=False, **arguments).without("running_mean").without("running_var")
    )


def _called(x: Tensor, buffers: bool = True, **arguments: Any) -> Call:
    return running_call(x, **arguments) if buffers else _without_buffers(x, **arguments)


# Without a float32 weight, torch's own keeps its statistics in half precision.
_INSTANCE = Norm(
    _without_buffers,
    "instances",
    equal=torch.full((2, 3, 4), 4.0),
    small=(2, 3, 4),
    weighted=(2, 3, 5),
    wide=(2, 3, 2, 3),
    half_call=partial(running_call, **identity(4)),
    offset=_without_buffers(numbers(8, 8, 48, seed=33, scale=0.25, offset=1e4)),
    pairs=lambda values: running_call(values[None], **identity(2)),
)
_POSITIONS = ("images", "signals", "signals as long as channels")

instance_norm = Exercise(
    "instance_norm",
    _instance_norm,
    in_stages(
        [
            *(p for p in shared_probes("channels", running_call) if p.name in _POSITIONS),
            *norm_probes(_INSTANCE),
            *read_probes(__file__, "instance_norm", _called),
        ]
    ),
    load("instance_norm", _instance_norm_in_steps),
    updates=("running_mean", "running_var"),
    may_shrink_to=lambda call: call.arguments["x"][0, 0].numel() >= 3,
)


def _rms_norm_in_steps(x, normalized_shape, weight=None, eps=None):
    dims = tuple(range(-len(normalized_shape), 0))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if eps is None else eps
    variance = z.square().mean(dims, keepdim=True)  # as Llama's code calls the mean square
    std = torch.sqrt(variance + eps)
    y = z / std
    y = y if weight is None else y * weight
    return y.to(x.dtype)


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    return F.rms_norm(x, normalized_shape, weight, eps)


rms_norm = Exercise(
    "rms_norm",
    _rms_norm,
    in_stages(
        [
            *trailing_probes(RMS, torch.tensor([[3.0, 4.0]])),
            *read_probes(__file__, "rms_norm", trailing_call),
        ]
    ),
    load("rms_norm", _rms_norm_in_steps),
    fill_defaults=fill_eps,
    may_shrink_to=has_three_values,
)
