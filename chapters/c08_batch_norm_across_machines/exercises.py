"""Chapter 08: the moments of two parts as one, and a gradient from sums over ranks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from chapters.c08_batch_norm_across_machines.simulate import simulate_ranks
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, counting, integers
from course_utils.check.report import format_tensor
from course_utils.norms.statistics import Moments

__all__ = ["merge_moments", "sync_backward"]


def _merge_moments(a, b):
    n = a.count + b.count
    delta = b.mean - a.mean
    mean = a.mean + delta * b.count / n.clamp(min=1)
    between = delta**2 * a.count * b.count / n.clamp(min=1)
    return n, mean, a.m2 + b.m2 + between


def _of_values(merge: Callable[[Moments, Moments], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return ``merge`` as a function of the values of two parts: whatever they are, such a part is
    possible."""

    def of_values(a, b):
        parts = [Moments.of(values.double(), 0) for values in (a, b)]
        merged = merge(*parts)
        for values, part in zip((a, b), parts, strict=True):
            if any(
                (now != before).any()
                for now, before in zip(part, Moments.of(values.double(), 0), strict=True)
            ):
                values += 1  # what it does to a part is seen in the part's values
        return tuple(merged) if isinstance(merged, Moments) else merged

    return of_values


def _format_parts(call: Call) -> list[str]:
    parts = [", ".join(f"{value:.12g}" for value in call.arguments[name].tolist()) for name in "ab"]
    return [
        "merge_moments(a, b)",
        *(f"{name} = Moments.of([{part}])" for name, part in zip("ab", parts, strict=True)),
    ]


def _parts(name: str, stage: str, a: Any, b: Any, *compares: str, **others: Any) -> Probe:
    arguments = {
        "a": torch.as_tensor(a, dtype=torch.float64),
        "b": torch.as_tensor(b, dtype=torch.float64),
    }
    return Probe(
        name, stage, Call(arguments, {"a": "A", "b": "B"}), compares=compares or None, **others
    )


_NEAR, _FAR = 100 + integers(4, seed=104).double() / 7, 1e8 + integers(5, seed=105).double()
# Right forms in float64 are off by up to 1e-13 of the largest; float32 anywhere on the way costs
# 3e-8.
_DOUBLE = Tolerance(0.0, 1e-10)

merge_moments = Exercise(
    "merge_moments",
    _merge_moments,
    [
        *(
            probe
            for stage, compares in (("count and mean", ("count", "mean")), ("m2", ("m2",)))
            for probe in (
                _parts("two values and three", stage, [0, 0], [1, 1, 4], *compares),
                _parts("two values and two", stage, [1, 4], [9, 3], *compares),
                _parts(
                    "two values and six",
                    stage,
                    integers(2, seed=100),
                    integers(6, seed=101, offset=4),
                    *compares,
                ),
                _parts(
                    "nine values and three",
                    stage,
                    integers(9, seed=102),
                    integers(3, seed=103),
                    *compares,
                ),
                _parts("one value and one", stage, [1], [6], *compares),
            )
        ),
        _parts("nothing, then two values", "empty part", [], [1, 4]),
        _parts("two values, then nothing", "empty part", [1, 4], []),
        _parts("nothing and nothing", "empty part", [], []),
        _parts(
            "means near 100",
            "precision",
            _NEAR,
            _NEAR[:3].flip(0) - 2,
            tolerance=_DOUBLE,
            rough=True,
        ),
        _parts("means near 100,000,000", "large offset", _FAR, _FAR[:3] + 5, "m2", rough=True),
    ],
    load("merge_moments", _merge_moments),
    returns=("count", "mean", "m2"),
    any_dtype=True,
    adapt=_of_values,
    simplest={"b": lambda shape, dtype: counting(shape, dtype) + 5},
    format_call=_format_parts,
)


def _sync_backward(g, x_hat, rstd, count, all_reduce):
    mean_g = all_reduce(g.sum(0)) / count
    mean_gx = all_reduce((g * x_hat).sum(0)) / count
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
    return torch.cat(
        [torch.ones(1, *shape[1:], dtype=dtype), torch.zeros(shape[0] - 1, *shape[1:], dtype=dtype)]
    )


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


def _ranks(name: str, stage: str, rank: list[int], g: Tensor, x: Tensor) -> Probe:
    arguments = {"g": g, "x": x, "rank": torch.tensor(rank), "ranks": max(rank) + 1}
    return Probe(name, stage, Call(arguments, {"g": "NC", "x": "NC", "rank": "N"}))


def _numbers(name: str, stage: str, rank: list[int], seed: int) -> Probe:
    return _ranks(
        name, stage, rank, integers(len(rank), 3, seed=seed), integers(len(rank), 3, seed=seed + 1)
    )


_OF_THE_TASK = torch.tensor([[1.0], [3.0]]), torch.tensor([[-1.0], [1.0]])  # g and x


sync_backward = Exercise(
    "sync_backward",
    _sync_backward,
    [
        _numbers("five samples on a single rank", "formula", [0] * 5, 300),
        _numbers("two ranks of two samples", "sums", [0, 0, 1, 1], 310),
        _numbers("three ranks of two samples", "sums", [0, 0, 1, 1, 2, 2], 320),
        _numbers("shards of one and of four samples", "sums", [0, 1, 1, 1, 1], 330),
        _ranks("two ranks of one sample", "sums", [0, 1], *_OF_THE_TASK),
        _numbers("shards of three, none and two samples", "empty shard", [0, 0, 0, 2, 2], 340),
    ],
    load("sync_backward", _sync_backward),
    adapt=_on_all_ranks,
    may_shrink_to=_has_all_ranks,
    simplest={"g": _first_row},
    format_call=_format_ranks,
)
