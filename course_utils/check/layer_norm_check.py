"""The check of layer norm; the mistakes about which axes ``normalized_shape`` names are RMS norm's too."""

import torch
import torch.nn.functional as F

from course_utils.check.calls import Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.finish_mistakes import Norm, Recipe, add_bias_mistakes, behind_a_view
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_mistakes import add_centring_mistakes, add_common_mistakes
from course_utils.check.norm_probes import in_stages, numbers, offset_probe, pair_probes, trailing_call, trailing_probes
from course_utils.check.norm_recipes import affine, layer_norm_with, widen

__all__ = ["KEEPDIM", "add_dims_mistakes", "layer_norm"]


def add_dims_mistakes(catalogue: Catalogue, recipe: Recipe, right: Norm) -> None:
    """Add the mistakes about which axes ``normalized_shape`` names."""
    catalogue.add(
        "all_dims_but_batch",
        "statistics over everything but the batch",
        "It averages over every axis but the first, whatever normalized_shape says.",
        "In a batch of sequences the tokens of a sequence then share a mean: padding and, in a language model, "
        "the future leak into every token.",
        "For x of shape (2, 3, 4) and normalized_shape (4,): how many means are there?",
        recipe(lambda x, shape: tuple(range(1, x.ndim)) or (0,)),
    )
    catalogue.add(
        "whole_tensor",
        "one statistic for the whole tensor",
        "It averages over the whole tensor, so that every row gets the same statistics.",
        "The samples of a batch then depend on each other.",
        "Change the second row. Should the first row of the output move?",
        recipe(lambda x, shape: tuple(range(x.ndim))),
    )
    catalogue.add(
        "one_dim_only",
        "only one of the normalized axes",
        "It averages over a single axis where normalized_shape names several.",
        "normalized_shape = (3, 4) means one statistic over the twelve values of both axes.",
        "For x of shape (5, 3, 4) and normalized_shape (3, 4): how many means are there?",
        recipe(lambda x, shape: (-1,)),
        recipe(lambda x, shape: (-len(shape),)),
    )
    catalogue.add(
        "wrong_end",
        "axes counted from the front",
        "It averages over the first axes, where normalized_shape names the last ones.",
        "Over the batch axis this is a batch norm: a sample's output depends on the samples beside it.",
        "normalized_shape describes the end of x.shape. From which side do you count?",
        recipe(lambda x, shape: (0,)),
        recipe(lambda x, shape: tuple(range(len(shape)))),
    )
    catalogue.add(
        "second_dim",
        "statistics over axis 1",
        "It averages over axis 1, which is the last axis only as long as the input has two.",
        "For a batch of sequences, axis 1 is time: every feature is then normalized over the tokens.",
        "Which axes should it be for x of shape (2, 3, 4) and normalized_shape (4,)?",
        recipe(lambda x, shape: (1,)),
    )
    catalogue.add(
        "view_needs_contiguous",
        "a view that needs a contiguous input",
        "It fails for an input that is not contiguous, such as a transposed one.",
        "Attention code transposes and slices all the time; the norm has to take what it gets.",
        "Read the error: which call insists on the layout in memory, and what does not?",
        behind_a_view(right),
    )


MISTAKES = Catalogue()
add_centring_mistakes(MISTAKES, layer_norm_with)
add_common_mistakes(MISTAKES, layer_norm_with, layer_norm_with())
add_bias_mistakes(MISTAKES, layer_norm_with)
add_dims_mistakes(MISTAKES, layer_norm_with, layer_norm_with())

KEEPDIM = {
    "title": "statistics without keepdim",
    "wrong": "The statistics have lost the axis that they were taken over, so they broadcast along the wrong one.",
    "matters": "With four rows of four features nothing complains: each column gets the mean of some row. With "
    "other sizes it is an error.",
    "hint": "What is the shape of your mean for x of shape (5, 6), and what should it be to stand beside every row?",
}


@MISTAKES.mistake(**KEEPDIM)
def missing_keepdim(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z, dims = widen(x), tuple(range(-len(normalized_shape), 0))
    centred = z - z.mean(dims)
    return affine(centred * torch.rsqrt(z.var(dims, correction=0) + eps), weight, bias).to(x.dtype)


@MISTAKES.form_of("missing_keepdim")
def missing_keepdim_twice(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z, dims = widen(x), tuple(range(-len(normalized_shape), 0))
    centred = z - z.mean(dims)
    return affine(centred * torch.rsqrt(centred.square().mean(dims) + eps), weight, bias).to(x.dtype)


@MISTAKES.mistake(
    title="one weight for all features",
    wrong="A single number scales all features, and a single one shifts them.",
    matters="The weight has an entry for each normalized element, so that the network can undo the norm feature "
    "by feature.",
    hint="Give a weight of [1, 2, 3]. Which feature should be multiplied by what?",
)
def scalar_affine(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    weight, bias = (None if parameter is None else parameter.flatten()[0] for parameter in (weight, bias))
    return layer_norm_with()(x, normalized_shape, weight, bias, eps)


@MISTAKES.form_of("scalar_affine")
def mean_affine(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    weight, bias = (None if parameter is None else parameter.mean() for parameter in (weight, bias))
    return layer_norm_with()(x, normalized_shape, weight, bias, eps)


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def _probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    biased = [
        Probe("bias", "affine", trailing_call(numbers(5, 6, seed=14), "BC", bias=True)),
        Probe(
            "bfloat16 with weight and bias",
            "half-precision affine",
            trailing_call(integers(16, 16, seed=23, scale=16.0).bfloat16(), "BC", **both),
            rough=True,
        ),
        Probe("weight and bias", "affine", trailing_call(numbers(5, 6, seed=16), "BC", **both)),
    ]
    pairs = pair_probes(lambda values: trailing_call(values, "BC"))
    offset = offset_probe(trailing_call(integers(64, 48, seed=20, scale=0.25, offset=1e4), "BC"))
    return in_stages(
        [*trailing_probes(both, {"weight": torch.ones(6), "bias": torch.zeros(6)}), *biased, offset, *pairs]
    )


layer_norm = Check("layer_norm", _layer_norm, _probes(), MISTAKES)
