"""What all norms share (chapters 02, 03 and 06): x̂, a weight and a bias on it, and three
decisions.

*Precision.* Half-precision inputs are computed in float32 and rounded once, at the end; weight and
bias are used in float32 too, so that autograd sums their gradients over the rows in float32. Other
inputs keep their dtype.

*Variance* is the mean of the squared deviations. E[x²]−E[x]² subtracts two nearly equal numbers and
loses every digit once the mean is large; `torch.var_mean` over the last dimension takes many times
as long on a CPU.

*Centring happens twice.* The mean itself is rounded: near 10 000 a float32 cannot be closer than
0.0005, and every deviation of the set inherits that error. What the first subtraction leaves behind
is small and exact, so its own mean is that error, now measured to full precision, and is subtracted
as well.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def standardize(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return x̂ = (x − μ) / √(σ² + ε), with μ and σ² shared over ``dims``."""
    centred, _, variance = moments(x, dims)
    return centred * torch.rsqrt(variance + eps)


def moments(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return x − μ, μ and the biased σ² over ``dims``, kept as dimensions of size one."""
    mean = x.mean(dims, keepdim=True)
    centred, residue = centre(x, mean, dims)
    variance = centred.square().mean(dims, keepdim=True)
    return centred, mean + residue, variance


def centre(x: Tensor, mean: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return x − μ, centred twice over ``dims``, and the rounding error of ``mean`` that the second
    time removed."""
    centred = x - mean
    # zero in exact arithmetic, so it has no gradient
    residue = centred.detach().mean(dims, keepdim=True)
    centred -= residue
    return centred, residue


def inverse_rms(x: Tensor, dims: tuple[int, ...], eps: float | None) -> Tensor:
    """Return 1 / √(mean of x² + ε) over ``dims``, kept; an ε of ``None`` is the machine epsilon of
    the dtype of x."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return torch.rsqrt(x.square().mean(dims, keepdim=True) + eps)


def affine(
    x_hat: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]
) -> Tensor:
    """Return γ·x̂ + β in the dtype of x̂, with γ and β viewed as ``shape``; a missing γ is one, a
    missing β zero."""
    weight = None if weight is None else weight.to(x_hat.dtype).reshape(shape)
    bias = None if bias is None else bias.to(x_hat.dtype).reshape(shape)
    if weight is not None and bias is not None:
        return torch.addcmul(bias, x_hat, weight)  # one pass over memory where `*` and `+` take two
    if weight is not None:
        return x_hat * weight
    return x_hat if bias is None else x_hat + bias


def trailing_dims(normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that ``normalized_shape`` names, counted from the end."""
    return tuple(range(-len(normalized_shape), 0))


def channel_shape(x: Tensor) -> tuple[int, ...]:
    """Return the shape in which C values stand beside ``x`` (N, C, *): (C, 1...), C left to be
    inferred."""
    return (-1, *[1] * (x.dim() - 2))


def upcast_half(x: Tensor) -> Tensor:
    """Return ``x`` in float32 where it is half precision, unchanged otherwise."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def result_dtype(x: Tensor) -> torch.dtype:
    """Return the result's dtype: that of ``x``, but float32 where CUDA's autocast keeps this norm
    in float32."""
    if x.is_cuda and x.is_floating_point() and torch.is_autocast_enabled("cuda"):
        return upcast_half(x).dtype
    return x.dtype


def match_memory_format(x: Tensor, y: Tensor) -> Tensor:
    """Return ``y`` channels-last in memory where ``x`` is, contiguous otherwise; ``y`` already has
    the strides of x."""
    if x.dim() in (4, 5):
        channels_last_order = (0, *range(2, x.dim()), 1)
        strides = [x.stride(dim) for dim in channels_last_order]
        if strides == sorted(strides, reverse=True):
            return y
    return y.contiguous()
