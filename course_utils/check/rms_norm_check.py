"""The check of RMS norm: its own mistakes are a mean that should not be there, and what eps=None stands for."""

import torch
import torch.nn.functional as F

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.layer_norm_check import KEEPDIM, add_dims_mistakes
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_mistakes import add_common_mistakes
from course_utils.check.norm_probes import in_stages, trailing_call, trailing_probes
from course_utils.check.norm_recipes import affine, eps_of_arithmetic, minus_mean, over_root, rms_norm_with, widen

__all__ = ["rms_norm"]

MISTAKES = Catalogue()
add_common_mistakes(
    MISTAKES, rms_norm_with, rms_norm_with(), centring=False,
    other_eps=(1e-5, 1e-6, 1e-8, 1e-12), usual_eps=torch.finfo(torch.float32).eps,
)  # fmt: skip
add_dims_mistakes(MISTAKES, rms_norm_with, rms_norm_with())
MISTAKES.add(
    "subtracts_mean",
    "a layer norm: the mean is subtracted",
    "It subtracts the mean first, which makes it a layer norm.",
    "That RMS norm leaves the mean alone is the whole difference: it saves a reduction, and keeps a common offset.",
    "What should the output be when all values are 3?",
    rms_norm_with(centre=minus_mean),
)
MISTAKES.add(
    "divides_by_deviation",
    "divided by the standard deviation",
    "It divides by the standard deviation, which measures the distance from the mean, not from zero.",
    "The root mean square counts the mean in: for values that are all 3 it is 3, and the standard deviation is 0.",
    "What should the output be when all values are 3?",
    rms_norm_with(spread=lambda c, z, dims: z.var(dims, correction=0, keepdim=True)),
    rms_norm_with(spread=lambda c, z, dims: z.var(dims, correction=1, keepdim=True)),
)
MISTAKES.add(
    "eps_of_input_dtype",
    "eps=None taken from the input's dtype",
    "For eps=None it takes the machine epsilon of the input's dtype, which for bfloat16 is 0.0078.",
    "Small inputs are then scaled by epsilon and no longer by themselves. torch takes the epsilon of the dtype "
    "it computes in: 1.2e-7, for half precision as well (its older documentation said otherwise).",
    "What is torch.finfo(torch.bfloat16).eps, and what is the mean square of values near 0.01?",
    rms_norm_with(default_eps=lambda x: torch.finfo(x.dtype).eps),
)
MISTAKES.add(
    "zero_eps_replaced",
    "eps=0 taken for eps=None",
    "An eps of 0 is replaced by the default, as `eps or default` does.",
    "0 is a value and None is the absence of one; with eps=0 the norm forgets scale exactly.",
    "What is `0.0 or 1.0` in Python?",
    lambda x, normalized_shape, weight=None, eps=None: rms_norm_with()(x, normalized_shape, weight, eps or None),
)


@MISTAKES.mistake(**KEEPDIM)
def missing_keepdim(x, normalized_shape, weight=None, eps=None):
    z, dims = widen(x), tuple(range(-len(normalized_shape), 0))
    eps = eps_of_arithmetic(x) if eps is None else eps
    return affine(over_root(z, z.square().mean(dims), eps), weight, None).to(x.dtype)


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    return F.rms_norm(x, normalized_shape, weight, eps)


def _spell_out_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for, which depends on the dtype."""
    return call.replace(eps=eps_of_arithmetic(call.arguments["x"])) if call.arguments.get("eps") is None else call


def _probes() -> list[Probe]:
    tiny = integers(4, 5, seed=30, scale=2.0**-18, offset=2.0**-19)
    small = (integers(8, 16, seed=31) / 256).bfloat16()
    return in_stages(
        [
            *trailing_probes({"weight": True}, {"weight": torch.ones(6)}),
            Probe("eps=0, values near 0.00001", "epsilon", trailing_call(tiny, "BC", eps=0.0)),
            # 300² is infinite in float16, and so is the mean square, in whatever order it is computed.
            Probe(
                "float16, a pair near 300", "half precision", trailing_call(torch.tensor([[300.0, 400.0]]).half(), "BC")
            ),
            Probe("bfloat16, values near 0.01", "half precision", trailing_call(small, "BC"), rough=True),
        ]
    )


rms_norm = Check("rms_norm", _rms_norm, _probes(), MISTAKES, spell_out=_spell_out_eps)
