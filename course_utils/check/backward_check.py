"""The checks of the backward passes: layer, batch and RMS norm's gradients, held against autograd in float64."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.backward_mistakes import (
    Recipe,
    add_dx_mistakes,
    add_mean_mistakes,
    add_sum_mistakes,
    add_weight_mistakes,
)
from course_utils.check.backward_precision import add_eps_mistakes, add_precision_mistakes, add_side_effect_mistakes
from course_utils.check.backward_probes import channel_probes, trailing_probes
from course_utils.check.backward_recipes import (
    batch_norm_backward_with,
    combine,
    layer_norm_backward_with,
    rms_norm_backward_with,
)
from course_utils.check.calls import Call
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_recipes import eps_of_arithmetic

__all__ = ["batch_norm_backward", "layer_norm_backward", "rms_norm_backward"]


def _autograd(apply: Callable[..., Tensor], dy: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    leaves = tuple(leaf.detach().requires_grad_() for leaf in leaves)
    with torch.enable_grad():
        return torch.autograd.grad(apply(*leaves), leaves, dy)


def _refuse_too_few(values: int, fewest: int) -> None:
    """Keep the search for a small input from inputs on which dx is next to nothing, whatever dy is.

    Raises:
        ValueError: fewer than ``fewest`` values share a statistic.
    """
    if values < fewest:
        raise ValueError(f"at least {fewest} values must share a statistic: got {values}")


def _layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5):
    _refuse_too_few(torch.Size(normalized_shape).numel(), 3)
    weight = x.new_ones(normalized_shape) if weight is None else weight
    return _autograd(lambda x, w, b: F.layer_norm(x, normalized_shape, w, b, eps), dy, x, weight, 0 * weight)


def _batch_norm_backward(dy, x, weight=None, eps=1e-5):
    _refuse_too_few(x.numel() // x.shape[1], 3)
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    return _autograd(lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0, eps), dy, x, weight, 0 * weight)


def _rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):
    _refuse_too_few(torch.Size(normalized_shape).numel(), 2)
    weight = x.new_ones(normalized_shape) if weight is None else weight
    return _autograd(lambda x, w: F.rms_norm(x, normalized_shape, w, eps), dy, x, weight)


def _add_common(
    catalogue: Catalogue, recipe: Recipe, *, has_mean: bool, weight_is_shared: bool, other_eps: Sequence[float]
) -> None:
    root = "standard deviation" if has_mean else "root mean square"
    add_sum_mistakes(catalogue, recipe, "dweight and dbias" if has_mean else "dweight")
    if has_mean:
        add_mean_mistakes(catalogue, recipe)
    add_dx_mistakes(catalogue, recipe, root, has_mean=has_mean)
    add_weight_mistakes(catalogue, recipe, weight_is_shared=weight_is_shared)
    add_eps_mistakes(catalogue, recipe, root, tuple(other_eps))
    add_precision_mistakes(catalogue, recipe, has_mean=has_mean)
    add_side_effect_mistakes(catalogue, recipe())


def _over(dims: Callable[[Tensor], tuple[int, ...]]) -> dict[str, Callable]:
    """Return the step that takes the projections over ``dims(x)``, with x̂ as it should be."""
    return {"dx": lambda p: combine(replace(p, dims=dims(p.x)))}


def _add_dims_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about which axes ``normalized_shape`` names, for layer and RMS norm."""
    catalogue.add(
        "sum_over_nothing",
        "a sum over no dimensions",
        "Where nothing stands in front of the normalized axes there is nothing to add up, and it sums over everything.",
        "In torch an empty tuple of dimensions means all of them: `sum(())` returns one number.",
        "For x of shape (3, 4) and normalized_shape (3, 4): over which dimensions does your sum run?",
        recipe(total=lambda terms, dims, dtype: terms.sum(dims)),
    )
    catalogue.add(
        "sums_over_wrong_dims",
        "dweight summed over the wrong dimensions",
        "dweight is summed over other dimensions than those in front of the normalized ones.",
        "A weight belongs to a place in normalized_shape, and is used once for everything in front of it.",
        "For x of shape (2, 3, 4) and normalized_shape (4,): which dimensions are missing in the shape of the weight?",
        recipe(summed=lambda x, shape: (0,) if x.ndim > len(shape) else ()),
        recipe(summed=lambda x, shape: tuple(range(-len(shape), 0))),
        recipe(summed=lambda x, shape: tuple(range(x.ndim - 1))),
        recipe(summed=lambda x, shape: tuple(range(x.ndim))),
        recipe(summed=lambda x, shape: (-1,)),
    )
    catalogue.add(
        "statistics_over_wrong_dims",
        "statistics over the wrong dimensions",
        "x̂ is computed over other dimensions than those that normalized_shape names.",
        "The gradient must belong to the forward pass: its statistics are over the last len(normalized_shape) axes.",
        "For x of shape (2, 3, 4) and normalized_shape (4,): how many statistics are there?",
        recipe(dims=lambda x, shape: tuple(range(1, x.ndim)) or (0,)),
        recipe(dims=lambda x, shape: tuple(range(x.ndim))),
        recipe(dims=lambda x, shape: (-1,)),
        recipe(dims=lambda x, shape: (-len(shape),)),
        recipe(dims=lambda x, shape: (0,)),
        recipe(dims=lambda x, shape: (1 % x.ndim,)),
    )
    catalogue.add(
        "projections_over_wrong_dims",
        "projections over the wrong dimensions",
        "x̂ is right, and the means inside dx run over other dimensions than its statistics did.",
        "What flows back through a statistic comes from everything that shares it, and from nothing else.",
        "Over which values was the mean taken in the forward pass? Those send their gradient back through it.",
        recipe(**_over(lambda x: (0,))),
        recipe(**_over(lambda x: tuple(range(x.ndim)))),
        recipe(**_over(lambda x: (-1,))),
        recipe(**_over(lambda x: tuple(range(1, x.ndim)) or (0,))),
        recipe(**_over(lambda x: tuple(range(x.ndim - 1)) or (0,))),
    )
    catalogue.add(
        "missing_keepdim",
        "means without keepdim",
        "The means have lost the axis that they were taken over, so they broadcast along the wrong one.",
        "With four rows of four features nothing complains: each column gets the mean of some row. With other sizes it "
        "is an error.",
        "What is the shape of your mean for x of shape (5, 6), and what should it be to stand beside every row?",
        recipe(dx=_without_keepdim),
        recipe(mean=lambda z, dims, dtype: z.mean(dims), spread=lambda z, mean, dims: z.var(dims, correction=0)),
    )


