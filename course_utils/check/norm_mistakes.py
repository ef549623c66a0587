"""The mistakes that every norm invites, as recipes with one step replaced: those about statistics and epsilon."""

import torch
from torch import Tensor

from course_utils.check.finish_mistakes import (
    Norm,
    Recipe,
    add_affine_mistakes,
    add_dtype_mistakes,
    add_gradient_mistakes,
    add_mutation_mistake,
)
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_recipes import as_given, over_root, variance

__all__ = ["add_centring_mistakes", "add_common_mistakes"]


def _unbiased(c: Tensor, z: Tensor, dims) -> Tensor:
    return z.var(dims, correction=1, keepdim=True)


def _one_pass(c: Tensor, z: Tensor, dims) -> Tensor:
    return z.square().mean(dims, keepdim=True) - z.mean(dims, keepdim=True).square()


def add_centring_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about the mean, and about the variance as a statistic of centred values."""
    catalogue.add(
        "unbiased_variance",
        "the variance divided by n − 1",
        "The variance that normalizes is divided by n − 1.",
        "n − 1 corrects an estimate made from a sample. Here the values are all there are, the paper and "
        "torch.nn divide by n, and for one value n − 1 is 0 and the result NaN. torch.var and torch.std correct "
        "unless told otherwise.",
        "After normalizing [1, 2], what should the mean of the squares be? What is it in your output?",
        recipe(spread=_unbiased),
    )
    catalogue.add(
        "not_centred",
        "the mean is not subtracted",
        "The values are divided by their standard deviation, but their mean is still in them.",
        "The output keeps the offset of the input, divided by the spread: a large offset gives a large output.",
        "Add 100 to every value of the input. What should happen to the output?",
        recipe(centre=as_given, spread=variance),
    )
    catalogue.add(
        "rms_instead",
        "an RMS norm: no mean anywhere",
        "This is RMS norm: it divides by the root mean square and never subtracts the mean.",
        "RMS norm is a norm of its own and a good one, but an offset common to all values shrinks what is left "
        "of their differences; this norm forgets such an offset.",
        "What is the mean of your output for [1, 2, 3, 4]?",
        recipe(centre=as_given),
    )
    catalogue.add(
        "mean_absolute_deviation",
        "the mean absolute deviation in place of the standard deviation",
        "The spread is the mean of the distances from the mean, not the root of the mean of their squares.",
        "Both measure spread, and differ by a factor that depends on the data, so the output has no fixed variance.",
        "Which mean should be 1 in the output: of the absolute values, or of the squares?",
        recipe(spread=lambda c, z, dims: c.abs().mean(dims, keepdim=True).square()),
    )
    catalogue.add(
        "only_centred",
        "centred, not scaled",
        "The mean is subtracted, and then nothing is done about the scale.",
        "Half of the norm is missing: a signal that grows from layer to layer goes on growing.",
        "Multiply the input by 10. What should happen to the output?",
        recipe(scale=as_given),
    )
    catalogue.add(
        "one_pass_variance",
        "the variance as E[x²] − E[x]²",
        "The variance is computed in one pass, as the mean of the squares minus the square of the mean.",
        "On paper the two are equal. In float32 the difference of two large numbers keeps only their last "
        "digits: with an offset of 10,000 it can come out negative, and its root is NaN.",
        "What do the squares look like when the mean is 10,000? What could you subtract before you square?",
        recipe(spread=_one_pass),
    )
    catalogue.add(
        "one_pass_clamped",
        "the variance as E[x²] − E[x]², negative results hidden",
        "The variance is E[x²] − E[x]², and its negative results are hidden by a clamp or an absolute value.",
        "NaN is gone and the answer is still wrong: where the variance has cancelled, what is divided by is noise.",
        "The clamp hides that all digits are lost. In which step are they lost?",
        recipe(spread=lambda c, z, dims: _one_pass(c, z, dims).clamp_min(0)),
        recipe(spread=lambda c, z, dims: _one_pass(c, z, dims).abs()),
    )


def add_common_mistakes(
    catalogue: Catalogue, recipe: Recipe, right: Norm, *,
    other_eps: tuple[float, ...] = (1e-6, 1e-8, 1e-12, 1e-3), usual_eps: float = 1e-5, centring: bool = True,
) -> None:  # fmt: skip
    """Add the mistakes about scaling, epsilon, the affine step, dtypes, gradients and side effects.

    Args:
        right: the right norm in float32 and above, half precision widened; wrapped where the mistake is outside it.
        other_eps: defaults that are not this norm's; ``usual_eps`` is the constant that is written into code.
        centring: whether the norm subtracts a mean.
    """
    spread, root = ("variance", "standard deviation") if centring else ("mean square", "root mean square")
    statistic = "mean and variance" if centring else root
    _add_scale_mistakes(catalogue, recipe, spread, root)
    _add_eps_mistakes(catalogue, recipe, right, spread, root, other_eps, usual_eps)
    add_affine_mistakes(catalogue, recipe)
    add_gradient_mistakes(catalogue, recipe, right, statistic, centring)
    add_dtype_mistakes(catalogue, recipe, right, centring)
    add_mutation_mistake(catalogue, right)


def _add_scale_mistakes(catalogue: Catalogue, recipe: Recipe, spread: str, root: str) -> None:
    catalogue.add(
        "divides_by_spread",
        f"divided by the {spread}, not by its root",
        f"The values are divided by the {spread} itself; the root is missing.",
        f"The {spread} is in squared units: double the input, and the output halves instead of staying as it is.",
        "If x is in metres, in which unit is what you divide by?",
        recipe(scale=lambda c, v, eps: c / (v + eps)),
    )
    catalogue.add(
        "multiplies_by_root",
        f"multiplied by the {root}",
        f"The values are multiplied by the {root} instead of divided by it.",
        "Large values become larger and small ones smaller, the opposite of what a norm is for.",
        "torch.sqrt or torch.rsqrt: which one is meant to be multiplied with?",
        recipe(scale=lambda c, v, eps: c * torch.sqrt(v + eps)),
    )
    catalogue.add(
        "sum_not_mean",
        "a sum of squares in place of their mean",
        "The squares are added up and never divided by their number: this is the length of the vector.",
        "The output has length 1 instead of a mean square of 1, so its values shrink as the features become more.",
        "For [3, 3, 3, 3] without centring: what should the output be, and does it depend on there being four?",
        recipe(spread=lambda c, z, dims: c.square().sum(dims, keepdim=True)),
    )


def _add_eps_mistakes(
    catalogue: Catalogue, recipe: Recipe, right: Norm, spread: str, root: str, other_eps: tuple, usual_eps: float
) -> None:
    catalogue.add(
        "eps_outside_root",
        "epsilon outside the root",
        f"Epsilon is added to the {root}, after the root, instead of to the {spread} under it.",
        "For values around 1 the two differ in the fifth digit and pass for equal. For values around 0.001 the output "
        "is off by a factor of three, and weights trained with one do not fit the other.",
        "In the formula, which symbols does the root sign cover?",
        recipe(scale=lambda c, v, eps: c / (torch.sqrt(v) + eps)),
    )
    catalogue.add(
        "eps_as_floor",
        "epsilon as a lower bound",
        f"Epsilon is a floor under the {spread} (a maximum or a clamp) instead of being added to it.",
        f"Both avoid a division by zero. But where the {spread} is near epsilon the outputs differ by up to 40 %, "
        "and below the floor no gradient flows through it.",
        f"What is under the root when the {spread} equals epsilon?",
        recipe(scale=lambda c, v, eps: c * torch.rsqrt(v.clamp_min(eps))),
        recipe(scale=lambda c, v, eps: c / torch.sqrt(v).clamp_min(eps)),
    )
    catalogue.add(
        "no_eps",
        "no epsilon",
        "Epsilon is not used.",
        f"Where all values are equal the {spread} can be 0, and 0 / 0 is NaN: one padded or dead row spoils the "
        "whole loss.",
        "What is your output when every value is the same?",
        recipe(scale=lambda c, v, eps: c * torch.rsqrt(v)),
    )
    catalogue.add(
        "ignores_eps",
        "the eps argument is ignored",
        "Another epsilon than the one that is passed in is written into the code.",
        "A model says which epsilon it was trained with, often 1e-6 or 1e-12; a norm that ignores it gives other "
        "outputs.",
        "Call your function twice, with eps=1e-5 and with eps=1. Do the outputs differ?",
        *(
            recipe(scale=lambda c, v, eps, own=own: over_root(c, v, own))
            for own in dict.fromkeys((usual_eps, 1e-5, *other_eps))
        ),
    )
    catalogue.add(
        "wrong_default_eps",
        "another default for eps",
        "The default for eps is not torch's.",
        "It is invisible for values around 1 and decides the output for small ones. torch.nn takes 1e-5 (for RMS norm, "
        "the machine epsilon) and TensorFlow 1e-3; published layers have 1e-8 and 1e-12.",
        "Compare the signature of your function with the one in the task.",
        *(_with_default_eps(right, eps) for eps in other_eps),
    )


def _with_default_eps(right: Norm, default: float) -> Norm:
    def norm(*args, eps=default, **kwargs):
        return right(*args, eps=eps, **kwargs)

    return norm
