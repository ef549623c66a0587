"""The check of instance norm: every sample and channel on its own, with running statistics where they are wanted."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.calls import Call, Probe
from course_utils.check.exercise import Check
from course_utils.check.finish_mistakes import add_bias_mistakes, add_channel_mistakes
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_mistakes import add_centring_mistakes, add_common_mistakes
from course_utils.check.norm_probes import half_probes, in_stages, numbers, offset_probe, pair_probes, running_call
from course_utils.check.norm_recipes import instance_norm_with
from course_utils.check.running_mistakes import add_running_mistakes

__all__ = ["instance_norm"]

_RIGHT = instance_norm_with()
MISTAKES = Catalogue()
add_centring_mistakes(MISTAKES, instance_norm_with)
add_common_mistakes(MISTAKES, instance_norm_with, _RIGHT)
add_bias_mistakes(MISTAKES, instance_norm_with)
add_channel_mistakes(MISTAKES, instance_norm_with)
add_running_mistakes(MISTAKES, instance_norm_with, "use_input_stats", _RIGHT)

MISTAKES.add(
    "samples_together",
    "a batch norm: statistics over the batch",
    "It averages over the batch as well, which makes it a batch norm.",
    "Instance norm removes the contrast and brightness of each image; over the batch, it removes only what the "
    "images have in common, and the samples depend on each other.",
    "For x of shape (8, 3, 32, 32): are there 3 means or 24?",
    instance_norm_with(lambda x: (0, *range(2, x.ndim))),
)
MISTAKES.add(
    "channels_together",
    "a layer norm: statistics over the channels",
    "It averages over the channels as well, which makes it a layer norm.",
    "In style transfer each channel's own mean and variance are the style; averaged over channels they are lost.",
    "For x of shape (8, 3, 32, 32): are there 8 means or 24?",
    instance_norm_with(lambda x: tuple(range(1, x.ndim))),
)
MISTAKES.add(
    "whole_tensor",
    "one statistic for the whole tensor",
    "It averages over the whole tensor.",
    "Samples and channels then depend on each other, and only a common scale is removed.",
    "For x of shape (8, 3, 32, 32): are there 24 means or one?",
    instance_norm_with(lambda x: tuple(range(x.ndim))),
)
MISTAKES.add(
    "rows_apart",
    "only the last axis",
    "It averages over the last axis only, so that every row of an image has statistics of its own.",
    "An image then loses what distinguishes its rows: a sky above a field becomes two equal stripes.",
    "For x of shape (8, 3, 32, 32): over how many values is a mean taken?",
    instance_norm_with(lambda x: (-1,)),
)
MISTAKES.add(
    "ignores_use_input_stats",
    "use_input_stats has no effect",
    "With use_input_stats=False it still normalizes with the statistics of the input.",
    "nn.InstanceNorm2d(track_running_stats=True) relies on it in evaluation.",
    "What does your function do differently when use_input_stats is False?",
    instance_norm_with(use=lambda on: True),
    instance_norm_with(use=lambda on: True, follow=lambda on: True),
)
MISTAKES.add(
    "prefers_running",
    "running statistics used as soon as there are any",
    "With use_input_stats=True it normalizes with the running statistics, because they were passed in.",
    "They are there to be updated; they normalize only where use_input_stats is False.",
    "What are running_mean and running_var for when use_input_stats is True?",
    instance_norm_with(use=lambda on: False),
)
MISTAKES.add(
    "updates_in_eval",
    "running statistics that move in evaluation",
    "With use_input_stats=False the running statistics are updated as well.",
    "Evaluating a model then changes it, and the second evaluation gives another result than the first.",
    "Which part of your function should depend on use_input_stats?",
    instance_norm_with(follow=lambda on: True),
)
MISTAKES.add(
    "pooled_running_var",
    "the variance of the whole batch in running_var",
    "running_var receives the variance over all samples together.",
    "Instance norm stores the average of the variances of the samples. The variance of the pool also contains "
    "how far their means lie apart.",
    "Two samples, [1, 1] and [3, 3]. What is the average of their variances, and what the variance of all four values?",
    instance_norm_with(batch_statistics=lambda z, dims: _pooled(z, 1)),
    instance_norm_with(batch_statistics=lambda z, dims: _pooled(z, 0)),
)


def _pooled(z: Tensor, correction: int) -> tuple[Tensor, Tensor]:
    dims = (0, *range(2, z.ndim))
    return z.mean(dims), z.var(dims, correction=correction)


def _instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)
    frozen = {"use_input_stats": False}

    def without_buffers(x: Tensor, letters: str, **others: Any) -> Call:
        return running_call(x, letters, running=False, **others).without("running_mean").without("running_var")

    def plain(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, without_buffers(x, letters, **others), gradients)

    def output_only(name: str, x: Tensor, letters: str, stage="statistics", **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others), compares=("output",))

    def running(name: str, stage: str, x: Tensor, letters: str, **others: Any) -> Probe:
        return Probe(name, stage, running_call(x, letters, **others))

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    images = numbers(3, 2, 2, 3, seed=16)
    statistics = [
        output_only("images", numbers(2, 3, 2, 4, seed=1), "NCHW"),
        output_only("signals", numbers(2, 3, 5, seed=2), "NCL"),
        output_only("signals as long as channels", numbers(2, 4, 4, seed=3), "NCL"),
        output_only("volumes", numbers(2, 2, 2, 2, 3, seed=4), "NCDHW"),
        output_only("not contiguous", numbers(2, 3, 4, 3, seed=5).permute(0, 3, 1, 2), "NCHW"),
        output_only("an affine step that changes nothing", numbers(2, 3, 4, seed=6), "NCL", **ones),
    ]
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20), **frozen}
    return in_stages(
        [
            *statistics,
            output_only("images, evaluation", numbers(2, 4, 3, 4, seed=10), "NCHW", "evaluation", **frozen),
            output_only("signals, evaluation", numbers(2, 3, 4, seed=11), "NCL", "evaluation", **frozen),
            running("evaluation, no step", "running statistics in evaluation", numbers(2, 3, 4, seed=11), "NCL",
                    **frozen),
            running("images, one step", "running statistics", images, "NCHW"),
            running("signals of two, one step", "running statistics", numbers(3, 2, 2, seed=17), "NCL"),
            running("momentum=0.5", "running statistics", images, "NCHW", momentum=0.5),
            plain("no running statistics", "no running statistics", numbers(2, 3, 2, 4, seed=18), "NCHW"),
            plain("values near 0.001", "epsilon", numbers(2, 3, 4, seed=20, scale=2.0**-12), "NCL"),
            plain("values near 0.00001", "epsilon", numbers(2, 3, 4, seed=21, scale=2.0**-18), "NCL"),
            plain("eps=0.5", "epsilon", numbers(2, 3, 4, seed=22, scale=1.0), "NCL", eps=0.5),
            plain("instances of equal values", "epsilon", torch.full((2, 3, 4), 4.0), "NCL"),
            running("small running_var", "epsilon", numbers(2, 3, 4, seed=24, scale=2.0**-10), "NCL", **small),
            plain("weight", "affine", numbers(2, 3, 5, seed=25), "NCL", weight=True),
            plain("bias", "affine", numbers(2, 3, 5, seed=26), "NCL", bias=True),
            plain("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", **both),
            plain("signals with weights", "affine", numbers(2, 3, 5, seed=28), "NCL", **both),
            running("weights in evaluation", "affine", numbers(2, 3, 4, seed=29), "NCL", **frozen, **both),
            plain("gradient of x", "gradient", numbers(2, 3, 5, seed=30, scale=1.0), "NCL", ("x",)),
            plain("weights, gradients", "gradient", numbers(2, 3, 2, 3, seed=31, scale=1.0), "NCHW", tracked, **both),
            Probe("gradients, running statistics", "gradient",
                  running_call(numbers(2, 3, 5, seed=32, scale=1.0), "NCL", **both), tracked),
            offset_probe(without_buffers(numbers(8, 8, 48, seed=33, scale=0.25, offset=1e4), "NCL")),
            # Without a float32 weight, torch's own keeps its statistics in half precision.
            *pair_probes(lambda values: running_call(values[None], "NCL", weight=torch.ones(2), bias=torch.zeros(2))),
            *half_probes(running_call, {"weight": torch.ones(4), "bias": torch.zeros(4)}, both, tracked),
        ]
    )  # fmt: skip


instance_norm = Check("instance_norm", _instance_norm, _probes(), MISTAKES, updates=("running_mean", "running_var"))
