"""Chapter 02: layer norm."""

import torch
import torch.nn.functional as F

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import (
    LAYER,
    has_three_values,
    in_stages,
    trailing_call,
    trailing_probes,
)
from course_utils.check.probes import read_probes

__all__ = ["layer_norm"]


def _layer_norm_in_steps(x, normalized_shape, weight=None, bias=None, eps=1e-5):
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


layer_norm = Exercise(
    "layer_norm",
    _layer_norm,
    in_stages(
        [
            *trailing_probes(LAYER, torch.tensor([[1.0, 2.0, 3.0, 4.0]])),
            *read_probes(__file__, "layer_norm", trailing_call),
        ]
    ),
    load("layer_norm", _layer_norm_in_steps),
    may_shrink_to=has_three_values,
)
