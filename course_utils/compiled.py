"""Layer norm and RMS norm written so that PyTorch's compiler makes fast CPU code of them, forward and backward.

Compiled as it stands, the from-scratch forward pass is one loop over the rows: each is read from memory once and stays
in cache for its mean, its variance and its output. What it takes to come level with the built-in:

- Forward, mean and variance are summed in one go, as E[d²] − E[d]² of the deviations d from the mean of the row's first
  16 features. A sum waits for its last addition, two sums wait together. Taken of x itself this formula cancels; taken
  of d it does not, since d is small wherever the row lies: its error is at most features / 16 times that of two passes,
  and at an offset of 10,000 it is thousands of times closer than the built-in, whose mean is itself rounded.
- The compiler inlines what is computed from a row's sums, such as the reciprocal root, into the loops that use it, and
  divides again for every few elements. Here the forward pass hands out the sums, already divided, and the root for the
  backward pass is taken outside.
- The gradient of the weight sums over the *rows*. Compiled, that loop walks down a column of the matrix, a cache line
  of each of thousands of rows. Here blocks of 8 neighbouring rows are summed first, then 16 of those, then the rest.
- Nothing as large as ``x`` is saved or made but ``x`` itself, the output and dx.
- ``torch.compile`` makes sure before every call that what it compiled still applies, which takes about a fifth of
  the time of the built-in's whole forward pass of (4096, 1024). Here the shapes of the arguments are looked up and
  nothing else: what the functions of this module read besides does not change.

What still stands between: the compiler keeps a row's statistics in memory and so reads them, and takes the root, again
for every 16 elements of the output; and it does not fuse a sum along the rows with a sum across them, so the backward
pass reads ``x`` and ``dy`` twice, once for dx and once for dweight and dbias.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["layer_norm", "rms_norm"]

BLOCKS = (8, 16)
SHIFT_FEATURES = 16


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
) -> Tensor:
    """Return layer norm of ``x``, compiled, with the backward pass of this module.

    Args:
        x: (*, *normalized_shape), floating; statistics are float32 for half precisions.
        normalized_shape: the trailing sizes to normalize over.
        weight: normalized_shape.
        bias: normalized_shape.
        eps: added to the variance.

    Returns:
        Shape and dtype of ``x``; differentiable once.

    Source: Ba, Kiros and Hinton 2016, eq. 4.
    """
    return _norm(x, math.prod(normalized_shape), weight, bias, eps)


def rms_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return RMS norm of ``x``, compiled, with the backward pass of this module.

    Args:
        x: (*, *normalized_shape), floating; the mean square is float32 for half precisions.
        normalized_shape: the trailing sizes to normalize over.
        weight: normalized_shape.
        eps: added to the mean square.

    Returns:
        Shape and dtype of ``x``; differentiable once.

    Source: Zhang and Sennrich 2019, eq. 4.
    """
    return _norm(x, math.prod(normalized_shape), weight, None, eps)


def _norm(x: Tensor, features: int, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Both norms; layer norm has a bias, RMS norm has none."""
    if x.dim() != 2 or x.shape[1] != features or weight.dim() != 1:  # a view costs time, too, in either direction
        weight, bias = weight.reshape(features), None if bias is None else bias.reshape(features)
        return _norm(x.reshape(-1, features), features, weight, bias, eps).view(x.shape)
    inputs = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        return _Norm.apply(x, weight, bias, eps)
    return _compiled(_forward, x, weight, bias, eps)[0]  # autograd has nothing to do here: save its time


class _Norm(torch.autograd.Function):
    """``_norm`` of (rows, features) for autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        y, shift, mean, mean_square = _compiled(_forward, x, weight, bias, eps)
        if any(ctx.needs_input_grad):
            variance = mean_square if mean is None else mean_square - mean.square()
            ctx.save_for_backward(x, weight, shift, mean, torch.rsqrt(variance + eps))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        dx, dweight, dbias = _compiled(_backward, dy.contiguous(), *ctx.saved_tensors)
        return dx, dweight, dbias, None


_graphs: dict[Hashable, Callable[..., Sequence[Any]]] = {}


def _compiled(fn: Callable[..., tuple[Any, ...]], *args: Any) -> tuple[Any, ...]:
    """Return ``fn(*args)``, compiled on first use for tensors of exactly these sizes, strides, dtypes and devices."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    key = (fn, *((a.shape, a.stride(), a.dtype, a.device) if isinstance(a, Tensor) else a for a in args))
    graph = _graphs.get(key)
    if graph is None:
        graph = _graphs[key] = _compile(fn, args, tensors)
    return tuple(graph(*tensors))


def _compile(fn: Callable[..., tuple[Any, ...]], args: Sequence[Any], tensors: list[Tensor]) -> Callable[..., Any]:
    """Trace ``fn`` with everything but the tensors fixed, and compile the trace."""
    from torch.fx.experimental.proxy_tensor import make_fx  # importing this module must not import the compiler

    def of_tensors(*tensors: Tensor) -> tuple[Any, ...]:
        remaining = iter(tensors)
        return fn(*(next(remaining) if isinstance(arg, Tensor) else arg for arg in args))

    with torch.no_grad():
        return torch._inductor.compile(make_fx(of_tensors)(*tensors), [*tensors])


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
    """Return y, and of each row (rows, 1) the shift, and the mean and the mean square of x - shift."""
    z = x.to(torch.promote_types(x.dtype, torch.float32))
    shift = None if bias is None else _mean(z[:, :SHIFT_FEATURES])
    deviation = z if shift is None else z - shift
    mean = None if bias is None else _mean(deviation)
    mean_square = _mean(deviation.square())
    if mean is None:
        x_hat = deviation * torch.rsqrt(mean_square + eps)
    else:
        x_hat = (deviation - mean) * torch.rsqrt(mean_square - mean.square() + eps)
    y = x_hat * weight if bias is None else torch.addcmul(bias.to(z.dtype), x_hat, weight.to(z.dtype))
    return y.to(x.dtype), shift, mean, mean_square


def _backward(
    dy: Tensor, x: Tensor, weight: Tensor, shift: Tensor | None, mean: Tensor | None, rstd: Tensor
) -> tuple[Tensor | None, ...]:
    """Return dx, dweight and dbias; without a mean, those of RMS norm, which has no bias."""
    z, dy = x.to(rstd.dtype), dy.to(rstd.dtype)
    x_hat = (z if shift is None or mean is None else (z - shift) - mean) * rstd
    dx_hat = dy * weight
    dx = dx_hat - x_hat * _mean(dx_hat * x_hat)
    dbias = None
    if mean is not None:
        dx = dx - _mean(dx_hat)
        dbias = _sum_rows(dy).to(weight.dtype)
    return (dx * rstd).to(x.dtype), _sum_rows(dy * x_hat).to(weight.dtype), dbias


def _mean(z: Tensor) -> Tensor:
    """Average over the features, divided before the sum."""
    return (z * (1 / z.shape[-1])).sum(-1, keepdim=True)  # (rows, 1)


def _sum_rows(z: Tensor) -> Tensor:
    """Sum (rows, features) over the rows, in blocks where their number allows."""
    for block in BLOCKS:
        z = z.view(-1, math.gcd(z.shape[0], block), z.shape[-1]).sum(1)
    return z.sum(0)
