"""The mistakes of a backward pass that only some inputs show: small values, half precision, layouts in memory."""

import torch
from torch import Tensor

from course_utils.check.backward_mistakes import Recipe
from course_utils.check.backward_recipes import Backward, combine
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_recipes import as_dtype, as_given

__all__ = ["add_eps_mistakes", "add_precision_mistakes", "add_side_effect_mistakes"]


def add_eps_mistakes(catalogue: Catalogue, recipe: Recipe, root: str, other_eps: tuple[float, ...]) -> None:
    """Add the mistakes about epsilon.

    Args:
        root: what r is one over, in words.
        other_eps: values that are written into code in its place.
    """
    catalogue.add(
        "eps_outside_root",
        "epsilon outside the root",
        f"Epsilon is added to the {root}, after the root.",
        "For values around 1 nobody notices; for values around 0.001 the gradient is off by a factor of three.",
        "In the forward pass, which symbols does the root sign cover?",
        recipe(root=lambda spread, eps: 1 / (torch.sqrt(spread) + eps)),
    )
    catalogue.add(
        "no_eps",
        "no epsilon",
        "Epsilon is not used.",
        "Where all values are equal, r is 1/0: one padded row turns every gradient of the network into NaN.",
        "What is your dx when every value of x is the same?",
        recipe(root=lambda spread, eps: torch.rsqrt(spread)),
    )
    catalogue.add(
        "ignores_eps",
        "the eps argument is ignored",
        "Another epsilon than the one that is passed in is written into the code.",
        "The gradient must belong to the forward pass that was run, with its epsilon.",
        "Call your function twice, with eps=1e-5 and with eps=1. Do the results differ?",
        *(recipe(root=lambda spread, eps, own=own: torch.rsqrt(spread + own)) for own in other_eps),
    )
    catalogue.add(
        "projects_exactly",
        "the projection on x̂ made exact",
        "The component along x̂ is taken off entirely, as if eps were 0.",
        "With eps in the root, doubling a small input does change the output: x̂ has a mean square below 1, and a part "
        "of the component along it must stay.",
        "Is mean(x̂²) equal to 1 when the variance is as small as eps?",
        recipe(dx=lambda p: combine(p, along=1 / p.average(p.x_hat.square()).clamp_min(1e-30))),
    )


def add_precision_mistakes(catalogue: Catalogue, recipe: Recipe, *, has_mean: bool) -> None:
    """Add the mistakes about half precision.

    Args:
        has_mean: whether a mean is subtracted: rounding it is what makes the difference.
    """
    catalogue.add(
        "half_statistics",
        "computed in half precision",
        "For half-precision inputs the statistics are computed in half precision.",
        "bfloat16 has 8 significant bits and float16 ends at 65,504: a mean of 259 is rounded to a multiple of 2, and "
        "the square of 300 is infinite.",
        "Which dtype would be wide enough, and where do you come back from it?",
        recipe(widen=as_given),
        recipe(widen=as_given, spread=_variance if has_mean else _mean_square_in_float32),
    )
    if has_mean:
        catalogue.add(
            "statistics_saved_in_half",
            "mean and 1/σ rounded to half precision",
            "Mean and 1/σ are rounded to the input's dtype before x̂ is made from them.",
            "A mean of 259 becomes 260, and every x̂ of the row is off by that. Two float32 numbers for each row cost "
            "next to nothing beside the row. PyTorch's own norms round them on a CPU when their parameters are in half "
            "precision too, so a gradient taken from there has this in it.",
            "How many bytes do mean and 1/σ of a row take, and how many the row?",
            recipe(saved=as_dtype),
            recipe(mean=lambda z, dims, dtype: z.mean(dims, keepdim=True).to(dtype).float(), saved=as_dtype),
        )
    catalogue.add(
        "half_sums",
        "sums accumulated in half precision",
        "The terms of dweight (and dbias) are added up in half precision, each partial sum rounded.",
        "In bfloat16 a sum of ones stops at 256: 256 + 1 is rounded back to 256. The gradient of every long batch is "
        "then too small. PyTorch's own layer norm does this on a CPU, so a gradient taken from it there has it too.",
        "What is 256 + 1 in bfloat16? In which dtype is your running total?",
        recipe(total=_row_by_row),
    )
    catalogue.add(
        "returns_float32",
        "float32 comes back for half precision",
        "A gradient is float32 although what it is the gradient of is in half precision.",
        "autograd refuses a gradient of another dtype, or casts it and hides twice the memory.",
        "Which dtype does x have, and which the weight? Where do you return to them?",
        recipe(close=as_given),
    )


def add_side_effect_mistakes(catalogue: Catalogue, right: Backward) -> None:
    """Add the mistakes outside the formulas: arguments changed, layouts in memory that are refused."""
    catalogue.add(
        "mutates_dy",
        "dy is changed in place",
        "It changes dy: an in-place operation (such as *= or a method ending in _) works on the argument itself.",
        "autograd hands the same dy to whoever else needs it: a residual connection, say, whose gradient is then off.",
        "Which line would change dy if you printed it before and after?",
        _changing(right, "dy"),
    )
    catalogue.add(
        "mutates_input",
        "x is changed in place",
        "It changes x: an in-place operation (such as -= or a method ending in _) works on the argument itself.",
        "x is the activation of the layer below, saved for that layer's backward pass as well.",
        "Which line would change x if you printed it before and after?",
        _changing(right, "x"),
    )
    catalogue.add(
        "view_needs_contiguous",
        "a view that needs a contiguous gradient",
        "It fails for a dy that is not contiguous, such as a transposed or an expanded one.",
        "The gradient that arrives has the layout that the layer above gave it; that of a sum is one number, expanded.",
        "Read the error: which call insists on the layout in memory, and what does not?",
        lambda dy, *args, **kwargs: right(dy.view(-1).view(dy.shape), *args, **kwargs),
    )


def _changing(right: Backward, name: str) -> Backward:
    def backward(dy, x, *args, **kwargs):
        result = right(dy, x, *args, **kwargs)
        changed = dy if name == "dy" else x
        changed -= changed.mean() + 1
        return result

    return backward


def _variance(z: Tensor, mean: Tensor, dims: tuple[int, ...]) -> Tensor:
    return z.var(dims, correction=0, keepdim=True)


def _mean_square_in_float32(z: Tensor, mean: Tensor, dims: tuple[int, ...]) -> Tensor:
    return z.square().float().mean(dims, keepdim=True).to(z.dtype)


def _row_by_row(terms: Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    kept = [dim for dim in range(terms.ndim) if dim not in dims]
    rows = terms.to(dtype).permute(*dims, *kept).reshape(-1, *(terms.shape[dim] for dim in kept))
    total = torch.zeros_like(rows[0])
    for row in rows:
        total = total + row
    return total
