"""The mistakes that every backward pass of a norm invites, in the order of its results: sums, dx, dx with a weight."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.check.backward_recipes import Backward, Parts, combine, mean_square_about
from course_utils.check.mistakes import Catalogue

__all__ = [
    "Recipe",
    "add_dx_mistakes",
    "add_mean_mistakes",
    "add_sum_mistakes",
    "add_weight_mistakes",
]

Recipe = Callable[..., Backward]


def add_sum_mistakes(catalogue: Catalogue, recipe: Recipe, others: str) -> None:
    """Add the mistakes in dweight (and dbias): what is summed, and how.

    Args:
        others: the results beside dx, in words.
    """
    catalogue.add(
        "mean_for_sum",
        "an average in place of a sum",
        f"It averages for {others}, where the terms must be added up.",
        "Every sample adds its share to the loss, so it adds its share to the gradient. Whether the loss is an average "
        "is already in dy; divide once more, and the learning rate shrinks with the batch.",
        "The weight is used once in every row. What does the chain rule do with several uses of one variable?",
        recipe(total=lambda terms, dims, dtype: terms.mean(dims) if dims else terms),
    )
    catalogue.add(
        "keeps_summed_dims",
        "the summed dimensions kept",
        f"The sums for {others} keep the dimensions they ran over, with size 1.",
        "A gradient has the shape of what it is the gradient of; an optimiser broadcasts a wrong one, or refuses it.",
        "What is the shape of the weight, and what is the shape of your dweight?",
        recipe(total=lambda terms, dims, dtype: terms.sum(dims, keepdim=True) if dims else terms),
    )
    catalogue.add(
        "dweight_from_y",
        "dweight from y, not from x̂",
        "dweight is summed from dy times the output, or from g = dy·γ times x̂: the weight is in it.",
        "y = γ·x̂ + β, so what stands beside γ is x̂. With a weight of 1 nobody sees the difference, and training "
        "starts there.",
        "In y = γ·x̂ + β, what is the derivative with respect to γ?",
        recipe(dweight=lambda p: p.g * p.x_hat),
    )
    catalogue.add(
        "dweight_from_x",
        "dweight from x, not from x̂",
        "dweight is summed from dy times the input, before it was normalized.",
        "The weight multiplies the normalized values; the input's scale and offset have no part in it.",
        "What does γ multiply in the forward pass?",
        recipe(dweight=lambda p: p.dy * p.x),
    )
    catalogue.add(
        "dweight_is_dbias",
        "dweight without x̂",
        "dweight is the sum of dy alone.",
        "That is the gradient of a bias. A weight's share depends on what it multiplied.",
        "In y = γ·x̂ + β, what is the derivative with respect to γ?",
        recipe(dweight=lambda p: p.dy),
    )


def add_dx_mistakes(catalogue: Catalogue, recipe: Recipe, root: str, *, has_mean: bool) -> None:
    """Add the mistakes in dx: projections left out, mis-scaled, or taken of the wrong thing.

    Args:
        root: what r is one over, in words.
        has_mean: whether there is a projection on a constant besides that on x̂.
    """
    catalogue.add(
        "missing_x_hat_projection",
        "the component along x̂ left in",
        f"dx lacks the term x̂·mean(g·x̂): the {root} is treated as a constant.",
        "Changing a value changes the scale that all are divided by. Without that share, the gradient asks for a "
        "larger or smaller input, which the norm would undo.",
        "Multiply your dx by x̂ and add up. What should come out when eps is 0?",
        recipe(dx=lambda p: combine(p, along=0.0)),
    )
    catalogue.add(
        "missing_rstd",
        "dx without the factor r",
        f"dx lacks the factor r = 1/{root}.",
        "If the input is ten times as large, the same change of it moves the output a tenth as far.",
        "Multiply x by 10. What should happen to dx?",
        recipe(dx=lambda p: combine(p) / p.rstd),
        recipe(dx=lambda p: combine(p) / p.rstd**2),
        recipe(dx=lambda p: combine(p) * p.rstd),
    )
    catalogue.add(
        "sums_in_projections",
        "sums in place of means inside dx",
        "The projections in dx are sums where they should be means.",
        "Each value holds 1/n of the mean, and gets 1/n of what flows back through it.",
        "Every value holds what share of the mean?",
        recipe(dx=lambda p: _with_count(p, lambda n: 1)),
    )
    catalogue.add(
        "n_minus_one_in_dx",
        "n − 1 inside dx",
        "The projections in dx are divided by n − 1.",
        "The forward pass divides by n, and its derivative has the same n in it.",
        "By what does the forward pass divide its sums?",
        recipe(dx=lambda p: _with_count(p, lambda n: n - 1)),
        recipe(dx=lambda p: _with_count(p, lambda n: n - 1, constant=False)),
    )
    catalogue.add(
        "variance_path_factor",
        "a factor of 2 too many or too few on the way through the variance",
        "The component along x̂ is taken off half, or twice.",
        "The square gives a factor of 2 and the root one of ½. They cancel, unless one of them is forgotten.",
        "What is the derivative of v^(−1/2), and that of (x − μ)²?",
        recipe(dx=lambda p: combine(p, along=0.5)),
        recipe(dx=lambda p: combine(p, along=2.0)),
    )
    catalogue.add(
        "projections_added",
        "a projection added, not taken off",
        "A projection has the wrong sign in dx.",
        "The gradient then pushes twice as hard in a direction that the norm does not let through.",
        "Larger values make a larger spread, which makes the results smaller. Which sign is that?",
        recipe(dx=lambda p: combine(p, along=-1.0)),
        recipe(dx=lambda p: combine(p, constant=-1.0, along=-1.0)),
        *([recipe(dx=lambda p: combine(p, constant=-1.0))] if has_mean else []),
    )
    catalogue.add(
        "projects_on_centred",
        "projected on x − μ, not on x̂",
        "The component of g is taken along the values before they are scaled, where x̂ belongs.",
        "Only x̂ has a mean square of 1, so that x̂·mean(g·x̂) is a projection; with anything else a factor is missing.",
        "What is mean(x̂²), and what is the mean square of what you project on?",
        recipe(dx=lambda p: _projected_on(p, p.centred, p.centred)),
        recipe(dx=lambda p: _projected_on(p, p.x_hat, p.centred)),
        recipe(dx=lambda p: _projected_on(p, p.x, p.x)),
    )


def add_weight_mistakes(catalogue: Catalogue, recipe: Recipe, *, weight_is_shared: bool) -> None:
    """Add the mistakes about the weight in dx.

    Args:
        weight_is_shared: whether all that share a statistic share their weight, so that it may stand in front.
    """
    catalogue.add(
        "dx_without_weight",
        "the weight left out of dx",
        "dx does not depend on the weight.",
        "On the way back dy passes the weight first: what arrives at x̂ is g = dy·γ. With a weight of 1 nobody sees "
        "the difference, and training starts there.",
        "Double every weight. What should happen to dx?",
        recipe(weigh=lambda dy, weight: dy),
    )
    if not weight_is_shared:
        catalogue.add(
            "weight_after_projection",
            "the weight multiplied after the projections",
            "dx is computed from dy and multiplied by the weight at the end.",
            "In batch norm a channel has one weight, and it may stand in front of everything. Here each value has its "
            "own, and the means run over values with different weights.",
            "Is mean(dy·γ) the same as mean(dy)·γ when the weights differ?",
            recipe(weigh=lambda dy, weight: dy, dx=lambda p: combine(p) * (1 if p.weight is None else p.weight)),
        )
    catalogue.add(
        "projects_on_y",
        "projected on y, not on x̂",
        "The component of the gradient is taken along y = γ·x̂, where x̂ belongs.",
        "The spread is measured before the weight, so the direction that the norm blocks is x̂.",
        "Which of x̂ and y has a mean square of 1, whatever the weight?",
        recipe(dx=lambda p: _projected_on(p, _weighed(p), _weighed(p))),
        recipe(dx=lambda p: _projected_on(p, p.x_hat, _weighed(p))),
    )
    catalogue.add(
        "divides_by_weight",
        "divided by the weight",
        "dy is divided by the weight where it should be multiplied.",
        "The forward pass multiplies by γ, and so does the backward pass; a weight of 0 would give infinity.",
        "If y = γ·x̂, what is the derivative of y with respect to x̂?",
        recipe(weigh=lambda dy, weight: dy if weight is None else dy / weight),
    )
    catalogue.add(
        "needs_weight",
        "does not work without a weight",
        "It fails when no weight is given: weight=None means a weight of 1.",
        "elementwise_affine=False and affine=False are in daily use, in diffusion transformers for one.",
        "What is the default of weight, and what does your function do with it?",
        recipe(weigh=lambda dy, weight: dy * weight),
    )


def add_mean_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about μ and σ², for the norms that have a mean and a bias."""
    catalogue.add(
        "dbias_from_g",
        "dbias with the weight in it",
        "dbias is summed from g = dy·γ.",
        "The bias is added after the weight has multiplied, so dy reaches it as it is.",
        "In y = γ·x̂ + β, what is the derivative with respect to β?",
        recipe(dbias=lambda p: p.g),
    )
    catalogue.add(
        "order_swapped",
        "dweight and dbias in each other's place",
        "It returns dbias where dweight belongs, and dweight in the place of dbias.",
        "Both have the same shape, so nothing complains: the optimiser moves each by the other's gradient.",
        "In which order do weight and bias stand in F.layer_norm?",
        recipe(dweight=lambda p: p.dy, dbias=lambda p: p.dy * p.x_hat),
    )
    catalogue.add(
        "unbiased_variance",
        "the variance divided by n − 1",
        "x̂ is computed with the variance divided by n − 1.",
        "The forward pass divides by n. A backward pass must use the very same statistics.",
        "What does torch.var divide by, unless told otherwise?",
        recipe(spread=lambda z, mean, dims: z.var(dims, correction=1, keepdim=True)),
    )
    catalogue.add(
        "dweight_from_centred",
        "dweight from x − μ, not from x̂",
        "dweight is summed from dy times the centred input, before it was divided by the standard deviation.",
        "The weight multiplies values of variance 1; the input's scale has no part in its gradient.",
        "Multiply x by 10. What should happen to dweight?",
        recipe(dweight=lambda p: p.dy * p.centred),
    )
    catalogue.add(
        "missing_mean_projection",
        "the component along a constant left in",
        "dx lacks the term mean(g): the mean is treated as a constant.",
        "Changing a value moves the mean that is subtracted from all. Without that share, the gradient asks for an "
        "offset, which the norm would undo.",
        "Add up your dx over the values that share a mean. What should come out?",
        recipe(dx=lambda p: combine(p, constant=0.0)),
    )
    catalogue.add(
        "statistics_as_constants",
        "dx as if the statistics were constants",
        "dx is dy times a factor: no gradient flows through the statistics.",
        "This is the gradient of batch norm in evaluation. In training the statistics move with the values.",
        "Your dx is a multiple of dy. Through which other quantities does x reach y?",
        recipe(dx=lambda p: p.rstd * p.g),
    )
    catalogue.add(
        "one_pass_variance",
        "the variance as E[x²] − E[x]²",
        "The variance is the mean of the squares minus the square of the mean.",
        "In float32 the difference of two large numbers keeps only their last digits: with an offset of 10,000 it can "
        "come out negative, and its root is NaN.",
        "What could you subtract before you square?",
        recipe(spread=_one_pass),
        recipe(spread=lambda z, mean, dims: _one_pass(z, mean, dims).clamp_min(0)),
        recipe(spread=lambda z, mean, dims: _one_pass(z, mean, dims).abs()),
    )


def _with_count(p: Parts, count: Callable[[int], float], constant: bool = True) -> Tensor:
    """Divide the sums of the projections by another number than n; the one on a constant only if ``constant``."""
    n = p.g.numel() // p.average(p.g).numel()
    factor = n / count(n) if count(n) else float("inf")
    return combine(p, factor if constant else 1.0, factor)


def _projected_on(p: Parts, direction: Tensor, beside: Tensor) -> Tensor:
    dx = p.g - direction * p.average(p.g * beside)
    return p.rstd * (dx - p.average(p.g) if p.subtracts_mean else dx)


def _weighed(p: Parts) -> Tensor:
    return p.x_hat if p.weight is None else p.weight * p.x_hat


def _one_pass(z: Tensor, mean: Tensor, dims: tuple[int, ...]) -> Tensor:
    return mean_square_about(z, torch.zeros_like(mean), dims) - mean.square()
