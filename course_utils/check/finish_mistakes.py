"""The mistakes that every norm invites after its statistics: affine step, gradient, dtype, side effects."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_recipes import affine, as_dtype, as_given, mean_square, variance

__all__ = [
    "Norm",
    "Recipe",
    "add_affine_mistakes",
    "add_bias_mistakes",
    "add_channel_mistakes",
    "add_dtype_mistakes",
    "add_gradient_mistakes",
    "add_mutation_mistake",
    "behind_a_view",
]

Norm = Callable[..., Tensor]
Recipe = Callable[..., Norm]


def add_affine_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about the affine step of any norm."""
    catalogue.add(
        "affine_first",
        "scaled and shifted before normalizing",
        "Weight and bias are applied to the input, and the norm comes after them.",
        "The norm then removes what they did: a common scale and shift vanish, and the layer cannot learn them.",
        "With every weight 2 and every bias 1, what should the output for [1, 2] be?",
        recipe(before=affine, affine=as_given),
    )
    catalogue.add(
        "ignores_weight",
        "the weight is not applied",
        "The weight has no effect on the output.",
        "A trained model keeps part of what it has learnt in these weights.",
        "What does your function do differently when a weight is given?",
        recipe(affine=lambda y, weight, bias: affine(y, None, bias)),
    )
    catalogue.add(
        "one_plus_weight",
        "multiplied by 1 + weight",
        "The output is multiplied by 1 + weight.",
        "Gemma's norms do this, so that a weight of 0 changes nothing. torch.nn multiplies by the weight itself, which "
        "starts at 1: a checkpoint of one gives nonsense in the other.",
        "With a weight of 0, what should the output be?",
        recipe(affine=lambda y, weight, bias: affine(y, None if weight is None else 1 + weight, bias)),
    )
    catalogue.add(
        "needs_weight",
        "does not work without a weight",
        "It fails when no weight is given: weight=None means that there is no affine step.",
        "elementwise_affine=False and affine=False are in daily use, in diffusion transformers for one.",
        "What is the default of weight, and what does your function do with it?",
        recipe(affine=lambda y, weight, bias: y * weight + (0 if bias is None else bias)),
    )


