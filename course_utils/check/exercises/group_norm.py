"""Chapter 06: group norm: which channels make a group, and which axes belong to it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import in_stages, numbers, parameters, precision_probes, worked_number
from course_utils.check.probes import Call, Probe

__all__ = ["group_norm"]


def reference(x, num_groups, weight=None, bias=None, eps=1e-5):
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    z = z.reshape(x.shape[0], num_groups, -1)
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


def _call(x: Tensor, letters: str, num_groups: int, **others: Any) -> Call:
    affine = parameters(x.shape[1], x.dtype, **others)
    return Call({"x": x, "num_groups": num_groups, **affine}, {"x": letters, "weight": "C", "bias": "C"})


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}

    def probe(name: str, stage: str, x: Tensor, letters: str, groups: int, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _call(x, letters, groups, **others), gradients)

    def statistics(name: str, x: Tensor, letters: str, groups: int, **others: Any) -> Probe:
        return probe(name, "statistics", x, letters, groups, **others)

    ones = {"weight": torch.ones(6), "bias": torch.zeros(6)}
    worked = torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])
    return in_stages(
        [
            worked_number(_call(worked, "NCL", 1), "the worked number, one group"),
            worked_number(_call(worked, "NCL", 2), "the worked number, two groups", "epsilon"),
            statistics("images in two groups", numbers(2, 6, 2, 3, seed=1), "NCHW", 2),
            statistics("images in three groups", numbers(2, 6, 2, 3, seed=2), "NCHW", 3),
            statistics("images in one group", numbers(2, 4, 3, 3, seed=3), "NCHW", 1),
            statistics("images, every channel a group", numbers(2, 4, 3, 3, seed=4), "NCHW", 4),
            statistics("signals", numbers(3, 6, 5, seed=5), "NCL", 2),
            statistics("vectors", numbers(4, 6, seed=6), "NC", 2),
            statistics("volumes", numbers(2, 4, 2, 2, 3, seed=7), "NCDHW", 2),
            statistics("not contiguous", numbers(2, 2, 3, 6, seed=8).permute(0, 3, 1, 2), "NCHW", 2),
            statistics("an affine step that changes nothing", numbers(2, 6, 2, 3, seed=9), "NCHW", 2, **ones),
            probe("values near 0.001", "epsilon", numbers(2, 4, 3, seed=10, scale=2.0**-12), "NCL", 2),
            probe("values near 0.00001", "epsilon", numbers(2, 4, 3, seed=11, scale=2.0**-18), "NCL", 2),
            probe("eps=0.5", "epsilon", numbers(2, 4, 3, seed=12, scale=1.0), "NCL", 2, eps=0.5),
            probe("groups of equal values", "epsilon", torch.full((2, 4, 3), 4.0), "NCL", 2),
            probe("weight", "affine", numbers(2, 6, 2, 3, seed=13), "NCHW", 2, weight=True),
            probe("bias", "affine", numbers(2, 6, 2, 3, seed=14), "NCHW", 2, bias=True),
            probe("weight and bias", "affine", numbers(2, 6, 2, 3, seed=15), "NCHW", 3, **both),
            probe("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=16), "NCHW", 2, **both),
            probe("vectors with weights", "affine", numbers(4, 6, seed=17), "NC", 2, **both),
            probe("gradient of x", "gradient", numbers(2, 4, 3, seed=18, scale=1.0), "NCL", 2, ("x",)),
            probe("gradients with weights", "gradient",
                  numbers(2, 6, 2, 2, seed=19, scale=1.0), "NCHW", 2, ("x", *both), **both),
            *precision_probes(
                lambda x, letters, **others: _call(x, letters, 2, **others),
                offset=_call(numbers(16, 8, 24, seed=20, scale=0.25, offset=1e4), "NCL", 4),
                pair=lambda values: _call(values.reshape(1, 4, 1), "NCL", 2),
            ),
        ]
    )  # fmt: skip


group_norm = Check(
    "group_norm",
    _group_norm,
    _probes(),
    load("group_norm", reference),
    is_possible=lambda call: call.arguments["x"][0].numel() >= 3 * call.arguments["num_groups"],
)
