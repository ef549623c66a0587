"""Chapter 05: the backward pass of RMS norm."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.backward_probes import one_in_each_row, shares_two_values, trailing_probes
from course_utils.check.probes import Call

__all__ = ["rms_norm_backward"]


def _rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):
    dims = tuple(range(-len(normalized_shape), 0))  # share a mean square
    rows = tuple(range(x.ndim - len(normalized_shape)))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))
    eps = torch.finfo(z.dtype).eps if eps is None else eps

    def average(t):
        return t.mean(dims, keepdim=True)

    spread = average(z.square())
    rstd = torch.rsqrt(spread + eps)
    x_hat = z * rstd
    g = d if weight is None else d * weight
    dx = rstd * (g - x_hat * average(g * x_hat))

    dweight = d * x_hat
    (dweight,) = (terms.sum(rows) if rows else terms for terms in (dweight,))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype)


def _spell_out_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for, which depends on the dtype."""
    dtype = torch.promote_types(call.arguments["x"].dtype, torch.float32)  # half precision is computed in float32
    return call.replace(eps=torch.finfo(dtype).eps) if call.arguments.get("eps") is None else call


rms_norm_backward = Check(
    "rms_norm_backward",
    _rms_norm_backward,
    trailing_probes(has_mean=False),
    load("rms_norm_backward", _rms_norm_backward),
    returns=("dx", "dweight"),
    spell_out=_spell_out_eps,
    is_possible=shares_two_values,
    simplest={"dy": one_in_each_row},
)
