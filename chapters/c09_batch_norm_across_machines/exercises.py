"""Chapter 09: the moments of two parts as one, and gradients from sums over ranks."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

import torch
from torch import Tensor

from chapters.c09_batch_norm_across_machines.simulate import simulate_ranks
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, counting, read_probes
from course_utils.check.report import format_tensor
from course_utils.norms.statistics import Moments

__all__ = ["merge_moments", "sequence_backward", "sync_backward"]


def _merge_moments(a, b):
    n = a.count + b.count
    delta = b.mean - a.mean
    mean = a.mean + delta * b.count / n.clamp(min=1)
    between = delta**2 * a.count * b.count / n.clamp(min=1)
    m2 = a.m2 + b.m2 + between
    return n, mean, m2


def _of_values(merge: Callable[[Moments, Moments], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return ``merge`` as a function of the values of two parts: whatever they are, such a part is
    possible."""

    def of_values(a, b):
        before = [_moments(tuple(values.tolist())) for values in (a, b)]
        parts = [_copied(part) for part in before]
        merged = merge(*parts)
        for values, part, numbers in zip((a, b), parts, before, strict=True):
            if not all(map(torch.equal, map(torch.as_tensor, part), numbers)):
                values += 1  # what it does to a part is seen in the part's values
        return tuple(merged) if isinstance(merged, Moments) else merged

    return of_values


@cache  # a hundred mistakes are tried on the same few parts
def _moments(values: tuple[float, ...]) -> Moments:
    return Moments.of(torch.tensor(values, dtype=torch.float64), 0)


def _copied(part: Moments) -> Moments:
    copied = copy(part)
    vars(copied).update({name: number.clone() for name, number in vars(part).items()})
    return copied


def _format_parts(call: Call) -> list[str]:
    parts = [", ".join(f"{value:.12g}" for value in call.arguments[name].tolist()) for name in "ab"]
    return [
        "merge_moments(a, b)",
        *(f"{name} = Moments.of([{part}])" for name, part in zip("ab", parts, strict=True)),
    ]


def _parts(a: Tensor, b: Tensor) -> Call:
    return Call({"a": a.double(), "b": b.double()}, {"a": "A", "b": "B"})


merge_moments = Exercise(
    "merge_moments",
    _merge_moments,
    read_probes(__file__, "merge_moments", _parts),
    load("merge_moments", _merge_moments),
    returns=("count", "mean", "m2"),
    any_dtype=True,
    adapt=_of_values,
    simplest={"b": lambda shape, dtype: counting(shape, dtype) + 5},
    format_call=_format_parts,
)


def _sync_backward(g, x_hat, rstd, count, all_reduce):
    sum_g = g.sum(0)
    sum_gx = (g * x_hat).sum(0)
    mean_g = all_reduce(sum_g) / count
    mean_gx = all_reduce(sum_gx) / count
    return rstd * (g - mean_g - x_hat * mean_gx)


def _shards(
    g: Tensor, x: Tensor, rank: Tensor, ranks: int
) -> list[tuple[Tensor, Tensor, Tensor, int]]:
    """Return what each rank is given, when row i of the whole batch lies on rank ``rank[i]``."""
    rstd = torch.rsqrt(x.var(0, correction=0))
    x_hat = (x - x.mean(0)) * rstd
    return [(g[rank == r], x_hat[rank == r], rstd.clone(), len(g)) for r in range(ranks)]