def _without_keepdim(p):
    dx = p.g - p.x_hat * (p.g * p.x_hat).mean(p.dims)
    return p.rstd * (dx - p.g.mean(p.dims) if p.subtracts_mean else dx)


LAYER = Catalogue()
_add_dims_mistakes(LAYER, layer_norm_backward_with)
_add_common(
    LAYER, layer_norm_backward_with, has_mean=True, weight_is_shared=False, other_eps=(1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
)
LAYER.add(
    "not_centred",
    "an RMS norm: x̂ without the mean subtracted",
    "x̂ is x divided by its root mean square: the mean is still in it.",
    "x̂ must be what the forward pass made: centred and scaled.",
    "What is the mean of your x̂?",
    layer_norm_backward_with(mean=lambda z, dims, dtype: z.new_zeros(())),
)

RMS = Catalogue()
_add_dims_mistakes(RMS, rms_norm_backward_with)
_add_common(
    RMS, rms_norm_backward_with, has_mean=False, weight_is_shared=False,
    other_eps=(torch.finfo(torch.float32).eps, 1e-5, 1e-6, 1e-8, 1e-12),
)  # fmt: skip
RMS.add(
    "subtracts_mean",
    "layer norm's x̂: the mean is subtracted",
    "x̂ is computed from the centred input, as in layer norm.",
    "RMS norm never subtracts a mean, so its x̂ is x times a factor.",
    "What is x̂ when all values are 3?",
    rms_norm_backward_with(mean=lambda z, dims, dtype: z.mean(dims, keepdim=True)),
    rms_norm_backward_with(subtracts_mean=True, mean=lambda z, dims, dtype: z.mean(dims, keepdim=True)),
)
RMS.add(
    "projects_out_the_mean",
    "the component along a constant taken off",
    "dx loses its mean, as layer norm's does.",
    "RMS norm does not forget an offset, so the gradient may well ask for one: a projection less is what is left "
    "when the mean is gone.",
    "Add 1 to every value of x. Does the output of an RMS norm change?",
    rms_norm_backward_with(subtracts_mean=True),
)
RMS.add(
    "eps_of_input_dtype",
    "eps=None taken from the input's dtype",
    "For eps=None it takes the machine epsilon of the input's dtype, which for bfloat16 is 0.0078.",
    "The forward pass takes the epsilon of the dtype that it computes in: 1.2e-7, for half precision as well.",
    "What is torch.finfo(torch.bfloat16).eps, and what is the mean square of values near 0.01?",
    rms_norm_backward_with(default_eps=lambda x: torch.finfo(x.dtype).eps),
)
RMS.add(
    "wrong_default_eps",
    "another default for eps",
    "For eps=None it does not take torch's epsilon.",
    "It is invisible for values around 1 and decides the gradient for small ones. torch takes the machine epsilon of "
    "the dtype it computes in, 1.2e-7 for float32.",
    "What is torch.finfo(torch.float32).eps?",
    *(rms_norm_backward_with(default_eps=lambda x, own=own: own) for own in (1e-5, 1e-6, 1e-8, 1e-12)),
)
RMS.add(
    "zero_eps_replaced",
    "eps=0 taken for eps=None",
    "An eps of 0 is replaced by the default, as `eps or default` does.",
    "0 is a value and None is the absence of one.",
    "What is `0.0 or 1.0` in Python?",
    lambda dy, x, normalized_shape, weight=None, eps=None: rms_norm_backward_with()(
        dy, x, normalized_shape, weight, eps or None
    ),
)

BATCH = Catalogue()
_add_common(
    BATCH, batch_norm_backward_with, has_mean=True, weight_is_shared=True, other_eps=(1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
)
BATCH.add(
    "sums_over_wrong_dims",
    "dweight summed over the wrong dimensions",
    "dweight is not summed over the batch and all positions.",
    "A channel has one weight, used at every position of every sample.",
    "For x of shape (8, 3, 32, 32): how often is each weight used?",
    batch_norm_backward_with(summed=lambda x, shape: (0,)),
    batch_norm_backward_with(summed=lambda x, shape: (1,)),
    batch_norm_backward_with(summed=lambda x, shape: tuple(range(1, x.ndim))),
    batch_norm_backward_with(summed=lambda x, shape: tuple(range(x.ndim - 1))),
    batch_norm_backward_with(summed=lambda x, shape: tuple(range(x.ndim))),
)
BATCH.add(
    "statistics_over_wrong_dims",
    "statistics over the wrong dimensions",
    "x̂ is computed over other dimensions than the batch and all positions.",
    "Over the batch alone every position has statistics of its own; over a sample alone it is a layer norm.",
    "For x of shape (8, 3, 32, 32): over how many values is a mean taken?",
    batch_norm_backward_with(dims=lambda x, shape: (0,)),
    batch_norm_backward_with(dims=lambda x, shape: tuple(range(1, x.ndim))),
    batch_norm_backward_with(dims=lambda x, shape: tuple(range(2, x.ndim)) or (0,)),
    batch_norm_backward_with(dims=lambda x, shape: tuple(range(x.ndim - 1))),
    batch_norm_backward_with(dims=lambda x, shape: tuple(range(x.ndim))),
)
BATCH.add(
    "projections_over_wrong_dims",
    "projections over the wrong dimensions",
    "x̂ is right, and the means inside dx run over other dimensions than the batch and all positions.",
    "What flows back through a statistic comes from every value of the channel, in all samples and positions.",
    "In dx = γ·r·(dy − dβ/m − x̂·dγ/m), what is m for x of shape (8, 3, 32, 32)?",
    batch_norm_backward_with(**_over(lambda x: (0,))),
    batch_norm_backward_with(**_over(lambda x: (1,))),
    batch_norm_backward_with(**_over(lambda x: tuple(range(1, x.ndim)))),
    batch_norm_backward_with(**_over(lambda x: tuple(range(2, x.ndim)) or (0,))),
    batch_norm_backward_with(**_over(lambda x: tuple(range(x.ndim)))),
)
BATCH.add(
    "counts_samples_only",
    "divided by the batch size, not by all values",
    "The sums inside dx are divided by N, the number of samples, where a channel has m = N·H·W values.",
    "For vectors N and m are equal, and nobody sees it; for images of 8 × 8 both projections are 64 times too large.",
    "In dx = γ·r·(dy − dβ/m − x̂·dγ/m), what is m for x of shape (8, 3, 32, 32)?",
    batch_norm_backward_with(dx=lambda p: combine(p, p.x[0, 0].numel(), p.x[0, 0].numel())),
)
BATCH.add(
    "weight_along_last_axis",
    "the weight along the last axis",
    "The weight multiplies along the last axis, where it belongs to the channels, axis 1.",
    "It is an error for most images. For images as wide as they have channels nobody complains.",
    "x has the shape (2, 4, 3, 4) and the weight (4,). To which axis does broadcasting match it?",
    batch_norm_backward_with(parameter=lambda weight, ndim: weight),
)


def _spell_out_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for, which depends on the dtype."""
    return call.replace(eps=eps_of_arithmetic(call.arguments["x"])) if call.arguments.get("eps") is None else call


layer_norm_backward = Check(
    "layer_norm_backward",
    _layer_norm_backward,
    trailing_probes(has_mean=True),
    LAYER,
    returns=("dx", "dweight", "dbias"),
)
batch_norm_backward = Check(
    "batch_norm_backward", _batch_norm_backward, channel_probes(), BATCH, returns=("dx", "dweight", "dbias")
)
rms_norm_backward = Check(
    "rms_norm_backward",
    _rms_norm_backward,
    trailing_probes(has_mean=False),
    RMS,
    returns=("dx", "dweight"),
    spell_out=_spell_out_eps,
)
