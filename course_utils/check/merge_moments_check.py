"""The check of merging two parts' counts, means and sums of squared deviations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.norms.statistics import Moments

__all__ = ["merge_moments"]

MERGE = Catalogue()


def _count(a, b):
    return a.count + b.count


def _mean(a, b):
    return (a.count * a.mean + b.count * b.mean) / _count(a, b).clamp(min=1)


def _m2(a, b):
    return a.m2 + b.m2 + _between(a, b)


def _between(a, b):
    """What the distance of the two means adds."""
    return (a.mean - b.mean).square() * a.count * b.count / _count(a, b).clamp(min=1)


def _merging(count=_count, mean=_mean, m2=_m2) -> Callable[..., Any]:
    return lambda a, b: (count(a, b), mean(a, b), m2(a, b))


def _plus(between: Callable[[Any, Any, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a merge in which ``between(a, b, delta)`` is what the distance of the means adds."""
    return _merging(m2=lambda a, b: a.m2 + b.m2 + between(a, b, b.mean - a.mean))


def _plus_squared(weight: Callable[[Tensor, Tensor], Any]) -> Callable[..., Any]:
    return _plus(lambda a, b, delta: delta.square() * weight(a.count, b.count))


MERGE.add(
    "count_not_added",
    "the count of one part",
    "The count is that of one part, not of both together.",
    "The next merge would then give the pool too little weight.",
    "How many values are there in 3 and 5 values together?",
    _merging(count=lambda a, b: a.count),
    _merging(count=lambda a, b: b.count),
)
MERGE.add(
    "unweighted_mean",
    "the mean of the means",
    "It takes the mean of the two means, whatever the counts.",
    "Only parts of one size have the same say. The last batch of an epoch is usually smaller than the others.",
    "What is the mean of 1, 1, 1 and 5? And the mean of the part (1, 1, 1) and the part (5)?",
    _merging(mean=lambda a, b: (a.mean + b.mean) / 2),
)
MERGE.add(
    "mean_weights_swapped",
    "each mean with the other's weight",
    "Each part's mean has the weight of the other part's count.",
    "The pool's mean lies nearer to the larger part's; here it is the other way round.",
    "From a.mean, how far is it to the pool's mean when b has nearly all the values?",
    _merging(mean=lambda a, b: a.mean + (b.mean - a.mean) * a.count / _count(a, b).clamp(min=1)),
)
MERGE.add(
    "away_from_other",
    "a step away from the other part",
    "The mean moves away from the other part's, by the right amount.",
    "The pool's mean lies between the two. One of the two differences has the wrong sign.",
    "For means 0 and 1, where must the mean of both together lie?",
    _merging(mean=lambda a, b: a.mean + (a.mean - b.mean) * b.count / _count(a, b).clamp(min=1)),
    _merging(mean=lambda a, b: b.mean + (b.mean - a.mean) * a.count / _count(a, b).clamp(min=1)),
)
MERGE.add(
    "means_ignored",
    "the distance of the means left out",
    "The m2 of the two parts are added, and that the parts lie apart adds nothing.",
    "This is the average of the variances. The variance of the pool is larger by the variance of the means: parts "
    "(0, 0) and (1, 1) have no variance each, and a quarter together.",
    "What is the m2 of 0, 0, 1, 1? What would your function give for the parts (0, 0) and (1, 1)?",
    _plus(lambda a, b, delta: 0 * delta),
)
MERGE.add(
    "average_of_variances",
    "the plain mean of the variances",
    "The pool's variance is the mean of the two variances, whatever the counts.",
    "It leaves out how far the parts lie apart, and gives a part of two values the weight of one of a thousand.",
    "What is the m2 of 0, 0, 1, 1? What would your function give for the parts (0, 0) and (1, 1)?",
    _merging(m2=lambda a, b: _count(a, b) * (a.variance() + b.variance()) / 2),
)
MERGE.add(
    "wrong_delta_weight",
    "the squared distance with another weight",
    "The squared distance of the means is added, with a weight other than n_a·n_b / (n_a + n_b).",
    "For two single values 0 and 2 the weight is a half: m2 is 1 + 1, a half of the distance squared.",
    "Measure every value of a from the pool's mean instead of a's. By how much does a's m2 grow?",
    *(
        _plus_squared(weight)
        for weight in (
            lambda n_a, n_b: n_a * n_b,
            lambda n_a, n_b: n_a * n_b / (n_a + n_b) ** 2,
            lambda n_a, n_b: n_a + n_b,
            lambda n_a, n_b: (n_a + n_b) / 4,
            lambda n_a, n_b: n_a / (n_a + n_b),
            lambda n_a, n_b: n_b / (n_a + n_b),
            lambda n_a, n_b: n_a,
            lambda n_a, n_b: n_b,
            lambda n_a, n_b: 1,
        )
    ),
)
MERGE.add(
    "delta_not_squared",
    "the distance of the means, not squared",
    "The distance of the means is added where its square should be.",
    "m2 is a sum of squares. With values in metres it is in square metres, and so is all that is added to it.",
    "Multiply all values by 10: by how much must m2 grow?",
    _plus(lambda a, b, delta: delta * a.count * b.count / _count(a, b)),
    _plus(lambda a, b, delta: -delta * a.count * b.count / _count(a, b)),
    _plus(lambda a, b, delta: delta.abs() * a.count * b.count / _count(a, b)),
)
MERGE.add(
    "divided_by_less_one",
    "n − 1 where there should be n",
    "A variance with n − 1 is multiplied by n, or one with n by n − 1.",
    "m2 is a plain sum, without a divisor. Which one to divide by is decided at the end, once, by whoever asks for a "
    "variance.",
    "Does your function have to know any variance at all?",
    _merging(m2=lambda a, b: a.count * a.variance(1) + b.count * b.variance(1) + _between(a, b)),
    _merging(m2=lambda a, b: (a.count - 1) * a.variance() + (b.count - 1) * b.variance() + _between(a, b)),
    _merging(m2=lambda a, b: _m2(a, b) * _count(a, b) / (_count(a, b) - 1)),
    _merging(m2=lambda a, b: _m2(a, b) * (_count(a, b) - 1) / _count(a, b)),
)
MERGE.add(
    "returns_variance",
    "a variance in the place of m2",
    "The third number is a variance; it should be the sum of the squared deviations.",
    "The next merge would take it for a sum, and the pool's variance would shrink with every part.",
    "Merge your result with a third part. What does the formula expect there?",
    _merging(m2=lambda a, b: _m2(a, b) / _count(a, b)),
    _merging(m2=lambda a, b: _m2(a, b) / (_count(a, b) - 1)),
)
MERGE.add(
    "nothing_is_nan",
    "two empty parts make NaN",
    "Two empty parts give 0 / 0, which is NaN.",
    "A process without data is an empty part. One NaN, once merged, never leaves the pool.",
    "What should your function return for two parts of no values, so that a third can still be merged?",
    lambda a, b: (_count(a, b), (a.count * a.mean + b.count * b.mean) / _count(a, b), _m2(a, b)),
    lambda a, b: (_count(a, b), _mean(a, b), a.m2 + b.m2 + (a.mean - b.mean) ** 2 * a.count * b.count / _count(a, b)),
    lambda a, b: (
        _count(a, b),
        a.mean + (b.mean - a.mean) * b.count / _count(a, b),
        a.m2 + b.m2 + (a.mean - b.mean) ** 2 * a.count * b.count / _count(a, b),
    ),
)


