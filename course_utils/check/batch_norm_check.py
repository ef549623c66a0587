"""The check of batch norm: two modes, running statistics updated in place, and one statistic for each channel."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.calls import Probe
from course_utils.check.exercise import Check
from course_utils.check.finish_mistakes import add_bias_mistakes, add_channel_mistakes
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_mistakes import add_centring_mistakes, add_common_mistakes
from course_utils.check.norm_probes import half_probes, in_stages, numbers, offset_probe, pair_probes, running_call
from course_utils.check.norm_recipes import affine, as_given, batch_norm_with, over_root, per_channel
from course_utils.check.running_mistakes import add_running_mistakes

__all__ = ["batch_norm"]

_RIGHT = batch_norm_with()
MISTAKES = Catalogue()
add_centring_mistakes(MISTAKES, batch_norm_with)
add_common_mistakes(MISTAKES, batch_norm_with, _RIGHT)
add_bias_mistakes(MISTAKES, batch_norm_with)
add_channel_mistakes(MISTAKES, batch_norm_with)
add_running_mistakes(MISTAKES, batch_norm_with, "training", _RIGHT)
# Next to float32 parameters, what was left in half precision comes back as float32.
MISTAKES.form_of("half_statistics")(batch_norm_with(widen=as_given, close=as_given))

MISTAKES.add(
    "positions_apart",
    "statistics for each position",
    "It averages over the batch only, so that every position has statistics of its own.",
    "A channel means the same at every position, which is why a convolution shares its weights over them. Per "
    "position there are N values instead of N·H·W, and no input of another size fits.",
    "For x of shape (8, 3, 32, 32): how many entries does running_mean have?",
    batch_norm_with(lambda x: (0,)),
)
MISTAKES.add(
    "channels_last",
    "the last axis taken for the channels",
    "It averages over every axis but the last, where the channels are axis 1.",
    "In torch a batch of sequences for batch norm is (N, C, L). Passing (N, L, C) is an error, or none where L = C.",
    "Which axis of x has as many entries as running_mean?",
    batch_norm_with(lambda x: tuple(range(x.ndim - 1))),
)
MISTAKES.add(
    "samples_apart",
    "a layer norm: every sample on its own",
    "It averages over the axes of each sample, which makes it a layer norm.",
    "Batch norm compares a channel's value with the same channel in the other samples.",
    "For x of shape (8, 3): are there 8 means or 3?",
    batch_norm_with(lambda x: tuple(range(1, x.ndim))),
)
MISTAKES.add(
    "instances_apart",
    "an instance norm: every sample and channel on its own",
    "For images it averages over the positions of each sample, which makes it an instance norm.",
    "Contrast and brightness of each image are lost; batch norm removes only what a channel has in common over "
    "the batch.",
    "For x of shape (8, 3, 32, 32): over how many values is a mean taken?",
    batch_norm_with(lambda x: tuple(range(2, x.ndim)) or (0,)),
)
MISTAKES.add(
    "whole_tensor",
    "one statistic for all channels",
    "It averages over the whole tensor, channels included.",
    "Channels have different scales, and bringing each to the same one is the point.",
    "For x of shape (8, 3): how many means are there?",
    batch_norm_with(lambda x: tuple(range(x.ndim))),
)
MISTAKES.add(
    "eval_uses_batch",
    "evaluation with the batch's statistics",
    "With training=False it still normalizes with the statistics of the batch.",
    "A prediction then depends on what else is in the batch, and a batch of one has no statistics at all.",
    "What does your function do differently when training is False?",
    batch_norm_with(use=lambda training: True),
    batch_norm_with(use=lambda training: True, follow=lambda training: True),
)
MISTAKES.add(
    "training_uses_running",
    "training with the running statistics",
    "With training=True it normalizes with the running statistics.",
    "They lag behind the batch and start at 0 and 1: at first nothing is normalized, and the gradient misses the "
    "share of the statistics.",
    "Which statistics does the paper's Algorithm 1 normalize with, and what are the running ones for?",
    batch_norm_with(use=lambda training: False),
    lambda *args, **kwargs: _update_first(True, *args, **kwargs),
)
MISTAKES.add(
    "updates_in_eval",
    "running statistics that move in evaluation",
    "With training=False the running statistics are updated as well.",
    "Evaluating a model then changes it, and the second evaluation gives another result than the first.",
    "Which part of your function should depend on training?",
    batch_norm_with(follow=lambda training: True),
    lambda *args, **kwargs: _update_first(False, *args, **kwargs),
)
MISTAKES.add(
    "samples_counted_only",
    "the correction counts samples, not values",
    "running_var is corrected by N / (N − 1), with N the size of the batch.",
    "For images a channel has n = N·H·W values in a batch, and the correction is n / (n − 1). For 4 images of 8 "
    "× 8 it is 1.004, not 1.33; for one image N − 1 is 0.",
    "Over how many values did you take the mean?",
    batch_norm_with(batch_statistics=lambda z, dims: _corrected_by_batch(z, dims)),
)
MISTAKES.add(
    "eval_without_eps",
    "no epsilon in evaluation",
    "Epsilon is used in training and missing in evaluation.",
    "The two modes no longer agree for a channel with a small variance, and a dead channel, with a running "
    "variance of 0, gives NaN.",
    "Compare the two branches of your function line by line.",
    lambda *args, **kwargs: _in_mode(
        _RIGHT, batch_norm_with(scale=lambda c, v, eps: c * torch.rsqrt(v)), *args, **kwargs
    ),
)
MISTAKES.add(
    "eval_without_affine",
    "no affine step in evaluation",
    "Weight and bias are applied in training and missing in evaluation.",
    "The network was trained with them; without them every layer after this one gets what it has never seen.",
    "Compare the two branches of your function line by line.",
    lambda *args, **kwargs: _in_mode(_RIGHT, batch_norm_with(affine=as_given), *args, **kwargs),
)
MISTAKES.add(
    "channels_not_reshaped",
    "running statistics along the last axis",
    "In evaluation the running statistics broadcast along the last axis, where they belong to the channels, axis 1.",
    "It is an error for most images. For images as wide as they have channels, nobody complains and columns are "
    "normalized.",
    "x has the shape (2, 4, 3, 4) and running_mean (4,). To which axis does broadcasting match it?",
    lambda *args, **kwargs: _along_columns(*args, **kwargs),
)


def _update_first(
    in_training: bool, x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Move the running statistics and then normalize with them: in training as a mistake, or in evaluation."""
    if running_mean is None or training != in_training:
        return _RIGHT(x, running_mean, running_var, weight, bias, training, momentum, eps)
    _RIGHT(x, running_mean, running_var, None, None, True, momentum, eps)
    return _RIGHT(x, running_mean, running_var, weight, bias, False, momentum, eps)


