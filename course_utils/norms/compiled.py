"""Layer norm and RMS norm written so that PyTorch's compiler makes fast CPU code of them (chapter 09).

Compiled as it stands, the from-scratch forward pass is one loop over the rows: each is read from memory once and stays
in cache for its mean, its variance and its output. What it takes to come level with the built-in:

- Forward, mean and variance are summed in one go, as E[d²] − E[d]² of the deviations d from the mean of the row's first
  16 features. A sum waits for its last addition, two sums wait together. Taken of x itself this formula cancels; taken
  of d it does not, since d is small wherever the row lies: its error is at most features / 16 times that of two passes,
  and at an offset of 10,000 it is thousands of times closer than the built-in, whose mean is itself rounded.
- The compiler inlines what is computed from a row's sums, such as the reciprocal root, into the loops that use it, and
  takes the root again for every 16 elements. What is itself a result of a reduction it computes once and keeps, so the
  root is passed through one that leaves it as it is (``_kept``); the backward pass is then handed it for nothing.
- The gradient of the weight sums over the *rows*. Compiled, that loop walks down a column of the matrix, a cache line
  of each of thousands of rows. Here blocks of 8 neighbouring rows are summed first, then 16 of those, then the rest.
- Nothing as large as ``x`` is saved or made but ``x`` itself, the output and dx.
- ``torch.compile`` makes sure before every call that what it compiled still applies, which takes about a fifth of
  the time of the built-in's whole forward pass of (4096, 1024). Here the layouts of the arguments are looked up and
  nothing else: what the functions of this module read besides does not change. Python itself counts: between other
  work every attribute that is asked for takes one to two µs, so shapes are checked and flattened when compiling.

What is left: which of this and the built-in is ahead forward is decided by where the output comes to lie (a load waits
for an earlier store whose address ends in the same 12 bits), and the backward pass reads ``x`` and ``dy`` twice, since
the compiler does not fuse a sum along the rows with a sum across them.
"""

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_utils.norms.contract import check_layer_norm, check_rms_norm

__all__ = ["layer_norm", "rms_norm"]

BLOCKS = (8, 16)
SHIFT_FEATURES = 16


def layer_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return layer norm of ``x`` (*, *normalized_shape), floating, compiled; differentiable once.

    Statistics are float32 for half precisions. Shapes that do not fit raise what PyTorch raises.

    Source: Ba, Kiros and Hinton 2016, eq. 4.
    """
    return _norm((x, weight, bias), normalized_shape, eps)


def rms_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return RMS norm of ``x`` (*, *normalized_shape), floating, compiled; differentiable once.

    ``eps`` is Llama's 1e-6 by default, where ``F.rms_norm`` takes float32's machine epsilon.

    Source: Zhang and Sennrich 2019, eq. 4.
    """
    return _norm((x, weight), normalized_shape, eps)


def _norm(tensors: tuple[Tensor, ...], normalized_shape: Sequence[int], eps: float) -> Tensor:
    """Both norms: of x, weight and bias layer norm, of x and weight RMS norm."""
    settings = (tuple(normalized_shape), eps)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Norm.apply(settings, *tensors)
    return _compiled(_forward, tensors, *settings)[0]  # autograd has nothing to do here: save its time


