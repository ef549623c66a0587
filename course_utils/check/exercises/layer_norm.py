"""Chapter 02: layer norm."""

import torch
import torch.nn.functional as F

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import (
    has_three_values,
    in_stages,
    numbers,
    offset_probe,
    pair_probes,
    trailing_call,
    trailing_probes,
    worked_number,
)
from course_utils.check.probes import Probe, integers

__all__ = ["layer_norm"]


def reference(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = z.mean(dims, keepdim=True)
    variance = (z - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    half = trailing_call(integers(16, 16, seed=23, scale=16.0).bfloat16(), "BC", **both)
    return in_stages(
        [
            worked_number(trailing_call(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), "BC")),
            *trailing_probes(both, {"weight": torch.ones(6), "bias": torch.zeros(6)}),
            Probe("bias", "affine", trailing_call(numbers(5, 6, seed=14), "BC", bias=True)),
            Probe("bfloat16 with weight and bias", "half-precision affine", half, rough=True),
            Probe("weight and bias", "affine", trailing_call(numbers(5, 6, seed=16), "BC", **both)),
            offset_probe(trailing_call(integers(64, 48, seed=20, scale=0.25, offset=1e4), "BC")),
            *pair_probes(lambda values: trailing_call(values, "BC")),
        ]
    )


layer_norm = Check("layer_norm", _layer_norm, _probes(), load("layer_norm", reference), is_possible=has_three_values)
