"""The check of synchronised batch norm's backward pass: what a rank adds up with the others, and by what it divides."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.parallel import run_ranks

__all__ = ["sync_backward"]

BACKWARD = Catalogue()


def _with(means: Callable[..., Sequence[Any]]) -> Callable[..., Tensor]:
    """Return the gradient with ``means(g, gx, count, all_reduce)`` for mean(g) and mean(g·x̂), where gx is g·x̂."""

    def sync_backward(g, x_hat, rstd, count, all_reduce):
        mean_g, mean_gx = means(g, g * x_hat, count, all_reduce)
        return rstd * (g - mean_g - x_hat * mean_gx)

    return sync_backward


@_with
def _sync_backward(g, gx, count, all_reduce):
    return all_reduce(g.sum(0)) / count, all_reduce(gx.sum(0)) / count


def _oracle(g, x_hat, rstd, count, all_reduce):
    return _sync_backward(g, x_hat, rstd, count, all_reduce)


BACKWARD.add(
    "no_rstd",
    "rstd left out",
    "The gradient is not multiplied by rstd.",
    "The forward pass multiplies by it, so the chain rule does too. A channel of small variance has a large gradient.",
    "x̂ = (x − μ)·rstd. If μ and rstd were constants, what would dx be?",
    lambda g, x_hat, rstd, count, all_reduce: _sync_backward(g, x_hat, 1.0, count, all_reduce),
)
BACKWARD.add(
    "constants",
    "mean and variance taken for constants",
    "Only rstd·g is there: the mean and the variance are treated as constants.",
    "Every x moves the mean and the variance, and with them every x̂ of the channel.",
    "Add up dx over the batch. What must it be, if adding a number to every x changes nothing?",
    _with(lambda g, gx, count, all_reduce: (0.0, 0.0)),
)
BACKWARD.add(
    "no_variance_term",
    "the variance taken for a constant",
    "The term x̂·mean(g·x̂) is missing.",
    "The mean is accounted for, the variance is not: moving one x changes the scale of all others.",
    "Which of the two statistics does mean(g) come from, and what comes from the other?",
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.sum(0)) / count, 0.0)),
)
BACKWARD.add(
    "no_mean_term",
    "the mean taken for a constant",
    "The term mean(g) is missing.",
    "The variance is accounted for, the mean is not: dx no longer adds up to zero.",
    "Add up dx over the batch. What must it be, if adding a number to every x changes nothing?",
    _with(lambda g, gx, count, all_reduce: (0.0, all_reduce(gx.sum(0)) / count)),
)
BACKWARD.add(
    "channels_mixed",
    "one sum for all channels",
    "It adds up over the channels as well.",
    "Every channel has a mean and a variance of its own, and so two sums of its own.",
    "What is the shape of g.sum(), and what should it be for C channels?",
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.sum()) / count, all_reduce(gx.sum()) / count)),
)
BACKWARD.add(
    "other_ranks_forgotten",
    "each rank by itself",
    "The sums run over this rank's shard only.",
    "An x of this shard moves the mean and the variance that all ranks share, so the losses of all ranks depend on it.",
    "Which losses change when one x on this rank changes? Where are their g?",
    _with(lambda g, gx, count, all_reduce: (g.mean(0), gx.mean(0))),
    _with(lambda g, gx, count, all_reduce: (g.sum(0) / count, gx.sum(0) / count)),
    _with(lambda g, gx, count, all_reduce: (g.sum(0) / max(len(g), 1), gx.sum(0) / max(len(g), 1))),
)
BACKWARD.add(
    "one_sum_kept_local",
    "one of the two sums not added over the ranks",
    "One of the two sums runs over all ranks, the other over this shard only.",
    "Both the mean and the variance are shared, and each needs its sum from everyone.",
    "How many numbers for each channel does this rank need from the others?",
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.sum(0)) / count, gx.sum(0) / count)),
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.sum(0)) / count, gx.mean(0))),
    _with(lambda g, gx, count, all_reduce: (g.sum(0) / count, all_reduce(gx.sum(0)) / count)),
    _with(lambda g, gx, count, all_reduce: (g.mean(0), all_reduce(gx.sum(0)) / count)),
)
BACKWARD.add(
    "own_count",
    "divided by this rank's own count",
    "The sums run over all ranks and are divided by the size of this shard.",
    "They are sums over count samples. With two equal shards the means come out twice too large.",
    "How many samples went into the sum that all_reduce returns?",
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.sum(0)) / len(g), all_reduce(gx.sum(0)) / len(g))),
)
BACKWARD.add(
    "means_added",
    "means added up",
    "It adds up the ranks' means where it should add up their sums.",
    "Of P equal shards the result is P times too large.",
    "Each rank brings a mean of its shard. What is the sum of two means?",
    _with(lambda g, gx, count, all_reduce: (all_reduce(g.mean(0)), all_reduce(gx.mean(0)))),
)
BACKWARD.add(
    "mean_of_means",
    "the mean of the ranks' means",
    "It averages the ranks' means, whatever the sizes of their shards.",
    "Only equal shards have the same say. The last batch of an epoch seldom splits evenly.",
    "One rank holds 1 sample and another 3. What is the weight of each sample in the mean of the two means?",
    _with(
        lambda g, gx, count, all_reduce: tuple(
            all_reduce(part.mean(0)) / all_reduce(torch.ones(())) for part in (g, gx)
        )
    ),
)


@BACKWARD.mistake(
    title="a rank without samples does not take part",
    wrong="A rank whose shard is empty returns without calling all_reduce.",
    matters="The others wait for it, and it does not come: on real machines the program hangs until the timeout.",
    hint="What is the sum over no samples, and who is waiting for it?",
)
def empty_rank_leaves(g, x_hat, rstd, count, all_reduce):
    return _sync_backward(g, x_hat, rstd, count, all_reduce) if len(g) else g


BACKWARD.add(
    "mean_of_nothing",
    "the mean of an empty shard",
    "On a rank without samples it takes a mean, which is 0 / 0.",
    "NaN times zero is NaN: added up, it reaches every rank, and from there every weight.",
    "What does torch.empty(0, 3).mean(0) return, and what does .sum(0)?",
    _with(
        lambda g, gx, count, all_reduce: tuple(all_reduce(part.mean(0) * len(part)) / count for part in (g, gx)),
    ),
)


def _on_all_ranks(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a rank's ``function`` as one of the whole batch, whose row i lies on the machine ``rank[i]``."""

    def whole_batch(g: Tensor, x_hat: Tensor, rstd: Tensor, rank: Tensor, ranks: int) -> Tensor:
        if int(rank.max()) >= ranks:
            raise ValueError(f"rank must be below ranks: got rank {int(rank.max())} of {ranks}")
        rows = [(rank == r).nonzero().flatten() for r in range(ranks)]
        shards = [(g[own].clone(), x_hat[own].clone(), rstd.clone(), len(g)) for own in rows]
        parts = run_ranks(function, shards)
        for r, (part, own) in enumerate(zip(parts, rows, strict=True)):
            if not isinstance(part, Tensor) or part.shape != g[own].shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise TypeError(f"rank {r} must return the gradient of its own shard, {tuple(g[own].shape)}: got {got}")
        dx = torch.empty_like(g, dtype=parts[0].dtype)
        for part, own in zip(parts, rows, strict=True):
            dx[own] = part.detach()
        return dx

    return whole_batch


def _ranks(name: str, stage: str, rank: list[int], ranks: int, seed: int) -> Probe:
    samples, channels = len(rank), 3
    arguments = {
        "g": integers(samples, channels, seed=seed),
        "x_hat": integers(samples, channels, seed=seed + 1) / 4,
        "rstd": torch.tensor([0.5, 2.0, 1.0]),
        "rank": torch.tensor(rank),
        "ranks": ranks,
    }
    return Probe(name, stage, Call(arguments, {"g": "NC", "x_hat": "NC", "rstd": "C", "rank": "N"}))


sync_backward = Check(
    "sync_backward",
    _oracle,
    [
        _ranks("five samples on a single rank", "formula", [0] * 5, 1, 300),
        _ranks("two ranks of two samples", "sums", [0, 0, 1, 1], 2, 310),
        _ranks("three ranks of two samples", "sums", [0, 0, 1, 1, 2, 2], 3, 320),
        _ranks("shards of one and of four samples", "sums", [0, 1, 1, 1, 1], 2, 330),
        _ranks("shards of three, none and two samples", "empty shard", [0, 0, 0, 2, 2], 3, 340),
    ],
    BACKWARD,
    flatten=_on_all_ranks,
)
