"""Chapter 05: the backward pass of batch norm in training."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.backward_probes import channel_probes, one_in_each_channel, shares_three_samples

__all__ = ["batch_norm_backward"]


def _batch_norm_backward(dy, x, weight=None, eps=1e-5):
    dims = (0, *range(2, x.ndim))  # share a mean
    rows = (0, *range(2, x.ndim))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))
    if weight is not None:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))

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
    dweight, dbias = (terms.sum(rows) for terms in (dweight, dbias))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype), dbias.to(out.dtype)


batch_norm_backward = Check(
    "batch_norm_backward",
    _batch_norm_backward,
    channel_probes(),
    load("batch_norm_backward", _batch_norm_backward),
    returns=("dx", "dweight", "dbias"),
    is_possible=shares_three_samples,
    simplest={"dy": one_in_each_channel},
)
