"""How far from the truth, how far is too far, and whether two wrong results are the same wrong."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["GRADIENTS", "OUTPUTS", "Tolerance", "error_ratio", "largest_error", "same"]


@dataclass(frozen=True)
class Tolerance:
    """An element may be off by ``relative`` of itself, plus ``absolute`` of the largest element (of 1, if smaller)."""

    relative: float
    absolute: float

    def allowed(self, truth: Tensor) -> Tensor:
        """Return how far off each element of ``truth`` (float64) may be."""
        largest = truth.abs().max() if truth.numel() else truth.new_zeros(())
        return self.relative * truth.abs() + self.absolute * largest.clamp_min(1.0)


# Half a unit in the last place: the most that rounding a right value once to the dtype can move it, relative to it.
_HALF_ULP = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}

# Measured on the probes of the five norms, relative to the largest element: right float32 forms (two-pass, Welford,
# einsum, torch's own) are off by up to 4e-7, the mildest catalogued mistake that is not rounding by 1e-2. In half
# precision a result that is computed in float32 and rounded once is off by half a unit in the last place at most, plus
# the float32 error before it, for which 2 % of that are left; rounded twice it is off by 1.3 to 2 times as much.
OUTPUTS = {
    torch.float64: Tolerance(0.0, 1e-5),  # float32 inside is a right way to write it
    torch.float32: Tolerance(0.0, 1e-5),
    **{dtype: Tolerance(1.02 * half_ulp, 2e-5) for dtype, half_ulp in _HALF_ULP.items()},
}

# A gradient is a sum: in half precision every use of x in the forward pass adds a rounded term, and torch's own CPU
# kernels add up the rows of dweight in the input's dtype. Right forms are off by up to 1.3 half units of the largest
# element; the tolerance is there to catch a wrong gradient, not a rounded one.
GRADIENTS = {
    torch.float64: Tolerance(0.0, 1e-5),
    torch.float32: Tolerance(0.0, 1e-5),
    **{dtype: Tolerance(0.0, 8 * half_ulp) for dtype, half_ulp in _HALF_ULP.items()},
}

# Two ways of writing one mistake agree as well as two right ways do: in half precision, to one unit in the last place.
_AGREEMENT = 2.5


def largest_error(values: Tensor, truth: Tensor) -> float:
    """Return the largest |values − truth|; NaN counts as infinite, and equal infinities as no error."""
    if not truth.numel():
        return 0.0
    error = (values - truth).abs().masked_fill(values == truth, 0.0)
    return error.nan_to_num(nan=float("inf"), posinf=float("inf")).max().item()


def error_ratio(values: Tensor, truth: Tensor, tolerance: Tolerance) -> float:
    """Return the largest error in units of what is allowed: right is at most 1."""
    if not truth.numel():
        return 0.0
    error = (values - truth).abs().masked_fill(values == truth, 0.0)
    return (error / tolerance.allowed(truth)).nan_to_num(nan=float("inf"), posinf=float("inf")).max().item()


def same(values: Tensor, example: Tensor, tolerance: Tolerance) -> bool:
    """Return whether ``values`` are what ``example`` is, NaN in the same places, within rounding."""
    if values.shape != example.shape or not torch.equal(values.isfinite(), example.isfinite()):
        return False
    finite = example.isfinite()
    if not torch.equal(values[~finite].nan_to_num(), example[~finite].nan_to_num()):
        return False
    return error_ratio(values[finite], example[finite], tolerance) <= _AGREEMENT
