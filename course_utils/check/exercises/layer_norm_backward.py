"""Chapter 05: the backward pass of layer norm."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.backward_probes import one_in_each_row, shares_three_values, trailing_probes

__all__ = ["layer_norm_backward"]


def _layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))  # share a mean
    rows = tuple(range(x.ndim - len(normalized_shape)))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))

    def average(t):
        return t.mean(dims, keepdim=True)

    mean = average(z)
    spread = average((z - mean).square())
    rstd = torch.rsqrt(spread + eps)
    x_hat = (z - mean) * rstd
    g = d if weight is None else d * weight
    dx = rstd * (g - average(g) - x_hat * average(g * x_hat))

    dweight = d * x_hat
    dbias = d
    dweight, dbias = (terms.sum(rows) if rows else terms for terms in (dweight, dbias))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype), dbias.to(out.dtype)


layer_norm_backward = Check(
    "layer_norm_backward",
    _layer_norm_backward,
    trailing_probes(has_mean=True),
    load("layer_norm_backward", _layer_norm_backward),
    returns=("dx", "dweight", "dbias"),
    is_possible=shares_three_values,
    simplest={"dy": one_in_each_row},
)
