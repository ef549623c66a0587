"""Synchronised batch norm (chapter 09): one batch in shards on several processes, normalized as the
one that it is.

Each process (a *rank*) knows the moments of its own shard. In the forward pass all ranks exchange
them and merge them exactly; in the backward pass they add up two sums for each channel, since every
shard's loss depends on the shared mean and variance:

    forward     all_gather   count, mean, M2          2C + 1 numbers from every rank to every rank
    backward    all_reduce   Σ dx̂, Σ dx̂·x̂            2C numbers, added over the ranks

The gradients of weight and bias stay each rank's own, to be added with all others of the model, as
`DistributedDataParallel` does. Any backend that has the two collectives will do: gloo on CPUs, NCCL
on GPUs.

Source: Chan, Golub, LeVeque 1979 (merging); Ioffe, Szegedy 2015, section 3 (gradients);
`torch.nn.SyncBatchNorm`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from course_utils.norms.core import affine, channel_shape, match_memory_format, moments, upcast_half
from course_utils.norms.modules import _BatchNorm
from course_utils.norms.statistics import Moments, ema

__all__ = ["LostContact", "SyncBatchNorm", "convert", "merge_ranks"]


class LostContact(RuntimeError):
    """A collective failed: another rank died, raised, or did not take part before the process
    group's timeout."""


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batch that all processes of a group hold together.

    In training, every rank of the group must call the layer, forward and backward, as often as the
    others and in the same order; its shard may be smaller than the others' or empty. The running
    statistics come out equal on all. In evaluation, on a single process, or before
    `torch.distributed` is initialised, it is plain batch norm.

    ``process_group`` are the ranks that share a batch, by default all; the other arguments are
    batch norm's.

    Raises:
        ValueError: in forward: an input that is not (N, C, *), a single value per channel on all
            ranks together, or a ``process_group`` that this process is not a member of.
        LostContact: in forward or backward, when another rank does not take part, on gloo. NCCL
            ends the process instead, unless ``TORCH_NCCL_BLOCKING_WAIT`` is set.

    Source: `torch.nn.SyncBatchNorm`, which refuses a CPU; same arguments, ``state_dict`` and
    results.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"input must be (N, {self.num_features}, *): got shape {tuple(input.shape)}"
            )

    def _normalize(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        by_batch: bool,
        momentum: float,
    ) -> Tensor:
        if not self.training or _ranks_in(self.process_group) == 1:
            return super()._normalize(x, running_mean, running_var, by_batch, momentum)
        z = upcast_half(x)
        count = x.numel() // x.shape[1]
        with torch.no_grad():
            batch = _moments_of_all_ranks(z, count, self.process_group)
            # A second value here settles it; only where there is none is the GPU waited for to know
            # how many there are.
            total = count if count > 1 else int(batch.count)
            if total == 1:
                raise ValueError(
                    "Expected more than 1 value per channel when training, got one on all ranks: "
                    f"{x.shape}"
                )
            if running_mean is not None and running_var is not None and total > 0:
                running_mean.copy_(ema(running_mean, batch.mean, momentum))
                running_var.copy_(ema(running_var, batch.variance(correction=1), momentum))
            rstd = torch.rsqrt(batch.variance() + self.eps)
        x_hat = _Standardize.apply(
            z, batch.mean.to(z.dtype), rstd.to(z.dtype), batch.count.to(z.dtype), self.process_group
        )
        return match_memory_format(
            x, affine(x_hat, self.weight, self.bias, channel_shape(x)).to(x.dtype)
        )


def convert(module: nn.Module, process_group: Any = None) -> nn.Module:
    """Make every batch norm in ``module``, `torch.nn`'s or the course's, a `SyncBatchNorm`, and
    return ``module``.

    Each stays the object that it is, with its parameters, running statistics and hooks, so an
    optimizer made before still holds them. A lazy batch norm that has not seen an input yet is a
    ValueError.
    """
    layers: list[Any] = [
        layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)
    ]
    for layer in layers:
        if isinstance(layer, nn.modules.lazy.LazyModuleMixin):
            raise ValueError(
                f"module must know its sizes: call it once before converting; got {layer}"
            )
    for layer in layers:
        layer.__class__ = SyncBatchNorm
        layer.process_group = process_group
    return module