def _on_all_ranks(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a rank's ``function`` as one of the whole batch."""

    def whole_batch(g: Tensor, x: Tensor, rank: Tensor, ranks: int) -> Tensor:
        shards = _shards(g, x, rank, ranks)
        parts = simulate_ranks(function, shards)
        for r, (part, (own, *_)) in enumerate(zip(parts, shards, strict=True)):
            if not isinstance(part, Tensor) or part.shape != own.shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise TypeError(
                    f"rank {r} must return the gradient of its own shard, {tuple(own.shape)}: got "
                    f"{got}"
                )
        dx = torch.empty_like(g, dtype=parts[0].dtype)
        for r, part in enumerate(parts):
            dx[rank == r] = part.detach()
        return dx

    return whole_batch


def _first_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    g = torch.zeros(tuple(shape), dtype=dtype)
    g[0] = 1.0
    return g


def _has_all_ranks(call: Call) -> bool:
    """Whether the last rank has a sample, and no channel equal values."""
    x, rank = call.arguments["x"], call.arguments["rank"]
    return int(rank.max()) + 1 == call.arguments["ranks"] and bool((x != x[0]).any(0).all())


def _format_ranks(call: Call) -> list[str]:
    shards = _shards(*call.arguments.values())
    ranks = [
        f"rank {r}: g = {format_tensor(g)}, x_hat = {format_tensor(x_hat)}"
        for r, (g, x_hat, *_) in enumerate(shards)
    ]
    _, _, rstd, count = shards[0]
    call_form = "sync_backward(g, x_hat, rstd, count, all_reduce) on every rank, with"
    return [call_form, *ranks, f"rstd = {format_tensor(rstd)}, count = {count}"]


def _ranks(g: Tensor, x: Tensor, rank: Tensor) -> Call:
    arguments = {"g": g, "x": x, "rank": rank, "ranks": int(rank.max()) + 1}
    return Call(arguments, {"g": "NC", "x": "NC", "rank": "N"})


sync_backward = Exercise(
    "sync_backward",
    _sync_backward,
    read_probes(__file__, "sync_backward", _ranks),
    load("sync_backward", _sync_backward),
    adapt=_on_all_ranks,
    may_shrink_to=_has_all_ranks,
    simplest={"g": _first_row},
    format_call=_format_ranks,
)


def _sequence_backward(dy, x_hat, rstd, weight, all_reduce):
    g = dy * weight
    along = (g * x_hat).mean(1, keepdim=True)
    dx = rstd * (g - x_hat * along)
    part = (dy * x_hat).sum(0)
    dweight = all_reduce(part)
    return dx, dweight


def _tokens(dy: Tensor, x: Tensor, weight: Tensor, rank: Tensor, ranks: int) -> list[tuple]:
    """Return what each rank is given, when token i lies on rank ``rank[i]``."""
    rstd = torch.rsqrt(x.square().mean(1, keepdim=True))
    own = [rank == r for r in range(ranks)]
    return [(dy[mine], (x * rstd)[mine], rstd[mine], weight.clone()) for mine in own]


def _on_all_tokens(function: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a rank's ``function`` as one of all tokens: dx, and every rank's dweight."""

    def all_tokens(dy: Tensor, x: Tensor, weight: Tensor, rank: Tensor, ranks: int) -> tuple:
        parts = simulate_ranks(function, _tokens(dy, x, weight, rank, ranks))
        dx = torch.empty_like(dy)
        for r, part in enumerate(parts):
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise TypeError(f"rank {r} must return dx and dweight: got {type(part).__name__}")
            dx[rank == r] = part[0].detach()
        return dx, torch.stack([dweight.detach() for _, dweight in parts])

    return all_tokens


def _has_tokens(call: Call) -> bool:
    """Whether the last rank has a token, and no token is all zeros."""
    x, rank = call.arguments["x"], call.arguments["rank"]
    return int(rank.max()) + 1 == call.arguments["ranks"] and bool((x != 0).any(1).all())


def _format_tokens(call: Call) -> list[str]:
    shards = _tokens(*call.arguments.values())
    names = ("dy", "x_hat", "rstd")
    lines = [
        f"rank {r}: "
        + ", ".join(f"{n} = {format_tensor(t)}" for n, t in zip(names, own[:3], strict=True))
        for r, own in enumerate(shards)
    ]
    call_form = "sequence_backward(dy, x_hat, rstd, weight, all_reduce) on every rank, with"
    return [call_form, *lines, f"weight = {format_tensor(shards[0][3])}"]


def _split(dy: Tensor, x: Tensor, weight: Tensor, rank: Tensor) -> Call:
    arguments = {"dy": dy, "x": x, "weight": weight, "rank": rank, "ranks": int(rank.max()) + 1}
    return Call(arguments, {"dy": "NC", "x": "NC", "weight": "C", "rank": "N"})


sequence_backward = Exercise(
    "sequence_backward",
    _sequence_backward,
    read_probes(__file__, "sequence_backward", _split),
    load("sequence_backward", _sequence_backward),
    returns=("dx", "dweight"),
    adapt=_on_all_tokens,
    may_shrink_to=_has_tokens,
    simplest={"dy": _first_row},
    format_call=_format_tokens,
)
