"""The check of group norm: which channels make a group, and which axes belong to it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.calls import Call, Probe
from course_utils.check.exercise import Check
from course_utils.check.finish_mistakes import add_bias_mistakes, add_channel_mistakes, behind_a_view
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_mistakes import add_centring_mistakes, add_common_mistakes
from course_utils.check.norm_probes import (
    channel_parameters,
    half_probes,
    in_stages,
    numbers,
    offset_probe,
    pair_probes,
)
from course_utils.check.norm_recipes import affine, group_norm_with, per_channel

__all__ = ["group_norm"]

MISTAKES = Catalogue()
add_centring_mistakes(MISTAKES, group_norm_with)
add_common_mistakes(MISTAKES, group_norm_with, group_norm_with())
add_bias_mistakes(MISTAKES, group_norm_with)


def _call(x: Tensor, letters: str, num_groups: int, **others: Any) -> Call:
    parameters = channel_parameters(x.shape[1], x.dtype, **others)
    return Call({"x": x, "num_groups": num_groups, **parameters}, {"x": letters, "weight": "C", "bias": "C"})


def _groups_mistakes() -> None:
    def flattened(z: Tensor) -> Tensor:
        return z.reshape(*z.shape[:2], -1)

    MISTAKES.add(
        "strided_groups",
        "groups of channels that are not neighbours",
        "A group takes every num_groups-th channel, where it should take consecutive ones.",
        "With 6 channels and 2 groups, channels 0, 1, 2 belong together. Weights trained with one grouping do "
        "not fit the other.",
        "reshape fills the last axis first. Which shape puts channels 0, 1, 2 into one row?",
        _strided,
    )
    MISTAKES.add(
        "group_size_confused",
        "the number of groups taken for their size",
        "num_groups is used as the number of channels in a group.",
        "With 6 channels and num_groups=2 there are 2 groups of 3 channels, not 3 groups of 2.",
        "How many means does a sample of 6 channels have with num_groups=2?",
        group_norm_with(lambda z, groups: z.reshape(z.shape[0], z.shape[1] // groups, -1)),
    )
    MISTAKES.add(
        "one_group",
        "a layer norm: all channels in one group",
        "num_groups has no effect: all channels share one mean and variance.",
        "This is group norm with one group, which is layer norm over channels and positions.",
        "Compare your outputs for num_groups=1 and num_groups=2.",
        group_norm_with(lambda z, groups: z.reshape(z.shape[0], 1, -1)),
    )
    MISTAKES.add(
        "every_channel_alone",
        "an instance norm: every channel on its own",
        "num_groups has no effect: every channel has a mean and variance of its own.",
        "This is group norm with as many groups as channels, which is instance norm.",
        "Compare your outputs for num_groups=1 and num_groups=2.",
        group_norm_with(lambda z, groups: flattened(z)),
    )
    MISTAKES.add(
        "positions_apart",
        "statistics for each position",
        "Every position has statistics of its own, taken over the channels of a group only.",
        "A group's mean is over its channels and all positions. For one position there may be two or three "
        "values: their variance says little, and contrast between positions is lost.",
        "For x of shape (2, 6, 4, 4) and two groups: over how many values is a mean taken?",
        _positions_apart,
    )
    MISTAKES.add(
        "samples_together",
        "statistics over the batch",
        "The statistics are taken over the batch as well.",
        "Group norm was made for small batches: no sample may depend on the others, in training or after it.",
        "Change the second sample. Should the first sample of the output move?",
        _samples_together,
    )
    MISTAKES.add(
        "four_axes_only",
        "works for images only",
        "It fails for inputs that do not have exactly four axes.",
        "Group norm takes (N, C) and (N, C, L) and (N, C, D, H, W) as well.",
        "Where does your function name H and W? Could it do without them?",
        _four_axes_only,
    )
    MISTAKES.add(
        "affine_per_group",
        "one weight for a group",
        "All channels of a group are scaled by the weight of the first one.",
        "Statistics are shared by a group; weight and bias are not: there is one of each for every channel.",
        "How many entries does the weight have, and how many groups are there?",
        lambda x, num_groups, weight=None, bias=None, eps=1e-5: group_norm_with()(
            x, num_groups, _first_of_group(weight, num_groups), _first_of_group(bias, num_groups), eps
        ),
    )
    MISTAKES.add(
        "view_needs_contiguous",
        "a view that needs a contiguous input",
        "It fails for an input that is not contiguous, such as a transposed one or one in channels_last.",
        "Images are often kept in channels_last, which is faster for convolutions.",
        "Read the error: which call insists on the layout in memory, and what does not?",
        behind_a_view(group_norm_with()),
    )


def _strided(x, num_groups, weight=None, bias=None, eps=1e-5):
    shuffled = x.reshape(x.shape[0], -1, num_groups, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
    y = group_norm_with()(shuffled, num_groups, None, None, eps)
    y = y.reshape(x.shape[0], num_groups, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
    return _channel_affine(y, weight, bias)


def _channel_affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(y, per_channel(weight, y.ndim), per_channel(bias, y.ndim))


def _positions_apart(x, num_groups, weight=None, bias=None, eps=1e-5):
    last = x.movedim(1, -1)
    y = group_norm_with()(last.reshape(-1, x.shape[1]), num_groups, None, None, eps)
    return _channel_affine(y.reshape(last.shape).movedim(-1, 1), weight, bias)


def _samples_together(x, num_groups, weight=None, bias=None, eps=1e-5):
    whole = x.transpose(0, 1).reshape(1, x.shape[1], -1)
    y = group_norm_with()(whole, num_groups, None, None, eps)
    y = y.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1)
    return _channel_affine(y, weight, bias)


def _four_axes_only(x, num_groups, weight=None, bias=None, eps=1e-5):
    _, _, _, _ = x.shape
    return group_norm_with()(x, num_groups, weight, bias, eps)


def _first_of_group(parameter: Tensor | None, num_groups: int) -> Tensor | None:
    if parameter is None:
        return None
    return parameter.reshape(num_groups, -1)[:, :1].expand(num_groups, parameter.numel() // num_groups).flatten()


_groups_mistakes()
add_channel_mistakes(MISTAKES, group_norm_with)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    ones = {"weight": torch.ones(6), "bias": torch.zeros(6)}
    statistics = [
        ("images in two groups", _call(numbers(2, 6, 2, 3, seed=1), "NCHW", 2)),
        ("images in three groups", _call(numbers(2, 6, 2, 3, seed=2), "NCHW", 3)),
        ("images in one group", _call(numbers(2, 4, 3, 3, seed=3), "NCHW", 1)),
        ("images, every channel a group", _call(numbers(2, 4, 3, 3, seed=4), "NCHW", 4)),
        ("signals", _call(numbers(3, 6, 5, seed=5), "NCL", 2)),
        ("vectors", _call(numbers(4, 6, seed=6), "NC", 2)),
        ("volumes", _call(numbers(2, 4, 2, 2, 3, seed=7), "NCDHW", 2)),
        ("not contiguous", _call(numbers(2, 2, 3, 6, seed=8).permute(0, 3, 1, 2), "NCHW", 2)),
        ("an affine step that changes nothing", _call(numbers(2, 6, 2, 3, seed=9), "NCHW", 2, **ones)),
    ]
    return in_stages(
        [
            *(Probe(name, "statistics", call) for name, call in statistics),
            Probe("values near 0.001", "epsilon", _call(numbers(2, 4, 3, seed=10, scale=2.0**-12), "NCL", 2)),
            Probe("values near 0.00001", "epsilon", _call(numbers(2, 4, 3, seed=11, scale=2.0**-18), "NCL", 2)),
            Probe("eps=0.5", "epsilon", _call(numbers(2, 4, 3, seed=12, scale=1.0), "NCL", 2, eps=0.5)),
            Probe("groups of equal values", "epsilon", _call(torch.full((2, 4, 3), 4.0), "NCL", 2)),
            Probe("weight", "affine", _call(numbers(2, 6, 2, 3, seed=13), "NCHW", 2, weight=True)),
            Probe("bias", "affine", _call(numbers(2, 6, 2, 3, seed=14), "NCHW", 2, bias=True)),
            Probe("weight and bias", "affine", _call(numbers(2, 6, 2, 3, seed=15), "NCHW", 3, **both)),
            Probe("as wide as channels", "affine", _call(numbers(2, 4, 3, 4, seed=16), "NCHW", 2, **both)),
            Probe("vectors with weights", "affine", _call(numbers(4, 6, seed=17), "NC", 2, **both)),
            Probe("gradient of x", "gradient", _call(numbers(2, 4, 3, seed=18, scale=1.0), "NCL", 2), ("x",)),
            Probe("gradients with weights", "gradient",
                  _call(numbers(2, 6, 2, 2, seed=19, scale=1.0), "NCHW", 2, **both), ("x", *both)),
            offset_probe(_call(numbers(16, 8, 24, seed=20, scale=0.25, offset=1e4), "NCL", 4)),
            *pair_probes(lambda values: _call(values.reshape(1, 4, 1), "NCL", 2)),
            *half_probes(lambda x, letters, **others: _call(x, letters, 2, **others), {}, both, ("x", *both)),
        ]
    )  # fmt: skip


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, weight, bias, eps)


group_norm = Check("group_norm", _group_norm, _probes(), MISTAKES)
