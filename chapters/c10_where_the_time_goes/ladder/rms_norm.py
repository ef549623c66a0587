"""RMS norm, in every way the course knows."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from chapters.c10_where_the_time_goes.ladder.layer_norm import (
    norm_bytes,
    norm_in_loops,
    norm_inputs,
    of_rows,
)
from chapters.c10_where_the_time_goes.ladder.operation import EPS, Implementation, Operation
from course_utils import kernels, norms
from course_utils.norms import backward


def inputs(
    shape: Sequence[int], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor]:
    """Return x of ``shape``, and a weight near 1, (shape[-1],)."""
    x, weight, _ = norm_inputs(shape, dtype, device, seed)
    return x, weight


def in_loops(x: Tensor, weight: Tensor) -> Tensor:
    """An element at a time."""
    return norm_in_loops(x, weight, torch.zeros_like(weight), centred=False)


def of_liger(x: Tensor, weight: Tensor) -> Tensor:
    """Liger's kernel, with Llama's casts, and not in place: its default writes dx over the gradient
    it was given."""
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
    truth=of_rows(F.rms_norm),
    bytes_moved=norm_bytes,
    by_rows=True,
    rungs=(
        Implementation("loops", in_loops, "few elements"),
        Implementation("autograd.Function", of_rows(backward.rms_norm)),
        Implementation("eager", of_rows(norms.rms_norm)),
        Implementation("compiled", of_rows(norms.rms_norm), "many elements", compiled=True),
        Implementation("built-in", of_rows(F.rms_norm), ours=False),
        Implementation("Triton", of_rows(kernels.rms_norm), "Triton"),
        Implementation("peer: liger_kernel", of_liger, "GPU", ours=False, library="liger_kernel"),
        Implementation("peer: quack", of_quack, "GPU", ours=False, library="quack"),
    ),
)
