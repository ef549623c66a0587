"""A rotary embedding in steps that can be replaced one by one: what the examples of the catalogue are made from."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["LAYOUTS", "in_both_layouts", "inv_freq_with", "pairs", "rope_with"]

Step = Callable[..., Any]


def pairs(dim: int) -> Tensor:
    """Return the numbers 0, 1, ... of the pairs of ``dim`` dimensions as float64 (dim/2,)."""
    return torch.arange(dim // 2, dtype=torch.float64)


def inv_freq_with(exponent: Callable[[int], Tensor]) -> Step:
    """Return frequencies base^(-e) for the exponents (pairs,) that ``exponent(dim)`` gives."""
    return lambda dim, base, x: base ** -exponent(dim)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def _rotate_pairs(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


# name -> how the angles of the pairs are spread over all dimensions, and what the sine multiplies
LAYOUTS: dict[str, tuple[Step, Step]] = {
    "half": (lambda angles: torch.cat((angles, angles), dim=-1), _rotate_half),
    "interleaved": (lambda angles: angles.repeat_interleave(2, dim=-1), _rotate_pairs),
}

_STEPS: dict[str, Step] = {
    "prepare": lambda x: x,
    "place": lambda positions: positions,
    "inv_freq": lambda dim, base, x: base ** (-2 * pairs(dim) / dim),
    "angles": lambda positions, inv_freq, x: positions.double()[:, None] * inv_freq.double(),  # (T, pairs)
    "beside": lambda table, x: table,  # (T, dim) -> what broadcasts with x
    "turn": lambda x, rotated, cos, sin: x * cos + rotated * sin,
    "close": lambda y, x: y.to(x.dtype),
}


def rope_with(layout: str = "half", **steps: Step) -> Callable[..., Tensor]:
    """Return a rotary embedding with some ``steps`` replaced; ``spread`` and ``rotate`` come from the layout."""
    spread, rotate = LAYOUTS[layout]
    step = {**_STEPS, "spread": spread, "rotate": rotate, **steps}

    def rope(x, positions, base=10_000.0):
        inv_freq = step["inv_freq"](x.shape[-1], base, x).to(x.device)
        angles = step["spread"](step["angles"](step["place"](positions), inv_freq, x))  # (T, dim)
        z = _wide(step["prepare"](x))
        cos, sin = (step["beside"](table.to(z.dtype), x) for table in (angles.cos(), angles.sin()))
        return step["close"](step["turn"](z, step["rotate"](z), cos, sin), x)

    return rope


def in_both_layouts(**steps: Step) -> tuple[Callable[..., Tensor], ...]:
    """Return ``rope_with`` the same steps replaced, in each layout."""
    return tuple(rope_with(layout, **steps) for layout in LAYOUTS)
