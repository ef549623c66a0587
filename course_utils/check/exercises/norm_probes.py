"""What the probes of the norms share: their stages, and inputs that tell mistakes of rounding."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_utils.check.probes import Call, Probe, Tolerance, integers

__all__ = ["AS_PRINTED", "LARGE", "NARROW", "in_stages", "numbers", "offset_probe", "pair_probes"]

AS_PRINTED = Tolerance(0.0, 1e-3)  # a number that a task gives to three digits
NARROW = "A float64 input is computed with float32's precision; torch keeps float64, which gradcheck needs."
LARGE = 100.0  # next to a variance of 3e5, an epsilon of 1e-5 is below float32's rounding, wherever it is put
STAGES = (
    "statistics", "evaluation", "running statistics", "running statistics in evaluation", "no running statistics",
    "epsilon", "affine", "gradient", "large offset", "half precision", "half-precision affine",
    "half-precision gradient", "float64",
)  # fmt: skip


def numbers(*shape: int, seed: int, scale: float = LARGE, offset: float = 0.0) -> Tensor:
    """Return ``integers`` of a ``scale`` next to which epsilon does not show, unless another is asked for."""
    return integers(*shape, seed=seed, scale=scale, offset=offset)


def in_stages(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes in the order of their stages; in one, rough probes last: the first to fail is what is shown."""
    return sorted(probes, key=lambda probe: (STAGES.index(probe.stage), probe.rough))


def offset_probe(call: Call) -> Probe:
    """Return the probe with values near 10,000."""
    # x is exact in float32; its mean is not, by up to half a unit in the last place of 10,000: 5e-4, or 4e-4 of the
    # spread. Two-pass forms and torch's own are off by up to 6e-4, Welford's by 1e-3, E[x²] − E[x]² by 1 and more.
    tolerance = Tolerance(0.0, 5e-3)
    return Probe("values near 10,000", "large offset", call, compares=("output",), rough=True, tolerance=tolerance)


def pair_probes(make: Callable[[Tensor], Call]) -> list[Probe]:
    """Return probes in which a wrong result is the same in whatever order the operations come.

    ``make`` makes a call from two pairs of values, (2, 2), each of which shares its statistics.
    """
    # (4097² + 4095²) / 2 is 4096² + 1, and in float32 the 1 is lost: E[x²] − E[x]² is 0 where the variance is 1.
    far = torch.tensor([[4097.0, 4095.0], [8194.0, 8190.0]])
    # 257 is no bfloat16: the mean of 256 and 258 is rounded to 256, and the pair centred becomes 0 and 2.
    half = torch.tensor([[256.0, 258.0], [512.0, 516.0]], dtype=torch.bfloat16)
    return [
        Probe("pairs near 4,096", "large offset", make(far), compares=("output",)),
        Probe("bfloat16, pairs near 256", "half precision", make(half), compares=("output",)),
    ]
