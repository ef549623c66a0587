"""The exponent of a power law that fits best."""

import torch

__all__ = ["power_law"]


def power_law(lengths: list[int], times: list[float]) -> tuple[float, float]:
    """Return p and R² of the best fit time = c · lengthᵖ (least squares of the logarithms): p = 1
    is linear."""
    x, y = (torch.tensor(values, dtype=torch.float64).log() for values in (lengths, times))
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    return slope.item(), ((slope * x).square().sum() / y.square().sum()).item()
