"""Chapter 21: what an argument of a piece may be, and a random one of these."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from chapters.c21_find_the_bug.bugs.reply import allowed_values, fits

__all__ = ["Spec", "below", "read_spec"]


class Spec(NamedTuple):
    """What an argument may be."""

    fits: Callable[[Any], bool]  # whether a value is that
    # A random one, from the sizes of the axes and the number of the dtype that all tensors of a
    # draw have.
    draw: Callable[[torch.Generator, Mapping[str, int], int], Any]
    axes: str = ""  # of a tensor, a letter for each


def read_spec(limits: Mapping[str, Any]) -> Spec:
    """Return what ``limits`` in bugs.toml say."""

    def draw(rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> Any:
        if "axes" in limits:
            if limits.get("or_none") and below(2, rng):
                return None
            values = torch.randn([sizes[letter] for letter in limits["axes"]], generator=rng)
            dtypes = limits.get("dtypes", ["float32"])
            return values.to(getattr(torch, dtypes[dtype_number % len(dtypes)]))
        if "low" in limits:
            low, high = limits["low"], limits["high"]
            return low + (high - low) * torch.rand((), generator=rng).item()
        choices = allowed_values(limits)
        return choices[below(len(choices), rng)]

    return Spec(partial(fits, limits), draw, limits.get("axes", ""))


def below(high: int, rng: torch.Generator) -> int:
    """Return a random whole number from 0 to ``high`` - 1."""
    return int(torch.randint(high, (), generator=rng))
