"""Chapter 13: sinusoids, the matrix that shifts them, ALiBi's slopes and its bias."""

from dataclasses import replace

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, read_probes

__all__ = ["alibi_bias", "alibi_slopes", "shift_matrix", "sinusoidal"]


def _sinusoidal(positions, dim, base=10_000.0):
    if isinstance(positions, int):
        positions = torch.arange(positions)
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim  # (dim/2,)
    angles = positions[:, None] * base**-exponents  # (T, dim/2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()  # (T, dim)


# A bfloat16 angle is off by 2^-9 of itself twice, so up to position 3 half precision stays below
# 0.02; the mildest mistake about the formula is off by 0.09 there. What half precision does is left
# to the stage that is about it.
_BY_FORMULA = Tolerance(0.0, 2e-2)
# A float32 frequency from exp and log is off by up to 2e-7 of the angle, and so is the product:
# 1.2e-5 at position 60. bfloat16 and float16 angles near 60 are off by 1e-2 and more.
_NEAR = Tolerance(0.0, 1e-4)
# The same at 131,071: right float32 forms measure 4e-3 to 2e-2. Anything else is wrong by whole
# turns.
_FAR = Tolerance(0.0, 6e-2)
_EXACT = Tolerance(0.0, 1e-5)
_FAR_REMARK = (
    "At position 131,071 it is off by more than float32 has to be: the angles are float32, as in "
    "most models. Multiply positions and frequencies in float64, take sine and cosine, then go "
    "down to float32."
)


# by stage
_TOLERANCES = {"precision": _NEAR, "far positions": _FAR, "count": _NEAR}


def _probe(probe: Probe) -> Probe:
    """Return a probe of probes.toml with the tolerance of its stage, and its list of positions as a
    tensor."""
    call = probe.call
    if isinstance(call.arguments["positions"], list):
        positions = torch.tensor(call.arguments["positions"])
        call = Call({**call.arguments, "positions": positions}, {"positions": "T"})
    if probe.name == "frequencies that float32 holds":
        probe = replace(probe, remark=_FAR_REMARK, remark_beyond=_EXACT)
    return replace(
        probe,
        call=call,
        tolerance=_TOLERANCES.get(probe.stage, _BY_FORMULA),
        rough=probe.stage == "precision",
    )


sinusoidal = Exercise(
    "sinusoidal",
    _sinusoidal,
    [_probe(p) for p in read_probes(__file__, "sinusoidal", plain=True)],
    load("sinusoidal", _sinusoidal),
    may_shrink_to=lambda call: call.arguments["dim"] > 1,
)


def _shift_matrix(k, dim, base=10_000.0):
    angles = k * base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (dim/2,)
    sines = torch.arange(0, dim, 2)
    cosines = sines + 1
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    matrix[sines, sines] = angles.cos()
    matrix[sines, cosines] = angles.sin()
    matrix[cosines, sines] = -angles.sin()
    matrix[cosines, cosines] = angles.cos()
    return matrix


# float32 angles of shifts up to 5 are off by 1e-6; the mildest mistake by 0.01
_ENTRY = Tolerance(0.0, 1e-4)

shift_matrix = Exercise(
    "shift_matrix",
    _shift_matrix,
    [replace(p, tolerance=_ENTRY) for p in read_probes(__file__, "shift_matrix", plain=True)],
    load("shift_matrix", _shift_matrix),
    any_dtype=True,
)


def _alibi_slopes(num_heads):
    return torch.tensor([2 ** (-8 * (head + 1) / num_heads) for head in range(num_heads)])


alibi_slopes = Exercise(
    "alibi_slopes",
    _alibi_slopes,
    read_probes(__file__, "alibi_slopes", plain=True),
    load("alibi_slopes", _alibi_slopes),
    any_dtype=True,
)


def _alibi_bias(num_heads, queries, keys):
    slopes = _alibi_slopes(num_heads)
    query = torch.arange(keys - queries, keys)  # the queries are the last tokens
    distance = (query[:, None] - torch.arange(keys)).abs()  # (Q, K)
    return -slopes[:, None, None] * distance  # (H, Q, K)


alibi_bias = Exercise(
    "alibi_bias",
    _alibi_bias,
    read_probes(__file__, "alibi_bias", plain=True),
    load("alibi_bias", _alibi_bias),
    any_dtype=True,
    may_shrink_to=lambda call: 0 < call.arguments["queries"] <= call.arguments["keys"],
)
