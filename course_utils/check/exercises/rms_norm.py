"""Chapter 06: RMS norm; its own mistakes are a mean that should not be there, and what eps=None stands for."""

import torch
import torch.nn.functional as F

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import (
    has_three_values,
    in_stages,
    trailing_call,
    trailing_probes,
    worked_number,
)
from course_utils.check.probes import Call, Probe, integers

__all__ = ["rms_norm"]


def reference(x, normalized_shape, weight=None, eps=None):
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


def _spell_out_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for: that of the dtype torch computes in."""
    eps = torch.finfo(torch.promote_types(call.arguments["x"].dtype, torch.float32)).eps
    return call.replace(eps=eps) if call.arguments.get("eps") is None else call


def _probes() -> list[Probe]:
    tiny = integers(4, 5, seed=30, scale=2.0**-18, offset=2.0**-19)
    pair = torch.tensor([[300.0, 400.0]]).half()  # 300² is infinite in float16, and so is the mean square
    small = (integers(8, 16, seed=31) / 256).bfloat16()
    return in_stages(
        [
            worked_number(trailing_call(torch.tensor([[3.0, 4.0]]), "BC")),
            *trailing_probes({"weight": True}, {"weight": torch.ones(6)}),
            Probe("eps=0, values near 0.00001", "epsilon", trailing_call(tiny, "BC", eps=0.0)),
            Probe("float16, a pair near 300", "half precision", trailing_call(pair, "BC")),
            Probe("bfloat16, values near 0.01", "half precision", trailing_call(small, "BC"), rough=True),
        ]
    )


rms_norm = Check(
    "rms_norm",
    _rms_norm,
    _probes(),
    load("rms_norm", reference),
    spell_out=_spell_out_eps,
    is_possible=has_three_values,
)
