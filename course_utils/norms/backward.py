"""The gradients of layer, batch and RMS norm written by hand: functions, and `torch.autograd.Function`s (chapter 05).

With r = 1/√(σ² + ε), x̂ = (x − μ)·r and g = dy·γ, and with every mean over the set that shares μ and σ²:

    layer and batch norm    dx = r·(g − mean(g) − x̂·mean(g·x̂))    dγ = Σ dy·x̂    dβ = Σ dy
    RMS norm, x̂ = x·r       dx = r·(g − x̂·mean(g·x̂))              dγ = Σ dy·x̂

The sums for γ and β run over everything that shares the parameter. Half-precision gradients are computed and summed in
float32 and rounded once. The form in x̂ keeps its accuracy far from zero, where the one in raw moments of x loses it.

The `torch.autograd.Function`s serve ``backward()`` and ``torch.autograd.grad``; the transforms of ``torch.func`` refuse
them.

Source: Ba et al. 2016, eq. 3, and Ioffe, Szegedy 2015, section 3, differentiated.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.norms import contract
from course_utils.norms.core import affine, centre, channel_shape, inverse_rms, moments, trailing_dims, upcast_half

__all__ = [
    "BatchNormFunction",
    "LayerNormFunction",
    "RMSNormFunction",
    "batch_norm_backward",
    "layer_norm_backward",
    "rms_norm_backward",
]


def layer_norm_backward(
    dy: Tensor, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients dx, dweight and dbias of `norms.layer_norm`, given that of its result.

    ``dy`` and ``x`` are (*, *normalized_shape), weight and its gradients ``normalized_shape``. dx has the dtype of
    ``x``; dweight and dbias have that of ``weight``, or of ``x`` where there is no weight.

    Raises ValueError where ``dy`` has not the shape of ``x``, and what `norms.layer_norm` raises.
    """
    contract.check_layer_norm(x, normalized_shape, weight, None)
    return _gradients(dy, x, weight, eps, _by_sample(x, normalized_shape))


def batch_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients dx, dweight and dbias of `norms.batch_norm` in training, given that of its result.

    ``dy`` and ``x`` are (N, C, *), weight and its gradients (C,); dtypes and errors as in `layer_norm_backward`.
    """
    contract.check_batch_norm(x, (None, None), (weight, None), True, eps)
    return _gradients(dy, x, weight, eps, _by_channel(x))


def rms_norm_backward(
    dy: Tensor, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the gradients dx and dweight of `norms.rms_norm`, given that of its result.

    Shapes, dtypes and errors as in `layer_norm_backward`; ``x`` must be real. An ``eps`` of None is the machine epsilon
    of the dtype computed in.

    Source: Zhang, Sennrich 2019, section 4.
    """
    contract.check_rms_norm(x, normalized_shape, weight)
    dx, dweight, _ = _gradients(dy, x, weight, eps, _by_sample(x, normalized_shape, centred=False))
    return dx, dweight


class LayerNormFunction(torch.autograd.Function):
    """Layer norm with its gradient by hand: ``LayerNormFunction.apply(x, normalized_shape, weight, bias, eps)``.

    Saved for backward: ``x`` in its own dtype, ``weight``, and a float32 mean and 1/σ per sample. x̂ is recomputed from
    them; plain autograd would save it, the deviations and, in half precision, a float32 copy of ``x`` besides.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        contract.check_layer_norm(x, normalized_shape, weight, bias)
        return _forward(ctx, x, weight, bias, eps, _by_sample(x, normalized_shape))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        dx, dweight, dbias = _backward(ctx, dy)
        return dx, None, dweight, dbias, None


class BatchNormFunction(torch.autograd.Function):
    """Batch norm in training with its gradient by hand: ``BatchNormFunction.apply(x, weight, bias, eps)``.

    Saved for backward: ``x`` in its own dtype, ``weight``, and a float32 mean and 1/σ per channel; x̂ is recomputed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
    ) -> Tensor:
        contract.check_batch_norm(x, (None, None), (weight, bias), True, eps)
        return _forward(ctx, x, weight, bias, eps, _by_channel(x))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return *_backward(ctx, dy), None


