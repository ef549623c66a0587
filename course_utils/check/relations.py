"""What a wrong result has to do with the right one, or with the input, where no known mistake says
it.

A page of the site runs this file too, in MicroPython, which has no star in a list and finds no
least of several tensors.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from course_utils.check.comparison import Comparison
from course_utils.check.probes import same

__all__ = ["factor_everywhere", "has_factor", "plain_relation", "relation"]

_FEWEST = 4  # numbers that must be wrong: of fewer, something is always true


def relation(wrong: Sequence[Comparison], right: Sequence[Comparison] = ()) -> tuple[str, float]:
    """Return in a sentence what is true of the quantity that is wrong in all these comparisons, or
    nothing, and the factor that it names first, or 0; ``right`` are those that passed."""
    seen, name = _seen(wrong)
    told = _sentences(seen, name, right) if seen else ()
    return next((each for each in told if each[0]), ("", 0.0))


def plain_relation(wrong: Sequence[Comparison], right: Sequence[Comparison] = ()) -> str:
    """Return in a sentence of which input the quantity that is wrong is a copy, or that it is a
    constant, where it is ``right`` too, or nothing."""
    seen, name = _seen(wrong)
    for argument, _ in seen[0].probe.call.tensors() if seen else ():
        inputs = [each.probe.call.fresh(double=True).get(argument) for each in seen]
        given = [x for x in inputs if isinstance(x, Tensor)]
        if len(given) == len(seen) and _all(seen, name, given):
            return f"it is {argument} itself, unchanged."
    every = list(seen) + [each for each in right if name in each.observed.values]
    for words, function in _CONSTANTS.items():
        if seen and _all(every, name, [function(each.expected.values[name]) for each in every]):
            return words
    return ""


def factor_everywhere(wrong: Sequence[Comparison]) -> str:
    """Return in a sentence by which one factor the quantity that is wrong is too large, or
    nothing; 1 is none."""
    seen, name = _seen(wrong)
    factors = _factors(seen, name) if seen else []
    are_one = factors and max(factors) - min(factors) <= 1e-3 * abs(factors[0])
    if are_one and abs(factors[0] - 1) > 1e-3:
        return f"it is {factors[0]:.3g} times what is expected, everywhere."
    return ""


def has_factor(comparison: Comparison, name: str, factor: float) -> bool:
    """Return whether a quantity is this factor times what is right."""
    return any(abs(f - factor) <= 1e-3 * abs(factor) for f in _factors([comparison], name))


def _seen(wrong: Sequence[Comparison]) -> tuple[list[Comparison], str]:
    """Return what to look at, and the quantity; nothing where that is not wrong in all, or in few
    numbers."""
    seen = [each for each in wrong if not each.probe.rough]
    name = seen[0].worst if seen else ""
    are_wrong = name and all(each.ratios.get(name, 0.0) > 1 for each in seen)
    if not are_wrong or sum(_off(each, name).sum() for each in seen) < _FEWEST:
        return [], ""
    return seen, name


def _sentences(
    seen: Sequence[Comparison], name: str, right: Sequence[Comparison]
) -> Iterator[tuple[str, float]]:
    pairs = [(each.expected.values[name], each.observed.values[name]) for each in seen]
    yield plain_relation(seen, right), 0.0
    for words, function in _RELATED.items():
        if _all(seen, name, [function(right) for right, _ in pairs]):
            yield words, 0.0
    for words in (factor_everywhere(seen), _multiple(seen, name)):
        if words:
            yield words, _factors(seen, name)[0]
    yield _moved(pairs), 0.0
    yield _all_but(seen, name), 0.0


_CONSTANTS: dict[str, Callable[[Tensor], Tensor]] = {
    "it is 0 everywhere.": torch.zeros_like,
    "it is NaN everywhere.": lambda right: torch.full_like(right, torch.nan),
}
_RELATED: dict[str, Callable[[Tensor], Tensor]] = {
    "it is minus what is expected.": torch.neg,
    "it is one over what is expected.": torch.reciprocal,
    "it is the square of what is expected.": torch.square,
    "it is the root of what is expected.": torch.sqrt,
}


def _all(seen: Sequence[Comparison], name: str, others: Sequence[Tensor]) -> bool:
    """Return whether what was observed is ``others``, within rounding."""
    return all(
        same(each.observed.values[name], other, each.tolerance(name).between(other))
        for each, other in zip(seen, others, strict=True)
    )


def _off(each: Comparison, name: str) -> Tensor:
    """Return which elements are wrong."""
    right, got = each.expected.values[name], each.observed.values[name]
    return ~((got - right).abs() <= each.tolerance(name).allowed(right))


def _factors(seen: Sequence[Comparison], name: str) -> list[float]:
    """Return by which factor each result is too large, where each is a multiple of the right
    one."""
    rights = [each.expected.values[name] for each in seen]
    gots = [each.observed.values[name] for each in seen]
    pairs = list(zip(rights, gots, strict=True))
    if not all(got.isfinite().all() and right.any() for right, got in pairs):
        return []
    factors = [float((right * got).sum() / right.square().sum()) for right, got in pairs]
    scaled = [right * factor for right, factor in zip(rights, factors, strict=True)]
    return factors if any(factors) and _all(seen, name, scaled) else []


def _multiple(seen: Sequence[Comparison], name: str) -> str:
    """Return by which factors the results are too large: one an input, of several numbers."""
    factors = _factors(seen, name)
    counts = [int(each.expected.values[name].count_nonzero()) for each in seen]
    if not factors or min(counts) < _FEWEST:
        return ""
    last = max(range(len(factors)), key=lambda i: abs(factors[i] - factors[0]))
    return (
        f"on each input it is a multiple of what is expected: {factors[0]:.3g} times on "
        f"{seen[0].probe.name}, {factors[last]:.3g} times on {seen[last].probe.name}."
    )


def _moved(pairs: Sequence[tuple[Tensor, Tensor]]) -> str:
    """Return how the right numbers stand in other places."""
    if max(right.numel() for right, _ in pairs) < 2:
        return ""
    if all(right.ndim > 1 and _equal(right.mT, got) for right, got in pairs):
        return "it is transposed."
    for dim in range(-1, -max(right.ndim for right, _ in pairs) - 1, -1):
        if not all(right.ndim >= -dim for right, _ in pairs):
            continue
        if all(_equal(right.flip(dim), got) for right, got in pairs):
            return f"the right numbers, in reverse order along dimension {dim}."
        for by in (1, -1):
            if all(_equal(right.roll(by, dim), got) for right, got in pairs):
                return f"the right numbers, moved by {by} along dimension {dim}."
        if all(_equal(right.sort(dim).values, got.sort(dim).values) for right, got in pairs):
            return f"the right numbers, in another order along dimension {dim}."
    if all(_equal(*(each.flatten().sort().values for each in pair)) for pair in pairs):
        return "the right numbers, in other places."
    return ""


def _equal(right: Tensor, got: Tensor) -> bool:
    return right.shape == got.shape and bool(
        ((right - got).abs() <= 1e-5 * right.abs().max().clamp_min(1.0)).all()
    )


def _all_but(seen: Sequence[Comparison], name: str) -> str:
    """Return where alone it is wrong: in the first or the last along a dimension."""
    off = [_off(each, name) for each in seen]
    for dim in range(-1, -max(each.ndim for each in off) - 1, -1):
        if not all(each.ndim >= -dim and each.shape[dim] > 2 for each in off):
            continue
        for place, words in ((0, "first"), (-1, "last")):
            if all(not _without(each, dim, place).any() for each in off):
                return f"it is right in all but the {words} along dimension {dim}."
            if all(
                not each.select(dim, place).any() and _without(each, dim, place).all()
                for each in off
            ):
                return f"only the {words} along dimension {dim} is right."
    return ""


def _without(values: Tensor, dim: int, place: int) -> Tensor:
    start = 1 if place == 0 else 0
    return values.narrow(dim, start, values.shape[dim] - 1)
