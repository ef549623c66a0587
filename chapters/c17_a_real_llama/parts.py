"""Whose parts are put into the model, and a rope in the order that the model's weights are made
for."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from chapters import yours
from course_utils.rope import half_to_interleaved

__all__ = ["in_halves", "whose"]

Rope = Callable[[Tensor, Tensor, float], Tensor]


def in_halves(rope: Rope) -> Rope:
    """Return an answer of ``yours.rope`` for weights that are made for halves: itself, or, where it
    turns neighbours, a function that lets it turn x in its own order and puts the result back.

    To permute the columns of queries and keys is to permute the rows of W_q and W_k (chapter 14),
    whatever comes between, a bias or Qwen's norm; and every layer stays comparable.
    """
    if not yours.convention_of(rope):
        return rope
    print("It turns neighbours, and is handed each head in that order: i beside i + d/2.")

    @functools.wraps(rope)
    def turn_halves(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
        order = half_to_interleaved(torch.arange(x.shape[-1]), num_heads=1)  # 0, d/2, 1, d/2 + 1, …
        return rope(x[..., order], positions, base)[..., order.argsort()]

    return turn_halves


def whose(parts: Mapping[str, Any]) -> str:
    """Return whose the parts are: ``your parts``, or ``your rms_norm and the course's rope``."""
    owners = {name: yours.owner_of(part) for name, part in parts.items()}
    if len(set(owners.values())) == 1:
        return f"{owners.popitem()[1]} parts"
    return " and ".join(f"{owner} {name}" for name, owner in owners.items())
