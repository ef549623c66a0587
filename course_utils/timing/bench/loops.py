"""The definitions, an element at a time: the lowest rung of the ladder, for tensors of a few hundred elements.

Each addition and product of the formulas is one operation on a tensor without dimensions, so autograd can follow.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["batch_norm", "layer_norm", "rms_norm", "rope"]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return layer norm of ``x`` (rows, features); ``weight`` and ``bias`` are (features,)."""
    rows = []
    for row in x:
        x_hat = _standardised(list(row), eps)
        rows.append(torch.stack([value * w + b for value, w, b in zip(x_hat, weight, bias, strict=True)]))
    return torch.stack(rows)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Return RMS norm of ``x`` (rows, features); ``weight`` is (features,)."""
    rows = []
    for row in x:
        mean_square = sum((value**2 for value in row), start=x.new_zeros(())) / len(row)
        rstd = 1 / torch.sqrt(mean_square + eps)
        rows.append(torch.stack([value * rstd * w for value, w in zip(row, weight, strict=True)]))
    return torch.stack(rows)


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return batch norm of ``x`` (N, C, *) with the batch's statistics; ``weight`` and ``bias`` are (C,)."""
    channels = []
    for channel, w, b in zip(x.transpose(0, 1), weight, bias, strict=True):
        x_hat = _standardised(list(channel.flatten()), eps)
        channels.append(torch.stack([value * w + b for value in x_hat]).view(channel.shape))
    return torch.stack(channels, dim=1)


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``q`` and ``k`` (..., T, D) rotated, half layout; ``cos`` and ``sin`` are (T, D/2)."""

    def rotated(x: Tensor) -> Tensor:
        tokens, half = x.shape[-2], cos.shape[-1]
        rows = []
        for t, row in enumerate(x.flatten(0, -2)):
            pairs = [(row[i], row[i + half], cos[t % tokens, i], sin[t % tokens, i]) for i in range(half)]
            first = [a * c - b * s for a, b, c, s in pairs]
            second = [a * s + b * c for a, b, c, s in pairs]
            rows.append(torch.stack(first + second))
        return torch.stack(rows).view(x.shape)

    return rotated(q), rotated(k)


def _standardised(values: Sequence[Tensor], eps: float) -> list[Tensor]:
    """Return the values of one group, centred and scaled by their own mean and variance."""
    zero = values[0].new_zeros(())
    mean = sum(values, start=zero) / len(values)
    variance = sum(((value - mean) ** 2 for value in values), start=zero) / len(values)
    rstd = 1 / torch.sqrt(variance + eps)
    return [(value - mean) * rstd for value in values]