def _corrected_by_batch(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    samples = z.shape[0]
    return z.mean(dims), z.var(dims, correction=0) * (samples / (samples - 1) if samples > 1 else float("inf"))


def _in_mode(train: Callable, evaluate: Callable, *args, **kwargs) -> Tensor:
    return (train if kwargs.get("training") else evaluate)(*args, **kwargs)


def _along_columns(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        return _RIGHT(x, running_mean, running_var, weight, bias, training, momentum, eps)
    y = over_root(x.float() - running_mean, running_var, eps)
    return affine(y, per_channel(weight, x.ndim), per_channel(bias, x.ndim)).to(x.dtype)


def _batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)

    def train(name: str, stage: str, x: Tensor, letters: str, gradients=(), compares=None, **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, training=True, **others), gradients, compares)

    def evaluate(name: str, stage: str, x: Tensor, letters: str, gradients=(), compares=None, **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others), gradients, compares)

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    output = ("output",)
    statistics = [
        train("vectors", "statistics", numbers(8, 3, seed=1), "NC", compares=output),
        train("signals", "statistics", numbers(4, 3, 5, seed=2), "NCL", compares=output),
        train("signals as long as channels", "statistics", numbers(4, 5, 5, seed=3), "NCL", compares=output),
        train("images", "statistics", numbers(3, 2, 3, 4, seed=4), "NCHW", compares=output),
        train("one image", "statistics", numbers(1, 2, 3, 4, seed=5), "NCHW", compares=output),
        train("volumes", "statistics", numbers(2, 2, 2, 2, 3, seed=6), "NCDHW", compares=output),
        train("not contiguous", "statistics", numbers(2, 3, 4, 3, seed=7).permute(0, 3, 1, 2), "NCHW", compares=output),
        train(
            "an affine step that changes nothing", "statistics", numbers(8, 3, seed=8), "NC", compares=output, **ones
        ),
    ]
    running = [
        train("vectors, one step", "running statistics", numbers(4, 3, seed=14), "NC"),
        train("two vectors, one step", "running statistics", numbers(2, 3, seed=15), "NC"),
        train("images, one step", "running statistics", numbers(3, 2, 2, 3, seed=16), "NCHW"),
        train("momentum=0.5", "running statistics", numbers(4, 3, seed=17), "NC", momentum=0.5),
        train("running_mean=None", "no running statistics", numbers(4, 3, seed=18), "NC", running=False),
    ]
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20)}
    return in_stages(
        [
            *statistics,
            evaluate("vectors, evaluation", "evaluation", numbers(4, 3, seed=10), "NC", compares=output),
            evaluate("one vector, evaluation", "evaluation", numbers(1, 3, seed=11), "NC", compares=output),
            evaluate("images, evaluation", "evaluation", numbers(2, 4, 3, 4, seed=12), "NCHW", compares=output),
            evaluate("evaluation, no step", "running statistics in evaluation", numbers(4, 3, seed=10), "NC"),
            *running,
            train("values near 0.001", "epsilon", numbers(6, 3, seed=20, scale=2.0**-12), "NC", compares=output),
            train("values near 0.00001", "epsilon", numbers(6, 3, seed=21, scale=2.0**-18), "NC", compares=output),
            train("eps=0.5", "epsilon", numbers(6, 3, seed=22, scale=1.0), "NC", compares=output, eps=0.5),
            train("channels of equal values", "epsilon", torch.full((4, 3), 4.0), "NC", compares=output),
            evaluate("small running_var", "epsilon", numbers(4, 3, seed=24, scale=2.0**-10), "NC", **small),
            train("weight", "affine", numbers(4, 3, 5, seed=25), "NCL", compares=output, weight=True),
            train("bias", "affine", numbers(4, 3, 5, seed=26), "NCL", compares=output, bias=True),
            train("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", compares=output, **both),
            train("vectors with weights", "affine", numbers(6, 3, seed=28), "NC", compares=output, **both),
            evaluate("weights in evaluation", "affine", numbers(2, 3, 4, seed=29), "NCL", **both),
            train("gradient of x", "gradient", numbers(6, 3, seed=30, scale=1.0), "NC", ("x",)),
            train("weights, gradients", "gradient", numbers(2, 3, 2, 2, seed=31, scale=1.0), "NCHW", tracked, **both),
            evaluate("gradients in evaluation", "gradient", numbers(4, 3, seed=32), "NC", tracked, **both),
            offset_probe(running_call(numbers(48, 64, seed=33, scale=0.25, offset=1e4), "NC", training=True)),
            *pair_probes(lambda values: running_call(values.t().contiguous(), "NC", training=True)),
            *half_probes(running_call, {"training": True}, {"training": True, **both}, tracked),
            Probe("bfloat16, evaluation", "half precision", running_call(numbers(4, 3, seed=13).bfloat16(), "NC"),
                  compares=output, rough=True),
        ]
    )  # fmt: skip


batch_norm = Check("batch_norm", _batch_norm, _probes(), MISTAKES, updates=("running_mean", "running_var"))
