"""The backward passes of layer, batch and RMS norm, written once, with every step an argument.

A mistake is a recipe with one step replaced. Source of the formulas: the head of ``course_utils.norms.backward``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils.check.norm_recipes import affine, as_dtype, as_given, eps_of_arithmetic, per_channel, widen

__all__ = [
    "Backward",
    "Parts",
    "batch_norm_backward_with",
    "combine",
    "layer_norm_backward_with",
    "mean_square_about",
    "rms_norm_backward_with",
]

Step = Callable[..., Any]
Backward = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Parts:
    """What the formulas are made of; everything broadcasts beside ``x``.

    Args:
        dy: the gradient that arrives, (shape of x).
        x: the input, widened.
        mean: μ, or zero where none is subtracted.
        rstd: r = 1/√(σ² + ε).
        weight: γ, or None.
        g: dy·γ, the gradient of x̂.
        dims: over which μ and σ² are shared.
        subtracts_mean: whether the norm centres.
    """

    dy: Tensor
    x: Tensor
    mean: Tensor
    rstd: Tensor
    weight: Tensor | None
    g: Tensor
    dims: tuple[int, ...]
    subtracts_mean: bool

    @property
    def centred(self) -> Tensor:
        """Return x − μ."""
        return self.x - self.mean

    @property
    def x_hat(self) -> Tensor:
        """Return (x − μ)·r."""
        return self.centred * self.rstd

    def average(self, values: Tensor) -> Tensor:
        """Return the mean over what shares μ and σ²."""
        return values.mean(self.dims, keepdim=True)


def combine(p: Parts, constant: float = 1.0, along: float | Tensor = 1.0) -> Tensor:
    """Return r·(g − ``constant``·mean(g) − ``along``·x̂·mean(g·x̂)): right when both factors are 1."""
    dx = p.g - along * p.x_hat * p.average(p.g * p.x_hat)
    return p.rstd * (dx - constant * p.average(p.g) if p.subtracts_mean else dx)


def mean_square_about(z: Tensor, mean: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the biased variance (with a mean of zero, the mean square)."""
    return (z - mean).square().mean(dims, keepdim=True)


def _sum(terms: Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return terms.sum(dims) if dims else terms  # sum(()) would sum over everything


_STEPS: dict[str, Step] = {
    "widen": widen,  # (x) -> z: half precision is computed in float32
    "mean": lambda z, dims, dtype: z.mean(dims, keepdim=True),  # dtype is that of x
    "spread": mean_square_about,  # (z, mean, dims) -> spread
    "root": lambda spread, eps: torch.rsqrt(spread + eps),
    "saved": as_given,  # (statistic, dtype) -> statistic, as the forward pass keeps it
    "weigh": lambda dy, weight: affine(dy, weight, None),  # -> g
    "dx": combine,  # (parts) -> dx
    "dweight": lambda p: p.dy * p.x_hat,  # (parts) -> the terms of the sum
    "dbias": lambda p: p.dy,  # (parts) -> the terms of the sum
    "total": _sum,  # (terms, dims, dtype of x) -> sum
    "close": as_dtype,  # (result, dtype) -> result
    "default_eps": eps_of_arithmetic,  # (x) -> eps, for eps=None
}
_OF_LAYER: dict[str, Step] = {
    "dims": lambda x, shape: tuple(range(-len(shape), 0)),
    "summed": lambda x, shape: tuple(range(x.ndim - len(shape))),
    "parameter": lambda weight, ndim: weight,
}
_OF_BATCH: dict[str, Step] = {
    "dims": lambda x, shape: (0, *range(2, x.ndim)),
    "summed": lambda x, shape: (0, *range(2, x.ndim)),
    "parameter": per_channel,
}
_OF_RMS: dict[str, Step] = {**_OF_LAYER, "mean": lambda z, dims, dtype: z.new_zeros(())}


def layer_norm_backward_with(**steps: Step) -> Backward:
    """Return layer norm's backward pass with some ``steps`` replaced."""
    step = _STEPS | _OF_LAYER | steps

    def layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5):
        return _gradients(step, dy, x, normalized_shape, weight, eps)

    return layer_norm_backward


def batch_norm_backward_with(**steps: Step) -> Backward:
    """Return batch norm's backward pass in training with some ``steps`` replaced."""
    step = _STEPS | _OF_BATCH | steps

    def batch_norm_backward(dy, x, weight=None, eps=1e-5):
        return _gradients(step, dy, x, x.shape[1:2], weight, eps)

    return batch_norm_backward


def rms_norm_backward_with(subtracts_mean: bool = False, **steps: Step) -> Backward:
    """Return RMS norm's backward pass with some ``steps`` replaced, or with the projection on a constant."""
    step = _STEPS | _OF_RMS | steps

    def rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):
        eps = step["default_eps"](x) if eps is None else eps
        return _gradients(step, dy, x, normalized_shape, weight, eps, subtracts_mean)[:2]

    return rms_norm_backward


def _gradients(
    step: dict[str, Step],
    dy: Tensor,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    eps: float,
    subtracts_mean: bool = True,
) -> tuple[Tensor, ...]:
    z, dy = step["widen"](x), step["widen"](dy)
    dims, summed = step["dims"](x, shape), step["summed"](x, shape)
    mean = step["mean"](z, dims, x.dtype)
    rstd = step["root"](step["spread"](z, mean, dims), eps)
    mean, rstd = (step["saved"](statistic, x.dtype) for statistic in (mean, rstd))
    beside_x = step["parameter"](weight, x.ndim)
    parts = Parts(dy, z, mean, rstd, beside_x, step["weigh"](dy, beside_x), dims, subtracts_mean)
    terms = step["dweight"](parts), step["dbias"](parts)
    dtype = x.dtype if weight is None else weight.dtype
    totals = (step["close"](step["total"](term, summed, x.dtype), dtype) for term in terms)
    return step["close"](step["dx"](parts), x.dtype), *totals