class _Norm(torch.autograd.Function):
    """``_norm`` for autograd."""

    @staticmethod
    def forward(ctx: Any, settings: tuple[Any, ...], x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        y, *statistics = _compiled(_forward, (x, weight, *bias), *settings)
        ctx.save_for_backward(x, weight, *statistics)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_compiled(_backward, (dy.contiguous(), *ctx.saved_tensors))


_graphs: dict[Hashable, Callable[[list[Tensor]], tuple[Tensor, ...]]] = {}


def _compiled(
    fn: Callable[..., tuple[Tensor, ...]], tensors: Sequence[Tensor], *settings: Hashable
) -> tuple[Tensor, ...]:
    """Return ``fn(tensors, *settings)``, compiled on first use for exactly these sizes, strides, dtypes and devices."""
    if any(type(t) not in (Tensor, torch.nn.Parameter) for t in tensors):
        return fn(tensors, *settings)  # a tensor of a tracer has no memory, which the generated code would read
    key = (fn, settings, *[(t.shape, t.stride(), t.dtype, t.device) for t in tensors])
    graph = _graphs.get(key)
    if graph is None:
        graph = _graphs[key] = _compile(fn, tensors, *settings)
    return graph([*tensors])


def _compile(
    fn: Callable[..., tuple[Tensor, ...]], tensors: Sequence[Tensor], *settings: Hashable
) -> Callable[[list[Tensor]], tuple[Tensor, ...]]:
    """Trace ``fn`` for these settings and compile the trace, to a function that takes the tensors as a list."""
    from torch.fx.experimental.proxy_tensor import make_fx  # importing this module must not import the compiler

    with torch.no_grad():
        trace = make_fx(lambda *tensors: fn(tensors, *settings))(*tensors)
        graph = torch._inductor.compile(trace, [*tensors])
    if all(tensor.is_cpu for tensor in tensors):
        # The generated function itself. Those around it look for outputs that are inputs, align the inputs of a GPU and
        # mark the call in a profile: nothing that these graphs need on a CPU, for 4 µs of every call.
        return inspect.unwrap(graph).current_callable
    return lambda inputs: graph(*inputs)


def _forward(tensors: Sequence[Tensor], normalized_shape: tuple[int, ...], eps: float) -> tuple[Tensor, ...]:
    """Return y and of each row 1 / √(σ² + ε) and, with a bias, the shift and the mean of x - shift."""
    x, weight, *bias = tensors
    if bias:
        check_layer_norm(x, normalized_shape, weight, *bias)
    else:
        check_rms_norm(x, normalized_shape, weight)
    z = x.reshape(-1, weight.numel())  # (rows, features)
    z = z.to(torch.promote_types(x.dtype, torch.float32))
    gamma, *beta = (parameter.reshape(-1).to(z.dtype) for parameter in (weight, *bias))
    if not beta:
        rstd = _kept(torch.rsqrt(_mean(z.square()) + eps), z)  # (rows, 1), like all numbers of a row
        return (z * rstd * gamma).to(x.dtype).view(x.shape), rstd
    shift = _mean(z[:, :SHIFT_FEATURES])
    deviation = z - shift
    mean, mean_square = _mean(deviation), _mean(deviation.square())
    rstd = _kept(torch.rsqrt(mean_square - mean.square() + eps), z)
    y = torch.addcmul(beta[0], (deviation - mean) * rstd, gamma)
    return y.to(x.dtype).view(x.shape), rstd, shift, mean


def _backward(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return dx, dweight and, where the forward pass had a bias and so a shift and a mean, dbias."""
    dy, x, weight, rstd, *shift_and_mean = tensors
    rows = (-1, weight.numel())
    z, upstream = x.reshape(rows).to(rstd.dtype), dy.view(rows).to(rstd.dtype)
    for subtracted in shift_and_mean:
        z = z - subtracted
    x_hat = z * rstd
    dx_hat = upstream * weight.reshape(-1)
    dx = dx_hat - x_hat * _mean(dx_hat * x_hat)
    gradients = [_sum_rows(upstream * x_hat)]
    if shift_and_mean:
        dx = dx - _mean(dx_hat)
        gradients.append(_sum_rows(upstream))
    return (dx * rstd).to(x.dtype).view(x.shape), *(g.to(weight.dtype).view(weight.shape) for g in gradients)


def _kept(rstd: Tensor, z: Tensor) -> Tensor:
    """Return ``rstd``, (rows, 1), as the largest of itself and some numbers below it: a reduction, which is kept."""
    return torch.maximum(rstd, -z[:, :SHIFT_FEATURES].abs()).amax(-1, keepdim=True)


def _mean(z: Tensor) -> Tensor:
    """Average over the features, divided before the sum."""
    return (z * (1 / z.shape[-1])).sum(-1, keepdim=True)  # (rows, 1)


def _sum_rows(z: Tensor) -> Tensor:
    """Sum (rows, features) over the rows, in blocks where their number allows."""
    for block in BLOCKS:
        z = z.view(-1, math.gcd(z.shape[0], block), z.shape[-1]).sum(1)
    return z.sum(0)
