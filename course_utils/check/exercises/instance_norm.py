"""Chapter 06: instance norm: every sample and channel on its own, with running statistics where they are wanted."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import in_stages, numbers, precision_probes, running_call, worked_number
from course_utils.check.probes import Call, Probe

__all__ = ["instance_norm"]


def reference(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
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
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _without_buffers(x: Tensor, letters: str, **others: Any) -> Call:
    return running_call(x, letters, running=False, **others).without("running_mean").without("running_var")


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)
    frozen = {"use_input_stats": False}

    def plain(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _without_buffers(x, letters, **others), gradients)

    def output_only(name: str, x: Tensor, letters: str, stage="statistics", **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others), compares=("output",))

    def running(name: str, x: Tensor, letters: str, stage="running statistics", **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others))

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    images = numbers(3, 2, 2, 3, seed=16)
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20), **frozen}
    fresh = {"running_mean": torch.zeros(1), "running_var": torch.ones(1)}
    worked = running_call(torch.tensor([[[1.0, 3.0]]]), "NCL", **fresh)
    with_running = running_call(numbers(2, 3, 5, seed=32, scale=1.0), "NCL", **both)
    return in_stages(
        [
            output_only("images", numbers(2, 3, 2, 4, seed=1), "NCHW"),
            output_only("signals", numbers(2, 3, 5, seed=2), "NCL"),
            output_only("signals as long as channels", numbers(2, 4, 4, seed=3), "NCL"),
            output_only("volumes", numbers(2, 2, 2, 2, 3, seed=4), "NCDHW"),
            output_only("not contiguous", numbers(2, 3, 4, 3, seed=5).permute(0, 3, 1, 2), "NCHW"),
            output_only("an affine step that changes nothing", numbers(2, 3, 4, seed=6), "NCL", **ones),
            output_only("images, evaluation", numbers(2, 4, 3, 4, seed=10), "NCHW", "evaluation", **frozen),
            output_only("signals, evaluation", numbers(2, 3, 4, seed=11), "NCL", "evaluation", **frozen),
            running("evaluation, no step", numbers(2, 3, 4, seed=11), "NCL", "running statistics in evaluation",
                    **frozen),
            worked_number(worked, stage="running statistics"),
            running("images, one step", images, "NCHW"),
            running("signals of two, one step", numbers(3, 2, 2, seed=17), "NCL"),
            running("momentum=0.5", images, "NCHW", momentum=0.5),
            plain("no running statistics", "no running statistics", numbers(2, 3, 2, 4, seed=18), "NCHW"),
            plain("values near 0.001", "epsilon", numbers(2, 3, 4, seed=20, scale=2.0**-12), "NCL"),
            plain("values near 0.00001", "epsilon", numbers(2, 3, 4, seed=21, scale=2.0**-18), "NCL"),
            plain("eps=0.5", "epsilon", numbers(2, 3, 4, seed=22, scale=1.0), "NCL", eps=0.5),
            plain("instances of equal values", "epsilon", torch.full((2, 3, 4), 4.0), "NCL"),
            running("small running_var", numbers(2, 3, 4, seed=24, scale=2.0**-10), "NCL", "epsilon", **small),
            plain("weight", "affine", numbers(2, 3, 5, seed=25), "NCL", weight=True),
            plain("bias", "affine", numbers(2, 3, 5, seed=26), "NCL", bias=True),
            plain("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", **both),
            plain("signals with weights", "affine", numbers(2, 3, 5, seed=28), "NCL", **both),
            running("weights in evaluation", numbers(2, 3, 4, seed=29), "NCL", "affine", **frozen, **both),
            plain("gradient of x", "gradient", numbers(2, 3, 5, seed=30, scale=1.0), "NCL", ("x",)),
            plain("weights, gradients", "gradient", numbers(2, 3, 2, 3, seed=31, scale=1.0), "NCHW", tracked, **both),
            Probe("gradients, running statistics", "gradient", with_running, tracked),
            # Without a float32 weight, torch's own keeps its statistics in half precision.
            *precision_probes(
                running_call,
                offset=_without_buffers(numbers(8, 8, 48, seed=33, scale=0.25, offset=1e4), "NCL"),
                pair=lambda values: running_call(values[None], "NCL", weight=torch.ones(2), bias=torch.zeros(2)),
                plain={"weight": torch.ones(4), "bias": torch.zeros(4)},
            ),
        ]
    )  # fmt: skip


instance_norm = Check(
    "instance_norm",
    _instance_norm,
    _probes(),
    load("instance_norm", reference),
    updates=("running_mean", "running_var"),
    is_possible=lambda call: call.arguments["x"][0, 0].numel() >= 3,
)
