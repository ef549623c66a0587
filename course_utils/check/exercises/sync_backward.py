"""Chapter 08: synchronised batch norm's backward pass: what a rank adds up with the others, and by what it divides."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, integers
from course_utils.check.report import shown_tensor
from course_utils.parallel import run_ranks

__all__ = ["sync_backward"]


def _sync_backward(g, x_hat, rstd, count, all_reduce):
    mean_g = all_reduce(g.sum(0)) / count
    mean_gx = all_reduce((g * x_hat).sum(0)) / count
    return rstd * (g - mean_g - x_hat * mean_gx)


def _shards(g: Tensor, x: Tensor, rank: Tensor, ranks: int) -> list[tuple[Tensor, Tensor, Tensor, int]]:
    """Return what each rank is given, when row i of the whole batch lies on rank ``rank[i]``."""
    rstd = torch.rsqrt(x.var(0, correction=0))
    x_hat = (x - x.mean(0)) * rstd
    return [(g[rank == r], x_hat[rank == r], rstd.clone(), len(g)) for r in range(ranks)]


def _on_all_ranks(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a rank's ``function`` as one of the whole batch."""

    def whole_batch(g: Tensor, x: Tensor, rank: Tensor, ranks: int) -> Tensor:
        shards = _shards(g, x, rank, ranks)
        parts = run_ranks(function, shards)
        for r, (part, (own, *_)) in enumerate(zip(parts, shards, strict=True)):
            if not isinstance(part, Tensor) or part.shape != own.shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise TypeError(f"rank {r} must return the gradient of its own shard, {tuple(own.shape)}: got {got}")
        dx = torch.empty_like(g, dtype=parts[0].dtype)
        for r, part in enumerate(parts):
            dx[rank == r] = part.detach()
        return dx

    return whole_batch


def _first_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.ones(1, *shape[1:], dtype=dtype), torch.zeros(shape[0] - 1, *shape[1:], dtype=dtype)])


def _is_possible(call: Call) -> bool:
    """Whether the last rank has a sample, and no channel equal values."""
    x, rank = call.arguments["x"], call.arguments["rank"]
    return int(rank.max()) + 1 == call.arguments["ranks"] and bool((x != x[0]).any(0).all())


def _shown(call: Call) -> list[str]:
    shards = _shards(*call.arguments.values())
    ranks = [
        f"rank {r}: g = {shown_tensor(g)}, x_hat = {shown_tensor(x_hat)}" for r, (g, x_hat, *_) in enumerate(shards)
    ]
    _, _, rstd, count = shards[0]
    call_form = "sync_backward(g, x_hat, rstd, count, all_reduce) on every rank, with"
    return [call_form, *ranks, f"rstd = {shown_tensor(rstd)}, count = {count}"]


def _probe(name: str, stage: str, rank: list[int], g: Tensor, x: Tensor) -> Probe:
    arguments = {"g": g, "x": x, "rank": torch.tensor(rank), "ranks": max(rank) + 1}
    return Probe(name, stage, Call(arguments, {"g": "NC", "x": "NC", "rank": "N"}))


def _numbers(name: str, stage: str, rank: list[int], seed: int) -> Probe:
    return _probe(name, stage, rank, integers(len(rank), 3, seed=seed), integers(len(rank), 3, seed=seed + 1))


_OF_THE_TASK = torch.tensor([[1.0], [3.0]]), torch.tensor([[-1.0], [1.0]])  # g and x


sync_backward = Check(
    "sync_backward",
    _sync_backward,
    [
        _numbers("five samples on a single rank", "formula", [0] * 5, 300),
        _numbers("two ranks of two samples", "sums", [0, 0, 1, 1], 310),
        _numbers("three ranks of two samples", "sums", [0, 0, 1, 1, 2, 2], 320),
        _numbers("shards of one and of four samples", "sums", [0, 1, 1, 1, 1], 330),
        _probe("two ranks of one sample", "sums", [0, 1], *_OF_THE_TASK),
        _numbers("shards of three, none and two samples", "empty shard", [0, 0, 0, 2, 2], 340),
    ],
    load("sync_backward", _sync_backward),
    flatten=_on_all_ranks,
    is_possible=_is_possible,
    simplest={"g": _first_row},
    shown=_shown,
)
