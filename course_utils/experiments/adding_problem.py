"""The adding problem: of a sequence of random numbers two are marked, and their sum is asked for at
the end.

Hochreiter and Schmidhuber 1997, §5.4.
"""

import torch
from torch import Tensor

__all__ = ["adding_problem"]


def adding_problem(batch: int, length: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sequences (B, T, 2) of a number from 0 to 1 and a mark, and the sums of the two marked
    numbers (B,).

    One mark is in the first half, one in the second.
    """
    numbers = torch.rand(batch, length, generator=rng)
    half = length // 2
    first = torch.randint(half, (batch, 1), generator=rng)
    second = half + torch.randint(length - half, (batch, 1), generator=rng)
    where = torch.cat([first, second], dim=1)  # (B, 2)
    marks = torch.zeros(batch, length).scatter_(1, where, 1.0)
    return torch.stack([numbers, marks], dim=-1), numbers.gather(1, where).sum(dim=1)
