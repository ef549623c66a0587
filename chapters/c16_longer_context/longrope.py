"""LongRoPE's search for how far to scale each pair of dimensions (chapter 16).

The search knows nothing of models: it is given a function that says how bad a candidate is, so that
"bad" can be the loss of all tokens (LongRoPE) or that of the answers to questions alone
(LongRoPE2).

Notation used for tensor shapes: D dimension of a head, so D/2 pairs, each with a factor that
divides its frequency.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course_utils.rope.rotation import rope_inv_freq

FIRST_TOKENS = (0, 1, 2, 4, 8, 16)  # how many of the first tokens may keep their unscaled positions
POPULATION, PARENTS = 16, 6  # candidates in a generation, and those of them that live on
MUTATED = 0.3  # the chance of each factor to be drawn anew (Ding et al. 2024, §4.1)


@dataclass(frozen=True)
class Candidate:
    """A way to scale: ``factors`` (D/2,) float64, never falling; how many ``first_tokens`` are not
    scaled."""

    factors: Tensor
    first_tokens: int = 0

    def inv_freq(self, base: float) -> Tensor:
        """Return the scaled frequencies, (D/2,) float64."""
        return rope_inv_freq(2 * len(self.factors), base) / self.factors


@dataclass
class Search:
    """What a search found: the ``best`` candidate, its ``value``, and how it got there.

    ``history`` holds (evaluations so far, best value so far) whenever the best changed and at the
    end.
    """

    best: Candidate
    value: float
    history: list[tuple[int, float]] = field(default_factory=list)


def search(
    badness: Callable[[Candidate], float],
    starts: Sequence[Candidate],
    *,
    upper: float,
    budget: int = 100,
    seed: int = 0,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Search:
    """Look for the candidate with the least ``badness``, among factors that never fall from pair to
    pair. Chapter 16.

    Each generation keeps the best and fills the population up with as many mutations of them as
    crossovers between two. ``starts``, what the known methods would do, are always tried. Factors
    lie between 1 and ``upper``. ``badness`` is called ``budget`` times, never twice for the same,
    and ``progress`` is told the fraction that is used.

    Source: Ding et al. 2024 (arXiv 2402.13753), §3.2 and Algorithm 1; Shang et al. 2025 (arXiv
    2502.20082), §3.
    """
    if not starts or len({len(start.factors) for start in starts}) != 1 or budget < len(starts):
        raise ValueError(
            f"starts must be 1 to {budget} candidates (budget), all with as many factors: got "
            f"{starts}"
        )
    for start in starts:
        if (
            not 1 <= start.factors.min() <= start.factors.max() <= upper
            or (start.factors.diff() < 0).any()
        ):
            raise ValueError(
                f"starts must rise from at least 1 to at most upper={upper}: got "
                f"{start.factors.tolist()}"
            )
    if upper <= 1:
        raise ValueError(f"upper must be above 1: got upper={upper}")
    generator = torch.Generator().manual_seed(seed)
    values: dict[tuple[float, ...], tuple[float, Candidate]] = {}
    result = Search(starts[0], math.inf)

    def try_out(candidate: Candidate) -> None:
        key = (*candidate.factors.tolist(), candidate.first_tokens)
        if key in values or len(values) == budget:
            return
        value = badness(candidate)
        values[key] = value, candidate
        if value < result.value:
            result.best, result.value = candidate, value
            result.history.append((len(values), value))
        progress(len(values) / budget)

    for candidate in starts:
        try_out(candidate)
    while len(values) < budget:
        fittest = [
            candidate
            for _, candidate in sorted(values.values(), key=lambda pair: pair[0])[:PARENTS]
        ]
        children = [
            _mutate(_choice(fittest, generator), upper, generator)
            if number % 2 == 0 or len(fittest) < 2
            else _cross(_choice(fittest, generator), _choice(fittest, generator), generator)
            for number in range(POPULATION - len(fittest))
        ]
        for candidate in children:
            try_out(candidate)
    result.history.append((len(values), result.value))
    return result


def _mutate(parent: Candidate, upper: float, generator: torch.Generator) -> Candidate:
    """Draw some factors anew between their neighbours, and now and then the number of first
    tokens."""
    factors = parent.factors.clone()
    for i in range(len(factors)):
        if _random(generator) < MUTATED:
            low = factors[i - 1] if i > 0 else 1.0
            high = factors[i + 1] if i + 1 < len(factors) else upper
            factors[i] = low + (high - low) * _random(generator)
    if _random(generator) < 0.5:  # all at once: a power keeps the order, and moves the whole curve
        factors = factors ** (0.7 + 0.6 * _random(generator))
    kept = _choice(FIRST_TOKENS, generator) if _random(generator) < MUTATED else parent.first_tokens
    return Candidate(factors.clamp(1.0, upper), kept)


def _cross(one: Candidate, other: Candidate, generator: torch.Generator) -> Candidate:
    """Take each factor from either parent, and raise what would fall."""
    from_one = torch.rand(len(one.factors), generator=generator) < 0.5
    factors = torch.where(from_one, one.factors, other.factors).cummax(0).values
    return Candidate(factors, one.first_tokens if _random(generator) < 0.5 else other.first_tokens)


def _choice(choices: Sequence[Any], generator: torch.Generator) -> Any:
    return choices[int(torch.randint(len(choices), (), generator=generator))]


def _random(generator: torch.Generator) -> float:
    return torch.rand((), generator=generator, dtype=torch.float64).item()