def add_bias_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about the bias, for the norms that have one."""
    catalogue.add(
        "ignores_bias",
        "the bias is not applied",
        "The bias has no effect on the output.",
        "A trained model keeps part of what it has learnt in its biases.",
        "What is your output where the normalized value is 0?",
        recipe(affine=lambda y, weight, bias: affine(y, weight, None)),
    )
    catalogue.add(
        "bias_needs_weight",
        "a bias without a weight is dropped",
        "The bias is applied only when there is a weight as well.",
        "Weight and bias are independent options; each may be None.",
        "Trace your function with weight=None and a bias.",
        recipe(affine=lambda y, weight, bias: y if weight is None else affine(y, weight, bias)),
    )
    catalogue.add(
        "weight_needs_bias",
        "a weight without a bias fails or is dropped",
        "The weight works only when there is a bias as well.",
        "nn.LayerNorm(n, bias=False) is what several current language models use.",
        "Trace your function with a weight and bias=None.",
        recipe(affine=lambda y, weight, bias: y if bias is None else affine(y, weight, bias)),
        recipe(affine=lambda y, weight, bias: affine(y, None, bias) if weight is None else y * weight + bias),
    )
    catalogue.add(
        "bias_before_weight",
        "the bias is added before the weight multiplies",
        "It computes (normalized + bias) · weight.",
        "The shift that the bias makes then depends on the weight, and trained biases no longer fit.",
        "Where the normalized value is 0, what should be left: the bias, or the bias times the weight?",
        recipe(affine=lambda y, weight, bias: affine(affine(y, None, bias), weight, None)),
    )


def add_gradient_mistakes(catalogue: Catalogue, recipe: Recipe, right: Norm, statistic: str, centring: bool) -> None:
    """Add the mistakes that leave the output right and the gradient wrong or missing."""
    catalogue.add(
        "detached_statistics",
        f"no gradient through the {statistic}",
        f"The {statistic} are treated as constants by the backward pass (a detach, .data, .item() or no_grad).",
        "The output is right and the gradient is not. The statistics depend on every value; without their share, "
        "a step changes the scale of the values although the loss cannot see scale.",
        "The gradient of a norm, summed over the values that share a statistic, has a known value. What is yours?",
        *_detached(recipe, centring),
    )
    catalogue.add(
        "no_gradient",
        "no gradient at all",
        "The output is cut off from the input: no gradient flows back.",
        "Nothing below this layer would learn.",
        "Look for no_grad, detach, .data, numpy or torch.tensor(...) on the way from x to the output.",
        lambda *args, **kwargs: right(*args, **kwargs).detach(),
        lambda x, *args, **kwargs: right(x.detach(), *args, **kwargs),
    )


def _detached(recipe: Recipe, centring: bool) -> list[Norm]:
    """Return the forms of the mistake: the spread alone, the mean alone, both."""

    def detached_spread(c, z, dims):
        return mean_square(c, z, dims).detach()

    def detached_mean(z, dims):
        return z - z.mean(dims, keepdim=True).detach()

    forms = [recipe(spread=detached_spread)]
    if centring:
        forms += [recipe(centre=detached_mean), recipe(centre=detached_mean, spread=detached_spread)]
    return forms


def add_dtype_mistakes(catalogue: Catalogue, recipe: Recipe, right: Norm, centring: bool) -> None:
    """Add the mistakes about half precision."""
    catalogue.add(
        "half_statistics",
        "statistics in half precision",
        "For half-precision inputs the statistics are computed in half precision.",
        "bfloat16 has 8 significant bits and float16 ends at 65,504: a mean of 32 is rounded to a multiple of "
        "0.25, and the square of 300 is infinite. torch.nn.LayerNorm computes in float32 inside and rounds once.",
        "In which dtype is your mean? Which dtype would be enough, and where do you come back from it?",
        recipe(widen=as_given),
        *([recipe(widen=as_given, spread=variance)] if centring else []),
    )
    catalogue.add(
        "rounds_twice",
        "rounded before the affine step",
        "The normalized values are rounded to half precision before weight and bias are applied, and then once more.",
        "Each rounding may move the result by half a unit in the last place; torch.nn rounds once, at the very end. "
        "Hugging Face's Llama does exactly what you do, so it is a convention as well; it is not torch.nn's.",
        "In which dtype is the product with the weight computed?",
        recipe(narrow=as_dtype),
    )
    catalogue.add(
        "returns_float32",
        "float32 comes back for a half-precision input",
        "The output is float32 although the input is in half precision.",
        "The next layer then gets a dtype that it does not expect: an error at best, twice the memory at worst.",
        "Which dtype does the input have, and where do you return to it?",
        _widening_all(right),
    )


def _widening_all(right: Norm) -> Norm:
    def norm(*args, **kwargs):
        half = (torch.float16, torch.bfloat16)
        wide = [a.float() if isinstance(a, Tensor) and a.dtype in half else a for a in args]
        named = {k: a.float() if isinstance(a, Tensor) and a.dtype in half else a for k, a in kwargs.items()}
        return right(*wide, **named)

    return norm


def add_mutation_mistake(catalogue: Catalogue, right: Norm) -> None:
    """Add the mistake of working on x itself."""
    catalogue.add(
        "mutates_input",
        "the input is changed in place",
        "It changes its input: an in-place operation (such as -= or a method ending in _) works on x itself.",
        "The caller still holds x: a residual connection would add the normalized values instead of the original ones, "
        "and autograd refuses, or worse, differentiates the wrong thing.",
        "Which line would change x if you printed it before and after?",
        _changing_input(right),
    )


def _changing_input(right: Norm) -> Norm:
    def norm(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        x -= x.mean()
        return y

    return norm


def behind_a_view(right: Norm) -> Norm:
    """Return ``right`` behind a ``view``, which needs a contiguous input."""

    def norm(x, *args, **kwargs):
        return right(x.view(-1).view(x.shape), *args, **kwargs)

    return norm


def add_channel_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about a weight and a bias that belong to channels."""
    catalogue.form_of("needs_weight")(recipe(parameter=lambda p, ndim: p.reshape(1, -1, *[1] * (ndim - 2))))
    catalogue.add(
        "affine_along_last_axis",
        "weight and bias along the last axis",
        "Weight and bias are applied along the last axis, where they belong to the channels, axis 1.",
        "It is an error for most images. For images as wide as they have channels, nobody complains and columns "
        "are scaled.",
        "x has the shape (2, 4, 3, 4) and the weight (4,). To which axis does broadcasting match it, and how can "
        "you say which?",
        recipe(affine=_affine_along_last_axis),
    )


def _affine_along_last_axis(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(y, None if weight is None else weight.flatten(), None if bias is None else bias.flatten())
