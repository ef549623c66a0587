"""Chapter 13: NTK-aware frequencies (bloc97, 2023): the base that divides the last pair by the factor."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["FLOAT64", "RIGHT", "ROUNDED", "ntk_inv_freq"]

# Of the frequency itself: the slowest pair is a millionth of the fastest. Right float32 forms are off by up to 3e-6,
# the mildest mistake, clamping YaRN's ramp elsewhere, by a few percent.
RIGHT = Tolerance(relative=1e-5, absolute=1e-12)
FLOAT64 = Tolerance(relative=1e-9, absolute=1e-15)
ROUNDED = (
    "The frequencies are rounded to float32. That moves a cosine at position 131,071 by up to 0.004; torch.float64 in "
    "arange, up to the cosine, avoids it."
)


def _ntk_inv_freq(dim, base, factor):
    new_base = base * factor ** (dim / (dim - 2))
    return new_base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (dim/2,)


def _probe(name: str, dim: int, base: float, factor: float, **remark) -> Probe:
    return Probe(name, "frequencies", Call({"dim": dim, "base": base, "factor": factor}), tolerance=RIGHT, **remark)


ntk_inv_freq = Check(
    "ntk_inv_freq",
    _ntk_inv_freq,
    [
        _probe("8 dimensions, factor 4", 8, 10_000.0, 4.0, remark=ROUNDED, remark_beyond=FLOAT64),
        _probe("16 dimensions, factor 8", 16, 10_000.0, 8.0),
        _probe("another base", 12, 500_000.0, 2.5),
        _probe("factor 1", 8, 100.0, 1.0),
    ],
    load("ntk_inv_freq", _ntk_inv_freq),
    any_dtype=True,
    is_possible=lambda call: call.arguments["dim"] > 2,
)
