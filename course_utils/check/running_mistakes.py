"""The mistakes about running statistics, which batch norm and instance norm have in common."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_utils.check.finish_mistakes import Norm, Recipe
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_recipes import move_towards, unbiased_statistics

__all__ = ["add_running_mistakes"]


def _biased_statistics(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    mean, variance = z.mean(dims), z.var(dims, correction=0)
    return (mean.mean(0), variance.mean(0)) if mean.ndim == 2 else (mean, variance)


def _deviation_statistics(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    mean, variance = unbiased_statistics(z, dims)
    return mean, variance.sqrt()


def _update(change: Callable[[Tensor, Tensor, float], Any]) -> Callable:
    def update(running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, momentum: float) -> None:
        with torch.no_grad():
            change(running_mean, mean, momentum)
            change(running_var, variance, momentum)

    return update


def _move_by(own_momentum: float, running: Tensor, batch: Tensor, momentum: float) -> None:
    move_towards(running, batch, own_momentum)


def _attached_update(running_mean, running_var, mean, variance, momentum) -> None:
    running_mean.mul_(1 - momentum).add_(momentum * mean)
    running_var.mul_(1 - momentum).add_(momentum * variance)


def _swapped_statistics(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    mean, variance = unbiased_statistics(z, dims)
    return variance, mean


def add_running_mistakes(catalogue: Catalogue, recipe: Recipe, flag: str, right: Norm) -> None:
    """Add the mistakes about running statistics; ``flag`` is the argument that says whose statistics normalize."""
    catalogue.add(
        "momentum_swapped",
        "momentum weights the old value",
        "The old value is weighted by momentum and the new one by 1 − momentum.",
        "This is the convention of TensorFlow and of many papers, where momentum is 0.9 or 0.99. torch's 0.1 is "
        "the share of the new value: with the two mixed up, the average follows the last batch and forgets all others.",
        "With momentum=0.1, how much of the running mean should be left after one step?",
        recipe(update=_update(lambda running, batch, m: move_towards(running, batch, 1 - m))),
    )
    catalogue.add(
        "biased_running_var",
        "the biased variance in running_var",
        "running_var receives the variance divided by n.",
        "torch normalizes by the biased variance and stores the unbiased one, an estimate for data not seen yet. "
        "With two values per channel they differ by a factor of two.",
        "Two variances occur in this norm. Which one is used now, and which one is an estimate for later?",
        recipe(batch_statistics=_biased_statistics),
    )
    catalogue.add(
        "stats_not_updated",
        "the running statistics stay as they are",
        "The tensors running_mean and running_var that were passed in do not change.",
        "running_mean = 0.9 * running_mean + ... binds a new tensor to a local name; the caller's buffer is not "
        "touched.",
        "Which operations change a tensor that somebody else holds too?",
        recipe(follow=lambda on: False),
    )
    catalogue.add(
        "ignores_momentum",
        "the momentum argument is ignored",
        "Another momentum than the one that is passed in is written into the code.",
        "Momentum decides over how many batches is averaged; Precise BN and small batches need another than 0.1.",
        "Call your function twice, with momentum=0.1 and momentum=0.5. Do the buffers differ?",
        *(recipe(update=_update(partial(_move_by, own))) for own in (0.1, 0.9, 0.01)),
    )
    catalogue.add(
        "sums_statistics",
        "momentum times the new value is added",
        "The old value is not made smaller before the new one's share is added.",
        "The two weights must add up to 1. Otherwise the average grows with every step.",
        "After many steps on the same batch, where should the running mean arrive?",
        recipe(update=_update(lambda running, batch, m: running.add_(m * batch))),
    )
    catalogue.add(
        "stores_deviation",
        "the standard deviation in running_var",
        "running_var receives the standard deviation.",
        "running_var is a variance: evaluation takes its root, and a checkpoint expects it so.",
        "In which unit is running_var, if x is in metres?",
        recipe(batch_statistics=_deviation_statistics),
    )
    catalogue.add(
        "buffers_swapped",
        "mean and variance in each other's buffer",
        "running_mean receives the variance and running_var the mean.",
        "Evaluation then subtracts a variance and divides by the root of a mean, which may be negative.",
        "In which order does your call return mean and variance? torch.var_mean returns the variance first.",
        recipe(batch_statistics=_swapped_statistics),
    )
    catalogue.add(
        "stats_carry_graph",
        "running statistics that keep the graph",
        "The running statistics are updated with tensors that carry a gradient.",
        "Each step then hangs on the graph of the one before: memory grows, backward fails the second time, and "
        "deepcopy of the model raises.",
        "What is running_mean.requires_grad after a training step?",
        recipe(update=_attached_update),
    )
    catalogue.add(
        "needs_running_statistics",
        "does not work without running statistics",
        f"It fails for running_mean=None with {flag}=True, where only the statistics of the input are needed.",
        "track_running_stats=False passes None for both.",
        "What needs the running statistics when the input's own are used?",
        _touching_buffers(right, lambda running_mean: 0.9 * running_mean),
        _touching_buffers(right, lambda running_mean: running_mean.size()),
    )
    catalogue.add(
        "returns_stats",
        "the running statistics returned",
        "It returns the running statistics with the output.",
        "The functional form returns the output alone and updates the buffers that it was given.",
        "What does F.batch_norm return?",
        lambda x, running_mean=None, running_var=None, *args, **kwargs: (
            right(x, running_mean, running_var, *args, **kwargs), running_mean, running_var,
        ),
    )  # fmt: skip


def _touching_buffers(right: Norm, touch: Callable[[Any], Any]) -> Norm:
    """Return ``right`` behind a use of running_mean that None does not stand."""

    def norm(x, running_mean=None, running_var=None, *args, **kwargs):
        touch(running_mean)
        return right(x, running_mean, running_var, *args, **kwargs)

    return norm