class RMSNormFunction(torch.autograd.Function):
    """RMS norm with its gradient by hand: ``RMSNormFunction.apply(x, normalized_shape, weight, eps)``.

    Saved for backward: ``x`` in its own dtype, ``weight``, and a float32 1/rms per sample; x̂ is recomputed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        contract.check_rms_norm(x, normalized_shape, weight)
        _check_real(x)
        return _forward(ctx, x, weight, None, eps, _by_sample(x, normalized_shape, centred=False))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        dx, dweight, _ = _backward(ctx, dy)
        return dx, None, dweight, None


class _Dims(NamedTuple):
    """The dimensions to average or sum over, and whether the mean is subtracted."""

    statistics: tuple[int, ...]  # what shares a mean and a variance
    parameters: tuple[int, ...]  # what shares a weight and a bias
    shape: tuple[int, ...]  # in which weight and bias stand beside x
    centred: bool


def _by_sample(x: Tensor, normalized_shape: Sequence[int], centred: bool = True) -> _Dims:
    leading = tuple(range(x.dim() - len(normalized_shape)))
    return _Dims(trailing_dims(normalized_shape), leading, tuple(normalized_shape), centred)


def _by_channel(x: Tensor) -> _Dims:
    batch_and_positions = (0, *range(2, x.dim()))
    return _Dims(batch_and_positions, batch_and_positions, channel_shape(x), True)


def _forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float | None, dims: _Dims) -> Tensor:
    ctx.dims, ctx.eps, ctx.has_bias = dims, eps, bias is not None
    x_hat, mean, rstd = _standardized(upcast_half(x), eps, dims)
    ctx.save_for_backward(x, weight, mean, rstd)
    return affine(x_hat, weight, bias, dims.shape).to(x.dtype)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    x, weight, mean, rstd = ctx.saved_tensors
    if torch.is_grad_enabled():
        # This gradient will itself be differentiated: the saved statistics are numbers, it needs functions of x.
        dx, dweight, dbias = _gradients(dy, x, weight, ctx.eps, ctx.dims)
    else:
        z = upcast_half(x)
        centred = z if mean is None else centre(z, mean, ctx.dims.statistics)[0]
        dx, dweight, dbias = _formulas(dy, x, centred * rstd, rstd, weight, ctx.dims)
    return dx, None if weight is None else dweight, dbias if ctx.has_bias else None


def _gradients(
    dy: Tensor, x: Tensor, weight: Tensor | None, eps: float | None, dims: _Dims
) -> tuple[Tensor, Tensor, Tensor]:
    _check_real(x)
    if dy.shape != x.shape:
        raise ValueError(f"dy must have the shape of x: got {tuple(dy.shape)} beside {tuple(x.shape)}")
    x_hat, _, rstd = _standardized(upcast_half(x), eps, dims)
    return _formulas(dy, x, x_hat, rstd, weight, dims)


def _standardized(x: Tensor, eps: float | None, dims: _Dims) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return x̂, the mean where one was subtracted, and r."""
    if not dims.centred:
        rstd = inverse_rms(x, dims.statistics, eps)
        return x * rstd, None, rstd
    assert eps is not None, "only RMS norm has a default that depends on the dtype"
    centred, mean, variance = moments(x, dims.statistics)
    rstd = torch.rsqrt(variance + eps)
    return centred * rstd, mean, rstd


def _formulas(
    dy: Tensor, x: Tensor, x_hat: Tensor, rstd: Tensor, weight: Tensor | None, dims: _Dims
) -> tuple[Tensor, Tensor, Tensor]:
    """The formulas at the head of this module."""
    dy = dy.to(x_hat.dtype)
    g = affine(dy, weight, None, dims.shape)
    dx = g - x_hat * (g * x_hat).mean(dims.statistics, keepdim=True)
    if dims.centred:
        dx = dx - g.mean(dims.statistics, keepdim=True)
    dtype = x.dtype if weight is None else weight.dtype
    # sum(()) would sum over everything
    dweight, dbias = (p.sum(dims.parameters) if dims.parameters else p for p in (dy * x_hat, dy))
    return (rstd * dx).to(x.dtype), dweight.to(dtype), dbias.to(dtype)


def _check_real(x: Tensor) -> None:
    if x.is_complex():
        raise ValueError(f"x must be real: got {x.dtype}")
