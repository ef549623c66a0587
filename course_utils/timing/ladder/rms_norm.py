"""RMS norm, in every way the course knows."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils import kernels, norms
from course_utils.norms import backward
from course_utils.timing.ladder.layer_norm import norm_bytes, norm_in_loops, norm_inputs
from course_utils.timing.ladder.operation import (
    EPS,
    Implementation,
    Operation,
    few_elements,
    many_elements,
    on_gpu,
    triton,
)


def inputs(shape: Sequence[int], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """Return x of ``shape``, and a weight near 1, (shape[-1],)."""
    x, weight, _ = norm_inputs(shape, dtype, device, seed)
    return x, weight


def in_loops(x: Tensor, weight: Tensor) -> Tensor:
    """An element at a time."""
    return norm_in_loops(x, weight, torch.zeros_like(weight), centred=False)


def eager(x: Tensor, weight: Tensor) -> Tensor:
    """The course's own."""
    return norms.rms_norm(x, weight.shape, weight, EPS)


def with_own_backward(x: Tensor, weight: Tensor) -> Tensor:
    """The course's own, with the gradients by hand."""
    return backward.RMSNormFunction.apply(x, weight.shape, weight, EPS)


def built_in(x: Tensor, weight: Tensor) -> Tensor:
    """PyTorch's."""
    return F.rms_norm(x, weight.shape, weight, EPS)


def in_triton(x: Tensor, weight: Tensor) -> Tensor:
    """The kernel of chapter 10."""
    return kernels.rms_norm(x, weight.shape, weight, EPS)


def of_liger(x: Tensor, weight: Tensor) -> Tensor:
    """Liger's kernel, with Llama's casts, and not in place: its default writes dx over the gradient it was given."""
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    offset, casts, in_place = 0.0, "llama", False
    return LigerRMSNormFunction.apply(x, weight, EPS, offset, casts, in_place)


def of_quack(x: Tensor, weight: Tensor) -> Tensor:
    """Quack's kernel."""
    import quack

    return quack.rmsnorm(x, weight, eps=EPS)


RMS_NORM = Operation(
    name="rms_norm",
    differentiated=("x", "weight"),
    inputs=inputs,
    truth=built_in,
    bytes_moved=norm_bytes,
    rungs=(
        Implementation("loops", in_loops, few_elements),
        Implementation("autograd.Function", with_own_backward),
        Implementation("eager", eager),
        Implementation("compiled", eager, many_elements, compiled=True),
        Implementation("built-in", built_in, ours=False),
        Implementation("Triton", in_triton, triton),
        Implementation("peer: liger_kernel", of_liger, on_gpu, ours=False, library="liger_kernel"),
        Implementation("peer: quack", of_quack, on_gpu, ours=False, library="quack"),
    ),
)
