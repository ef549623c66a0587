"""Chapter 03: batch norm: two modes, running statistics updated in place, and one statistic for each channel."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import in_stages, numbers, precision_probes, running_call, worked_number
from course_utils.check.probes import Call, Probe

__all__ = ["batch_norm"]


def reference(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
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


def _batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)

    def probe(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, training=True, **others), gradients)

    def output(name: str, stage: str, x: Tensor, letters: str, *, training: Any = True, **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, training=training, **others), compares=("output",))

    def frozen(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others), gradients)

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20)}
    transposed = numbers(2, 3, 4, 3, seed=7).permute(0, 3, 1, 2)
    half = running_call(numbers(4, 3, seed=13).bfloat16(), "NC")
    fresh = {"running_mean": torch.zeros(1), "running_var": torch.ones(1)}
    worked = running_call(torch.tensor([[1.0], [3.0]]), "NC", training=True, **fresh)
    return in_stages(
        [
            output("vectors", "statistics", numbers(8, 3, seed=1), "NC"),
            output("signals", "statistics", numbers(4, 3, 5, seed=2), "NCL"),
            output("signals as long as channels", "statistics", numbers(4, 5, 5, seed=3), "NCL"),
            output("images", "statistics", numbers(3, 2, 3, 4, seed=4), "NCHW"),
            output("one image", "statistics", numbers(1, 2, 3, 4, seed=5), "NCHW"),
            output("volumes", "statistics", numbers(2, 2, 2, 2, 3, seed=6), "NCDHW"),
            output("not contiguous", "statistics", transposed, "NCHW"),
            output("an affine step that changes nothing", "statistics", numbers(8, 3, seed=8), "NC", **ones),
            output("vectors, evaluation", "evaluation", numbers(4, 3, seed=10), "NC", training=False),
            output("one vector, evaluation", "evaluation", numbers(1, 3, seed=11), "NC", training=False),
            output("images, evaluation", "evaluation", numbers(2, 4, 3, 4, seed=12), "NCHW", training=False),
            frozen("evaluation, no step", "running statistics in evaluation", numbers(4, 3, seed=10), "NC"),
            worked_number(worked, stage="running statistics"),
            probe("vectors, one step", "running statistics", numbers(4, 3, seed=14), "NC"),
            probe("two vectors, one step", "running statistics", numbers(2, 3, seed=15), "NC"),
            probe("images, one step", "running statistics", numbers(3, 2, 2, 3, seed=16), "NCHW"),
            probe("momentum=0.5", "running statistics", numbers(4, 3, seed=17), "NC", momentum=0.5),
            probe("running_mean=None", "no running statistics", numbers(4, 3, seed=18), "NC", running=False),
            output("values near 0.001", "epsilon", numbers(6, 3, seed=20, scale=2.0**-12), "NC"),
            output("values near 0.00001", "epsilon", numbers(6, 3, seed=21, scale=2.0**-18), "NC"),
            output("eps=0.5", "epsilon", numbers(6, 3, seed=22, scale=1.0), "NC", eps=0.5),
            output("channels of equal values", "epsilon", torch.full((4, 3), 4.0), "NC"),
            frozen("small running_var", "epsilon", numbers(4, 3, seed=24, scale=2.0**-10), "NC", **small),
            output("weight", "affine", numbers(4, 3, 5, seed=25), "NCL", weight=True),
            output("bias", "affine", numbers(4, 3, 5, seed=26), "NCL", bias=True),
            output("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", **both),
            output("vectors with weights", "affine", numbers(6, 3, seed=28), "NC", **both),
            frozen("weights in evaluation", "affine", numbers(2, 3, 4, seed=29), "NCL", **both),
            probe("gradient of x", "gradient", numbers(6, 3, seed=30, scale=1.0), "NC", ("x",)),
            probe("weights, gradients", "gradient", numbers(2, 3, 2, 2, seed=31, scale=1.0), "NCHW", tracked, **both),
            frozen("gradients in evaluation", "gradient", numbers(4, 3, seed=32), "NC", tracked, **both),
            *precision_probes(
                running_call,
                offset=running_call(numbers(48, 64, seed=33, scale=0.25, offset=1e4), "NC", training=True),
                pair=lambda values: running_call(values.t().contiguous(), "NC", training=True),
                plain={"training": True},
            ),
            Probe("bfloat16, evaluation", "half precision", half, compares=("output",), rough=True),
        ]
    )


def _has_three_values(call: Call) -> bool:
    x = call.arguments["x"]
    return x.numel() >= 3 * x.shape[1] or not call.arguments.get("training")


batch_norm = Check(
    "batch_norm",
    _batch_norm,
    _probes(),
    load("batch_norm", reference),
    updates=("running_mean", "running_var"),
    is_possible=_has_three_values,
)