class _Standardize(torch.autograd.Function):
    """x̂ = (x − μ)·r with μ and r (C,) of all ranks, whose gradient takes into account that every x
    is part of both."""

    @staticmethod
    def forward(x: Tensor, mean: Tensor, rstd: Tensor, count: Tensor, process_group: Any) -> Tensor:
        channels = channel_shape(x)
        return (x - mean.reshape(channels)) * rstd.reshape(channels)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, rstd, count, ctx.process_group = inputs
        ctx.save_for_backward(output, rstd, count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dx_hat: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x_hat, rstd, count = ctx.saved_tensors
        dims = (0, *range(2, x_hat.dim()))
        channels = channel_shape(x_hat)
        sums = torch.stack([dx_hat.sum(dims), (dx_hat * x_hat).sum(dims)])  # (2, C)
        with _collective("adding up gradients", ctx.process_group):
            dist.all_reduce(sums, group=ctx.process_group)
        # mean(g) and mean(g·x̂) over the whole batch
        mean, mean_x_hat = (sums / count).reshape(2, *channels)
        dx = rstd.reshape(channels) * (dx_hat - mean - x_hat * mean_x_hat)
        return dx, None, None, None, None


def _moments_of_all_ranks(z: Tensor, count: int, process_group: Any) -> Moments:
    """Return the moments (C,) of every channel of ``z`` over the shards of all ranks, the same bits
    on each."""
    _, mean, variance = moments(z, (0, *range(2, z.dim())))
    # (2C + 1,)
    own = torch.cat([z.new_tensor([count]), mean.flatten(), variance.flatten() * count])
    everyone = own.new_empty(_ranks_in(process_group), len(own))  # (P, 2C + 1)
    with _collective("exchanging statistics", process_group):
        dist.all_gather(list(everyone.unbind()), own, process_group)
    return merge_ranks(*everyone.split([1, z.shape[1], z.shape[1]], dim=1))


def merge_ranks(count: Tensor, mean: Tensor, m2: Tensor) -> Moments:
    """Return the moments of all ranks' values together, merged in pairs: log₂ P steps.

    ``count`` (P, 1) is how many values a channel has on each rank, which may be zero; ``mean`` (P,
    C) is not read where it is; ``m2`` (P, C) is Σ(x − mean)².

    >>> count, mean = [[2], [0], [1]], [[1.0], [9.0], [4.0]]  # of (0, 2), () and (4,)
    >>> m2 = [[2.0], [0.0], [0.0]]
    >>> batch = merge_ranks(torch.tensor(count), torch.tensor(mean), torch.tensor(m2))
    >>> batch.mean.item(), batch.variance(correction=1).item()
    (2.0, 4.0)
    """
    parts = Moments(count, mean, m2)
    while len(parts.mean) > 1:
        if len(parts.mean) % 2:  # an empty partner for the last one
            fields = (parts.count, parts.mean, parts.m2, parts.residue)
            parts = Moments(*[nn.functional.pad(field, (0, 0, 0, 1)) for field in fields])
        parts = parts[0::2].merge(parts[1::2])
    return parts[0]


def _ranks_in(process_group: Any) -> int:
    """Return how many processes share a batch: one where there is no `torch.distributed` to ask."""
    if not dist.is_available() or not dist.is_initialized():
        return 1
    ranks = dist.get_world_size(process_group)
    if ranks < 1:
        raise ValueError(
            f"process_group must contain this process: got a group without rank {dist.get_rank()}"
        )
    return ranks


@contextmanager
def _collective(doing: str, process_group: Any) -> Iterator[None]:
    """Raise `LostContact` where a collective fails."""
    try:
        yield
    except RuntimeError as error:
        others = dist.get_world_size(process_group) - 1
        raise LostContact(
            f"SyncBatchNorm was {doing} with {others} other rank{'s' * (others > 1)} when one of "
            "them died, raised an error, or did not get there before the timeout"
        ) from error
