"""The gradients of layer, batch and RMS norm by hand: functions, and a `torch.autograd.Function`
(chapter 05).

With r = 1/√(σ² + ε), x̂ = (x − μ)·r and g = dy·γ, and with every mean over the set that shares μ
and σ²:

    layer and batch norm    dx = r·(g − mean(g) − x̂·mean(g·x̂))    dγ = Σ dy·x̂    dβ = Σ dy
    RMS norm, x̂ = x·r       dx = r·(g − x̂·mean(g·x̂))              dγ = Σ dy·x̂

The sums for γ and β run over everything that shares the parameter. Half-precision gradients are
computed and summed in float32 and rounded once. The form in x̂ keeps its accuracy far from zero,
where the one in raw moments of x loses it.

`NormFunction` serves ``backward()``, ``torch.autograd.grad`` and the transforms of ``torch.func``.
Those see only what goes in and comes out, so the statistics that backward needs are results too:
``layer_norm``, ``batch_norm`` and ``rms_norm`` call ``apply`` and return the first of them.

Source: Ba et al. 2016, eq. 3, and Ioffe, Szegedy 2015, section 3, differentiated.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.norms import builtin_errors
from course_utils.norms.core import (
    affine,
    centre,
    channel_shape,
    inverse_rms,
    moments,
    trailing_dims,
    upcast_half,
)

__all__ = [
    "NormFunction",
    "batch_norm",
    "batch_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]


def layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients dx, dweight and dbias of `norms.layer_norm`, given that of its result.

    ``dy`` and ``x`` are (*, *normalized_shape), weight and its gradients ``normalized_shape``. dx
    has the dtype of ``x``; dweight and dbias have that of ``weight``, or of ``x`` where there is no
    weight.

    Raises ValueError where ``dy`` has not the shape of ``x``, and what `norms.layer_norm` raises.
    """
    builtin_errors.check_layer_norm(x, normalized_shape, weight, None)
    return _gradients(dy, x, weight, eps, _by_sample(x, normalized_shape))


def batch_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients dx, dweight and dbias of `norms.batch_norm` in training, given that of
    its result.

    ``dy`` and ``x`` are (N, C, *), weight and its gradients (C,); dtypes and errors as in
    `layer_norm_backward`.
    """
    builtin_errors.check_batch_norm(x, (None, None), (weight, None), True, eps)
    return _gradients(dy, x, weight, eps, _by_channel(x))


def rms_norm_backward(
    dy: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients dx and dweight of `norms.rms_norm`, given that of its result.

    Shapes, dtypes and errors as in `layer_norm_backward`; ``x`` must be real. An ``eps`` of None is
    the machine epsilon of the dtype computed in.

    Source: Zhang, Sennrich 2019, section 4.
    """
    builtin_errors.check_rms_norm(x, normalized_shape, weight)
    dx, dweight, _ = _gradients(dy, x, weight, eps, _by_sample(x, normalized_shape, centred=False))
    return dx, dweight


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`norms.layer_norm` with its gradient by hand. Chapter 05."""
    builtin_errors.check_layer_norm(input, normalized_shape, weight, bias)
    return NormFunction.apply(input, weight, bias, eps, _by_sample(input, normalized_shape))[0]


def batch_norm(
    input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """`norms.batch_norm` in training, without running statistics, with its gradient by hand.
    Chapter 05."""
    builtin_errors.check_batch_norm(input, (None, None), (weight, bias), True, eps)
    return NormFunction.apply(input, weight, bias, eps, _by_channel(input))[0]


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """`norms.rms_norm` of a real input with its gradient by hand. Chapter 05."""
    builtin_errors.check_rms_norm(input, normalized_shape, weight)
    _check_real(input)
    return NormFunction.apply(
        input, weight, None, eps, _by_sample(input, normalized_shape, centred=False)
    )[0]


class NormFunction(torch.autograd.Function):
    """The three norms with their gradient by hand: ``apply`` returns y, the mean where one is
    subtracted, and r.

    Saved for backward: the input in its own dtype, ``weight``, and a float32 mean and r of each
    sample or channel. x̂ is recomputed from them; plain autograd would save it, the deviations and,
    in half precision, a float32 copy of the input besides.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float | None, dims: "_Dims"
    ) -> tuple[Tensor, ...]:
        x_hat, *statistics = _standardized(upcast_half(input), eps, dims)
        return affine(x_hat, weight, bias, dims.shape).to(input.dtype), *statistics

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        input, weight, bias, ctx.eps, ctx.dims = inputs
        _, *statistics = output
        ctx.mark_non_differentiable(*statistics)
        ctx.save_for_backward(input, weight, *statistics)
        ctx.has_bias = bias is not None

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_statistics: Any) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight, *statistics = ctx.saved_tensors
        if torch.is_grad_enabled():
            # This gradient will itself be differentiated: the saved statistics are numbers, it
            # needs functions of x.
            dx, dweight, dbias = _gradients(dy, x, weight, ctx.eps, ctx.dims)
        else:
            *mean, rstd = statistics
            z = upcast_half(x)
            centred = centre(z, mean[0], ctx.dims.statistics)[0] if mean else z
            dx, dweight, dbias = _formulas(dy, x, centred * rstd, rstd, weight, ctx.dims)
        return dx, None if weight is None else dweight, dbias if ctx.has_bias else None, None, None


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


def _gradients(
    dy: Tensor, x: Tensor, weight: Tensor | None, eps: float | None, dims: _Dims
) -> tuple[Tensor, Tensor, Tensor]:
    _check_real(x)
    if dy.shape != x.shape:
        raise ValueError(
            f"dy must have the shape of x: got {tuple(dy.shape)} beside {tuple(x.shape)}"
        )
    x_hat, *_, rstd = _standardized(upcast_half(x), eps, dims)
    return _formulas(dy, x, x_hat, rstd, weight, dims)


def _standardized(x: Tensor, eps: float | None, dims: _Dims) -> tuple[Tensor, ...]:
    """Return x̂, the mean where one was subtracted, and r."""
    if not dims.centred:
        rstd = inverse_rms(x, dims.statistics, eps)
        return x * rstd, rstd
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
    dweight = (dy * x_hat).sum(dims.parameters) if dims.parameters else dy * x_hat
    dbias = dy.sum(dims.parameters) if dims.parameters else dy
    return (rstd * dx).to(x.dtype), dweight.to(dtype), dbias.to(dtype)


def _check_real(x: Tensor) -> None:
    if x.is_complex():
        raise ValueError(f"x must be real: got {x.dtype}")
