"""The checks of the first two chapters: centring the rows of a table, and normalizing over any dimensions."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_probes import DOUBLE, numbers

__all__ = ["centre", "normalize"]

KEEPDIM = {
    "title": "a mean without keepdim",
    "wrong": "The mean has lost the dimension that it was taken over, so it broadcasts along the wrong one.",
    "matters": "On a square table nothing complains: each column loses the mean of some row. On others it is an error.",
    "hint": "What is the shape of your mean for x of shape (5, 6), and what should it be to stand beside every row?",
}
WHOLE_TENSOR = {
    "title": "one mean for the whole tensor",
    "wrong": "It takes one mean over the whole tensor.",
    "matters": "Every row then depends on all the others, although the mean of the result is zero.",
    "hint": "How many means does a table of two rows need?",
}

CENTRE = Catalogue()


@CENTRE.mistake(**WHOLE_TENSOR)
def whole_tensor(x):
    return x - x.mean()


@CENTRE.mistake(
    title="the mean of each column",
    wrong="It subtracts the mean of each column, not of each row.",
    matters="A row is a sample: it should be measured against itself, and not against the samples beside it.",
    hint="In [[1, 2, 3], [10, 20, 30]], which numbers belong to one sample?",
)
def column_means(x):
    return x - x.mean(dim=0, keepdim=True)


@CENTRE.mistake(**KEEPDIM)
def missing_keepdim(x):
    return x - x.mean(dim=-1)


@CENTRE.mistake(
    title="scaled as well",
    wrong="It also divides by the spread of the row.",
    matters="That is the next step, and a chapter of its own; centring keeps the distances between the values.",
    hint="In [10, 20, 30] the values are 10 apart. How far apart are they in your result?",
)
def scaled_too(x):
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)


@CENTRE.mistake(
    title="the median in place of the mean",
    wrong="It subtracts the median of each row.",
    matters="For [1, 2, 3] they are equal, which hides it; for [1, 2, 9] the result has no mean of zero.",
    hint="Add up your result for the row [1, 2, 9]. What should the sum be?",
)
def median(x):
    return x - x.median(-1, keepdim=True).values


def _centre(x):
    return x - x.mean(-1, keepdim=True)


def _rows(name: str, stage: str, x: Tensor, **others: Any) -> Probe:
    return Probe(name, stage, Call({"x": x}, {"x": "BC"}), **others)


centre = Check(
    "centre",
    _centre,
    [
        _rows("two rows of three", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 40.0]])),
        _rows("four rows of four", "values", integers(4, 4, seed=60)),
        _rows("five rows of six", "values", integers(5, 6, seed=61)),
        _rows("gradient of x", "gradient", integers(3, 4, seed=62), gradients=("x",)),
        _rows("float64", "float64", integers(3, 4, seed=63).double() / 7, tolerance=DOUBLE),
    ],
    CENTRE,
)

NORMALIZE = Catalogue()


def _centred(x, dims):
    return x - x.mean(dims, keepdim=True)


def _mean_square(values, dims):
    return values.square().mean(dims, keepdim=True)


@NORMALIZE.mistake(**KEEPDIM)
def means_without_keepdim(x, dims, eps=1e-5):
    return (x - x.mean(dims)) / torch.sqrt(x.var(dims, correction=0) + eps)


@NORMALIZE.mistake(**WHOLE_TENSOR)
def one_mean(x, dims, eps=1e-5):
    return (x - x.mean()) / torch.sqrt(x.var(correction=0) + eps)


@NORMALIZE.mistake(
    title="always the last dimension",
    wrong="It normalizes over the last dimension, whatever ``dims`` says.",
    matters="Which dimensions share a mean is the whole difference between the norms with names.",
    hint="For dims=(0, 2, 3) in an input of shape (4, 6, 5, 5): how many means are there?",
)
def last_dimension(x, dims, eps=1e-5):
    return _normalize(x, -1, eps)


@NORMALIZE.mistake(
    title="one dimension after the other",
    wrong="It normalizes over each of the dimensions in turn, not over all of them together.",
    matters="Two means of means are not one mean of all: the second step undoes a part of the first.",
    hint="Over dims=(0, 1) of a table there is one mean. How many does your function take?",
)
def in_turn(x, dims, eps=1e-5):
    for dim in (dims,) if isinstance(dims, int) else dims:
        x = _normalize(x, dim, eps)
    return x


@NORMALIZE.mistake(
    title="the variance divided by n − 1",
    wrong="The variance is divided by n − 1.",
    matters="torch.var and torch.std do so unless told otherwise; every norm divides by n: these are all the values.",
    hint="After normalizing [1, 2], what should the mean of the squares be?",
)
def unbiased_variance(x, dims, eps=1e-5):
    return _centred(x, dims) / torch.sqrt(x.var(dims, correction=1, keepdim=True) + eps)


@NORMALIZE.mistake(
    title="the mean is not subtracted",
    wrong="It scales, but the mean is still there.",
    matters="An offset common to all values passes through to the next layer.",
    hint="Add 100 to every value of the input. What should happen to the output?",
)
def not_centred(x, dims, eps=1e-5):
    return x / torch.sqrt(x.var(dims, correction=0, keepdim=True) + eps)


@NORMALIZE.mistake(
    title="centred, not scaled",
    wrong="It centres, and then nothing is done about the scale.",
    matters="A signal that grows from layer to layer goes on growing.",
    hint="Multiply the input by 10. What should happen to the output?",
)
def only_centred(x, dims, eps=1e-5):
    return _centred(x, dims)


@NORMALIZE.mistake(
    title="divided by the variance",
    wrong="It divides by the variance, not by its root.",
    matters="The result has a variance of one over the input's, so a factor on the input still shows.",
    hint="Multiply the input by 10: by how much does the variance grow, and by how much the values?",
)
def divided_by_variance(x, dims, eps=1e-5):
    return _centred(x, dims) / (_mean_square(_centred(x, dims), dims) + eps)


@NORMALIZE.mistake(
    title="epsilon outside the root",
    wrong="Epsilon is added to the standard deviation, outside the root.",
    matters="On ordinary values nobody notices; for values near 0.001 the two differ by a factor of three.",
    hint="With which quantity is epsilon compared in the formula, the variance or its root?",
)
def eps_outside(x, dims, eps=1e-5):
    return _centred(x, dims) / (torch.sqrt(_mean_square(_centred(x, dims), dims)) + eps)


@NORMALIZE.mistake(
    title="no epsilon",
    wrong="There is no epsilon under the root.",
    matters="A row of equal values is then 0 / 0, which is NaN.",
    hint="What does your function return for [[5., 5.]]?",
)
def no_eps(x, dims, eps=1e-5):
    return _centred(x, dims) / torch.sqrt(_mean_square(_centred(x, dims), dims))


@NORMALIZE.mistake(
    title="the argument eps is ignored",
    wrong="It uses an epsilon of its own, whatever ``eps`` says.",
    matters="Models differ in their epsilon, and small inputs show it.",
    hint="Call it with eps=0.5. Does the result change?",
)
def ignores_eps(x, dims, eps=1e-5):
    return _normalize(x, dims, 1e-5)


@NORMALIZE.mistake(
    title="the statistics are detached",
    wrong="The mean and the variance are taken out of the gradient.",
    matters="The result is right and the gradient is not: it no longer knows that moving one value moves the mean.",
    hint="Add up the gradient of x over a row. A norm that forgets a common offset must give 0.",
)
def detached(x, dims, eps=1e-5):
    centred = x - x.detach().mean(dims, keepdim=True)
    return centred * torch.rsqrt(_mean_square(_centred(x.detach(), dims), dims) + eps)


def _normalize(x, dims, eps=1e-5):
    centred = _centred(x, dims)
    return centred * torch.rsqrt(_mean_square(centred, dims) + eps)


def _over(name: str, stage: str, x: Tensor, letters: str, dims, *, eps: float | None = None, **others: Any) -> Probe:
    given = {} if eps is None else {"eps": eps}
    return Probe(name, stage, Call({"x": x, "dims": dims, **given}, {"x": letters}), **others)


normalize = Check(
    "normalize",
    _normalize,
    [
        _over("rows of a square table", "statistics", numbers(4, 4, seed=70), "BC", 1),
        _over("a negative dimension", "statistics", numbers(5, 6, seed=71), "BC", -1),
        _over("columns", "statistics", numbers(5, 6, seed=72), "BC", 0),
        _over("both dimensions", "statistics", numbers(3, 4, seed=73), "BC", (0, 1)),
        _over("channels of images", "statistics", numbers(4, 3, 2, 5, seed=74), "BCHW", (0, 2, 3)),
        _over("samples of images", "statistics", numbers(2, 3, 4, 2, seed=75), "BCHW", (-3, -2, -1)),
        _over("values near 0.001", "epsilon", integers(4, 5, seed=76, scale=2.0**-12), "BC", 1),
        _over("eps=0.5", "epsilon", integers(4, 5, seed=77), "BC", 1, eps=0.5),
        _over("rows of equal values", "epsilon", torch.tensor([[4.0] * 4, [0.0] * 4]), "BC", 1),
        _over("gradient of x", "gradient", integers(3, 4, seed=78), "BC", 1, gradients=("x",)),
        _over("float64", "float64", integers(3, 4, seed=79).double() / 7, "BC", 1, tolerance=DOUBLE),
    ],
    NORMALIZE,
)
