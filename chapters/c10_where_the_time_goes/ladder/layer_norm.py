"""Layer norm, and what the norms of the ladder share: their inputs, the loops, one pass, the
bytes."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from chapters.c10_where_the_time_goes.ladder.operation import (
    EPS,
    Function,
    Implementation,
    Inputs,
    Operation,
)
from course_utils import kernels, norms
from course_utils.norms import backward
from course_utils.session import generator


def norm_inputs(
    shape: Sequence[int], dtype: torch.dtype, device: str, seed: int, channel_dim: int = -1
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x of ``shape``, and a weight near 1 and a bias near 0 that are neither,
    (shape[channel_dim],)."""
    draw = partial(torch.randn, generator=generator(seed, device), device=device)
    x = draw(tuple(shape))
    weight = 1 + draw(shape[channel_dim]) / 4
    bias = draw(shape[channel_dim]) / 4
    return x.to(dtype), weight.to(dtype), bias.to(dtype)


def norm_bytes(inputs: Inputs, with_backward: bool) -> int:
    """Return the fewest bytes for x and one or two parameters, the weight first."""
    x, weight, *_ = inputs
    parameters = sum(parameter.nbytes for parameter in inputs[1:])
    forward = 2 * x.nbytes + parameters  # x and the parameters read, y written
    if not with_backward:
        return forward
    # dy, x and the weight read, dx and the gradients of the parameters written
    return forward + 3 * x.nbytes + weight.nbytes + parameters


def norm_in_loops(x: Tensor, weight: Tensor, bias: Tensor, centred: bool = True) -> Tensor:
    """Normalize each row of x (rows, features) an element at a time, each sum and product one for
    autograd to follow.

    Weight and bias are broadcast to x.
    """
    results = []
    for row, weights, biases in zip(x, weight.expand_as(x), bias.expand_as(x), strict=True):
        zero = row.new_zeros(())
        mean = sum(row, start=zero) / len(row) if centred else zero
        variance = sum(((value - mean) ** 2 for value in row), start=zero) / len(row)
        rstd = 1 / torch.sqrt(variance + EPS)
        x_hat = [(value - mean) * rstd for value in row]
        results.append(
            torch.stack([value * w + b for value, w, b in zip(x_hat, weights, biases, strict=True)])
        )
    return torch.stack(results)


def norm_in_one_pass(
    x: Tensor, weight: Tensor, bias: Tensor, dims: tuple[int, ...] = (-1,)
) -> Tensor:
    """The mean and the mean square in one go: E[x²] − E[x]², in float32, fast and exact only near
    zero."""
    z = _in_float32(x)
    mean = z.mean(dims, keepdim=True)
    variance = z.square().mean(dims, keepdim=True) - mean.square()
    return ((z - mean) * torch.rsqrt(variance + EPS) * weight + bias).to(x.dtype)


def _in_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def in_two_passes(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean first, then the mean square of what it leaves, in float32.

    Every operator passes over memory, so the fewest are fastest.
    """
    z, weight, bias = _in_float32(x), _in_float32(weight), _in_float32(bias)
    centred = z - z.mean(-1, keepdim=True)
    variance = torch.linalg.vector_norm(centred, dim=-1, keepdim=True).square() / x.shape[-1]
    rstd = torch.rsqrt(variance + EPS)
    if torch.is_grad_enabled():
        return torch.addcmul(bias, centred * rstd, weight).to(x.dtype)
    # Nobody will ask for the intermediates: writing over them, no other memory is fetched to be
    # written to.
    return torch.addcmul(bias, centred.mul_(rstd), weight, out=centred).to(x.dtype)


def formula(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same as the plain formula, which is fastest when it is compiled."""
    z, weight, bias = _in_float32(x), _in_float32(weight), _in_float32(bias)
    centred = z - z.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return torch.addcmul(bias, centred * torch.rsqrt(variance + EPS), weight).to(x.dtype)


def of_rows(function: Function) -> Function:
    """Return a layer norm or an RMS norm with PyTorch's arguments as a function of x and the
    parameters."""

    def norm(x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        return function(x, weight.shape, weight, *bias, EPS)

    return norm


def of_liger(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Liger's kernel."""
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return LigerLayerNormFunction.apply(x, weight, bias, EPS)


LAYER_NORM = Operation(
    name="layer_norm",
    differentiated=("x", "weight", "bias"),
    inputs=norm_inputs,
    truth=of_rows(F.layer_norm),
    bytes_moved=norm_bytes,
    by_rows=True,
    rungs=(
        Implementation("loops", norm_in_loops, "few elements"),
        Implementation("eager, one pass", norm_in_one_pass),
        Implementation("autograd.Function", of_rows(backward.layer_norm)),
        Implementation("eager, centred twice", of_rows(norms.layer_norm)),
        Implementation("eager, two passes", in_two_passes),
        Implementation("compiled", formula, "many elements", compiled=True),
        Implementation("built-in", of_rows(F.layer_norm), ours=False),
        Implementation("Triton", of_rows(kernels.layer_norm), "Triton"),
        Implementation("peer: liger_kernel", of_liger, "GPU", ours=False, library="liger_kernel"),
    ),
)