def _one_pass(a, b):
    squares = a.m2 + a.count * a.mean**2 + b.m2 + b.count * b.mean**2  # Σx²
    return squares - _count(a, b) * _mean(a, b) ** 2


MERGE.add(
    "one_pass",
    "sums of squares, then a difference",
    "It goes through Σx² − n·mean², the difference of two numbers that may be huge and nearly equal.",
    "Values near 100,000,000 have squares near 10¹⁶, where float64 counts in twos: a variance of 1 is lost.",
    "Can you write the formula with the difference of the two means only, so that a common offset never enters?",
    _merging(m2=_one_pass),
    _merging(m2=lambda a, b: _one_pass(a, b).clamp(min=0)),
)


@MERGE.mistake(
    title="rounded to float32",
    wrong="It computes in float32, although it is given float64.",
    matters="Near 100,000,000, float32 counts in eights: the two means become equal, or eight apart.",
    hint="Which of your operations make a tensor of another dtype?",
)
def rounded_to_float32(a, b):
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = ((n, mean.float(), m2.float()) for n, mean, m2 in (a, b))
    n, delta = n_a + n_b, mean_b - mean_a
    return n, mean_a + delta * n_b / n.clamp(min=1), m2_a + m2_b + delta**2 * n_a * n_b / n.clamp(min=1)


