"""What stands around the kernels of ``norm_kernels``: views, buffers, launches, autograd; no
arithmetic.

Chapter 11.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from course_utils.kernels import norm_kernels
from course_utils.kernels.tiling import (
    backward_tiling,
    column_sums_tiling,
    forward_tiling,
    multiprocessors,
)

__all__ = ["RowNorm", "launch_backward", "launch_forward"]


def _as_rows(x: Tensor, num_columns: int) -> Tensor:
    """Return ``x`` as (rows, num_columns), columns side by side: a view where the strides allow it,
    else a copy."""
    rows = x.reshape(-1, num_columns)
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _sum_type(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    """Return the type of statistics and sums for inputs of ``dtype``, in PyTorch's and in Triton's
    name."""
    return (torch.float64, tl.float64) if dtype == torch.float64 else (torch.float32, tl.float32)


def launch_forward(
    rows: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor | None, Tensor]:
    """Write the norm of ``rows`` (M, N) to ``y``; return mean (M,), None for RMS norm, and rstd
    (M,) for backward."""
    num_rows, num_columns = rows.shape
    sum_type, sum_type_in_triton = _sum_type(rows.dtype)
    mean = torch.empty(num_rows, dtype=sum_type, device=rows.device) if centred else None
    rstd = torch.empty(num_rows, dtype=sum_type, device=rows.device)
    tiling = forward_tiling(num_columns)
    with torch.cuda.device_of(rows):
        norm_kernels.forward[(triton.cdiv(num_rows, tiling.rows),)](
            rows, y, weight, bias, mean, rstd, num_rows, rows.stride(0), num_columns,
            EPS=eps, CENTRED=centred, DTYPE=sum_type_in_triton,
            ROWS=tiling.rows, BLOCK=tiling.block, num_warps=tiling.warps,
        )  # fmt: skip
    return mean, rstd


def launch_backward(
    dy: Tensor,
    rows: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    dx: Tensor,
    dweight: Tensor | None,
    dbias: Tensor | None,
) -> None:
    """Write the gradients to ``dx`` (M, N), ``dweight`` (N,) and ``dbias`` (N,); None where no
    gradient is wanted."""
    num_rows, num_columns = rows.shape
    sum_type, sum_type_in_triton = _sum_type(rows.dtype)
    tiling = backward_tiling(num_columns)
    programs = tiling.programs(num_rows, multiprocessors(rows.device))
    dweight_sums, dbias_sums = (
        None
        if gradient is None
        else torch.empty((programs, num_columns), dtype=sum_type, device=rows.device)
        for gradient in (dweight, dbias)
    )
    with torch.cuda.device_of(rows):
        norm_kernels.backward[(programs,)](
            dy, rows, weight, mean, rstd, dx, dweight_sums, dbias_sums,
            num_rows, dy.stride(0), rows.stride(0), num_columns,
            CENTRED=mean is not None, DTYPE=sum_type_in_triton, ROWS=tiling.rows,
            BLOCK=tiling.block, RELOAD=tiling.reload, STAGES=tiling.stages, num_warps=tiling.warps,
        )  # fmt: skip
        if dweight is not None or dbias is not None:
            sums = column_sums_tiling(programs)
            norm_kernels.column_sums[(triton.cdiv(num_columns, sums.block), 2)](
                dweight_sums, dbias_sums, dweight, dbias, programs, num_columns,
                DTYPE=sum_type_in_triton, ROWS=sums.rows, BLOCK=sums.block, num_warps=sums.warps,
            )  # fmt: skip


class RowNorm(torch.autograd.Function):
    """Layer norm (``centred``) and RMS norm of the rows of a matrix: y, the mean of layer norm, and
    rstd.

    Differentiable once. ``torch.vmap`` calls the kernel anew for each member of the batch.
    """

    @staticmethod
    def forward(x, weight, bias, num_columns, eps, centred):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.numel() == 0:
            return (y, x.new_empty(0), x.new_empty(0)) if centred else (y, x.new_empty(0))
        mean, rstd = launch_forward(
            _as_rows(x, num_columns), y, _packed(weight), _packed(bias), eps, centred
        )
        return (y, mean, rstd) if centred else (y, rstd)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, ctx.num_columns, _, _ = inputs
        _, *statistics = output
        ctx.mark_non_differentiable(*statistics)
        # bias is not read again, but its gradient takes its shape and type
        ctx.save_for_backward(x, weight, bias, *statistics)

    @staticmethod
    def backward(ctx, dy, *_):
        _, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        gradients = _RowNormBackward.apply(
            dy, ctx.num_columns, wants_weight, wants_bias, *ctx.saved_tensors
        )
        return *gradients, None, None, None

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _one_by_one(RowNorm, info.batch_size, in_dims, arguments)


class _RowNormBackward(torch.autograd.Function):
    """The gradients of ``RowNorm``; a function of its own, since ``torch.func`` hands backward no
    memory to read."""

    @staticmethod
    def forward(dy, num_columns, wants_weight, wants_bias, x, weight, bias, *statistics):
        *mean, rstd = statistics
        dx = torch.empty(dy.shape, dtype=x.dtype, device=dy.device)
        new_sum = torch.zeros_like if dy.numel() == 0 else torch.empty_like
        dweight = new_sum(weight, memory_format=torch.contiguous_format) if wants_weight else None
        dbias = new_sum(bias, memory_format=torch.contiguous_format) if wants_bias else None
        if dy.numel() > 0:
            rows, dy_rows = _as_rows(x, num_columns), _as_rows(dy, num_columns)
            launch_backward(
                dy_rows, rows, _packed(weight), mean[0] if mean else None, rstd, dx, dweight, dbias
            )
        return dx, dweight, dbias

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "kernels are differentiable once: norms.layer_norm and norms.rms_norm are so twice"
        )

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _one_by_one(_RowNormBackward, info.batch_size, in_dims, arguments)


def _packed(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.contiguous()


def _one_by_one(function: Any, size: int, in_dims: tuple, arguments: tuple) -> tuple[tuple, tuple]:
    """Apply ``function`` to each member of a batch: what it returns, stacked, and the dimensions of
    the batch."""
    results = []
    for member in range(size):
        pairs = zip(arguments, in_dims, strict=True)
        results.append(
            function.apply(*(a if dim is None else a.select(dim, member) for a, dim in pairs))
        )
    stacked = tuple(
        None if parts[0] is None else torch.stack(parts) for parts in zip(*results, strict=True)
    )
    return stacked, tuple(None if part is None else 0 for part in stacked)
