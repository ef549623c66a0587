"""What stands around the kernels of ``norm_kernels``: views, buffers, launches, autograd; no arithmetic.

Chapter 10.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_utils.kernels import norm_kernels
from course_utils.kernels.launch import backward_launch, column_sums_launch, forward_launch, multiprocessors

__all__ = ["RowNorm", "launch_backward", "launch_forward"]


def _as_rows(x: Tensor, num_columns: int) -> Tensor:
    """Return ``x`` as (rows, num_columns), columns side by side: a view where the strides allow it, else a copy."""
    rows = x.reshape(-1, num_columns)
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _sum_type(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    """Return the type of statistics and sums for inputs of ``dtype``, in PyTorch's and in Triton's name."""
    return (torch.float64, tl.float64) if dtype == torch.float64 else (torch.float32, tl.float32)


def launch_forward(
    rows: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor | None, Tensor]:
    """Write the norm of ``rows`` (M, N) to ``y``; return mean (M,), None for RMS norm, and rstd (M,) for backward."""
    num_rows, num_columns = rows.shape
    sum_type, sum_type_in_triton = _sum_type(rows.dtype)
    mean = torch.empty(num_rows, dtype=sum_type, device=rows.device) if centred else None
    rstd = torch.empty(num_rows, dtype=sum_type, device=rows.device)
    launch = forward_launch(num_columns, rows.element_size())
    kernel = norm_kernels.forward_looped if launch.looped else norm_kernels.forward_in_registers
    options = {"STAGES": launch.stages} if launch.looped else {}
    with torch.cuda.device_of(rows):
        kernel[(triton.cdiv(num_rows, launch.rows),)](
            rows, y, weight, bias, mean, rstd, num_rows, rows.stride(0), num_columns,
            EPS=eps, CENTRED=centred, DTYPE=sum_type_in_triton,
            ROWS=launch.rows, BLOCK=launch.block, num_warps=launch.warps, **options,
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
    """Write the gradients to ``dx`` (M, N), ``dweight`` (N,) and ``dbias`` (N,); None where no gradient is wanted."""
    num_rows, num_columns = rows.shape
    sum_type, sum_type_in_triton = _sum_type(rows.dtype)
    launch = backward_launch(num_columns, rows.element_size())
    programs = launch.programs(num_rows, multiprocessors(rows.device))
    new_sums = torch.zeros if launch.looped else torch.empty  # the looped kernel adds to what is there
    dweight_sums, dbias_sums = (
        None if gradient is None else new_sums((programs, num_columns), dtype=sum_type, device=rows.device)
        for gradient in (dweight, dbias)
    )
    kernel = norm_kernels.backward_looped if launch.looped else norm_kernels.backward_in_registers
    options = {} if launch.looped else {"RELOAD": launch.reload}
    with torch.cuda.device_of(rows):
        kernel[(programs,)](
            dy, rows, weight, mean, rstd, dx, dweight_sums, dbias_sums,
            num_rows, dy.stride(0), rows.stride(0), num_columns,
            CENTRED=mean is not None, DTYPE=sum_type_in_triton,
            ROWS=launch.rows, BLOCK=launch.block, STAGES=launch.stages, num_warps=launch.warps, **options,
        )  # fmt: skip
        if dweight is not None or dbias is not None:
            sums = column_sums_launch(programs)
            norm_kernels.column_sums[(triton.cdiv(num_columns, sums.block), 2)](
                dweight_sums, dbias_sums, dweight, dbias, programs, num_columns,
                DTYPE=sum_type_in_triton, ROWS=sums.rows, BLOCK=sums.block, num_warps=sums.warps,
            )  # fmt: skip


class RowNorm(torch.autograd.Function):
    """Layer norm (``centred``) and RMS norm of the rows of a matrix; differentiable once."""

    @staticmethod
    def forward(ctx, x, weight, bias, num_columns, eps, centred):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        weight = None if weight is None else weight.contiguous()
        bias = None if bias is None else bias.contiguous()
        rows, mean, rstd = x, None, None
        if x.numel() > 0:
            rows = _as_rows(x, num_columns)
            mean, rstd = launch_forward(rows, y, weight, bias, eps, centred)
        # bias is not read again, but its gradient takes its shape and type
        ctx.save_for_backward(rows, weight, bias, mean, rstd)
        ctx.num_columns = num_columns
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        rows, weight, bias, mean, rstd = ctx.saved_tensors
        _, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        dx = torch.empty(dy.shape, dtype=rows.dtype, device=dy.device)
        new_sum = torch.zeros_like if dy.numel() == 0 else torch.empty_like
        dweight = new_sum(weight) if wants_weight else None
        dbias = new_sum(bias) if wants_bias else None
        if dy.numel() > 0:
            launch_backward(_as_rows(dy, ctx.num_columns), rows, weight, mean, rstd, dx, dweight, dbias)
        return dx, dweight, dbias, None, None, None