IN_PLACE = {
    "title": "a part is overwritten",
    "wrong": "It changes one of the parts that it was given.",
    "matters": "The caller may merge the same part again, in another order or into another pool.",
    "hint": "Which of your operations end in an underscore, or are an assignment such as += ?",
}


@MERGE.mistake(**IN_PLACE)
def in_place(a, b):
    merged = _merging()(a, b)
    a.count.add_(b.count)
    return merged


def _overwriting(name: str) -> Callable[..., Any]:
    def merge(a, b):
        merged = _merging()(a, b)
        getattr(a, name).add_(1.0)
        return merged

    return merge


MERGE.form_of("in_place")(_overwriting("mean"))
MERGE.form_of("in_place")(_overwriting("m2"))


@MERGE.form_of("in_place")
def assigned_in_place(a, b):
    a.count += b.count  # Moments are frozen: the assignment raises
    return a


def _flat(merge: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``merge(a, b)``, which takes two `Moments`, as a function of their six tensors that returns three."""

    def flat(a_count, a_mean, a_m2, b_count, b_mean, b_m2):
        a, b = Moments(a_count, a_mean, a_m2), Moments(b_count, b_mean, b_m2)
        merged = merge(a, b)
        for given, kept in zip((a_count, a_mean, a_m2, b_count, b_mean, b_m2), (*a, *b), strict=True):
            given.copy_(kept)  # a Moments holds copies; what was done to them must be seen
        return tuple(merged) if isinstance(merged, Moments) else merged

    return flat


def _merge(a, b):
    return a.merge(b)


def _probe(name: str, stage: str, counts, means, m2s, *compares: str, tolerance: Tolerance | None = None) -> Probe:
    arguments: dict[str, Tensor] = {}
    for part, count, mean, m2 in zip("ab", counts, means, m2s, strict=True):
        arguments |= {
            f"{part}_count": torch.tensor(count).double(),
            f"{part}_mean": mean.double(),
            f"{part}_m2": m2.double(),
        }
    axes = {name: "C" * value.dim() for name, value in arguments.items()}
    rough = stage in ("large offset", "precision")
    return Probe(name, stage, Call(arguments, axes), compares=compares or None, rough=rough, tolerance=tolerance)


def _numbers(seed: int, scale: float = 1.0, offset: float = 0.0) -> Tensor:
    return integers(4, seed=seed, scale=scale, offset=offset)


_NOTHING = torch.zeros(4)
_MEANS = (_numbers(100), _numbers(101, offset=4.0))
_M2S = (_numbers(102).abs() * 8 + 3, _numbers(103).abs() * 2 + 1)
_NEAR = tuple(100 + mean.double() / 7 for mean in _MEANS)
_FAR = (1e8 + _numbers(104).double(), 1e8 + 5.0 + _numbers(105).double())
# Right forms in float64 are off by up to 1e-13 of the largest; float32 anywhere on the way costs 3e-8.
_DOUBLE = Tolerance(0.0, 1e-10)

merge_moments = Check(
    "merge_moments",
    _merge,
    [
        *(
            probe
            for stage, compares in (("count and mean", ("count", "mean")), ("m2", ("m2",)))
            for probe in (
                _probe("two parts of two values", stage, (2, 2), _MEANS, _M2S, *compares),
                _probe("two values and six", stage, (2, 6), _MEANS, _M2S, *compares),
                _probe("nine values and three", stage, (9, 3), _MEANS[::-1], _M2S, *compares),
                _probe("one value and one", stage, (1, 1), _MEANS, (_NOTHING, _NOTHING), *compares),
                _probe("plain numbers", stage, (5, 3), *torch.tensor([[2.0, -4.0], [7.0, 5.0]]), *compares),
            )
        ),
        _probe("nothing, then two values", "empty part", (0, 2), (_NOTHING, _MEANS[0]), (_NOTHING, _M2S[0])),
        _probe("two values, then nothing", "empty part", (2, 0), (_MEANS[0], _NOTHING), (_M2S[0], _NOTHING)),
        _probe("nothing and nothing", "empty part", (0, 0), (_NOTHING, _NOTHING), (_NOTHING, _NOTHING)),
        _probe("means near 100", "precision", (4, 3), _NEAR, _M2S, tolerance=_DOUBLE),
        _probe("means near 100,000,000", "large offset", (5, 3), _FAR, _M2S, "m2"),
    ],
    MERGE,
    returns=("count", "mean", "m2"),
    any_dtype=True,
    flatten=_flat,
)
