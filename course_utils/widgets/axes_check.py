"""The axis rule put to the test: normalize by it from scratch, and ask PyTorch's own layer for the same input."""

from dataclasses import dataclass
from math import prod

import torch
from torch import nn

from course_utils.session import generator
from course_utils.widgets.axes import AxisState, blocks

__all__ = ["Answer", "builtin", "check_against_builtin", "example_input", "normalize_by_rule"]

_EPS = 1e-5  # PyTorch's default for all but RMS norm


@dataclass(frozen=True)
class Answer:
    """What PyTorch says to a state.

    Args:
        problem: the exception's type and message where PyTorch refuses, else empty.
        remark: what is odd about a setting that PyTorch accepts, else empty.
        errors: the largest difference between the rule and the built-in, by dtype; empty where PyTorch refuses.
        picked: the picked element's arithmetic in one line; empty where PyTorch refuses.
    """

    problem: str = ""
    remark: str = ""
    errors: tuple[tuple[str, float], ...] = ()
    picked: str = ""


def example_input(state: AxisState, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return the tensor that is normalized: mean 3, standard deviation 2, the same for the same shape."""
    return (3 + 2 * torch.randn(state.shape, generator=generator(0), dtype=torch.float64)).to(dtype)


def builtin(state: AxisState, x: torch.Tensor) -> torch.Tensor:
    """Return what PyTorch's own layer, newly made and in training mode, gives for ``x``.

    Raises:
        ValueError: PyTorch's own, where it refuses the setting.
    """
    channels, last = state.sizes["C"], list(state.shape[1:] if state.axes == "BCHW" else state.shape[2:])
    channels_second = x if state.axes == "BCHW" else x.transpose(1, 2)
    kind = {"BCHW": "2d", "BTC": "1d"}[state.axes]
    layer: nn.Module
    if state.norm == "layer":
        layer = nn.LayerNorm(last)
    elif state.norm == "rms":
        layer = nn.RMSNorm(last)
    elif state.norm == "group":
        layer = nn.GroupNorm(state.groups, channels)
    else:
        layer = getattr(nn, f"{state.norm.capitalize()}Norm{kind}")(channels)
    layer = layer.to(x.dtype)
    with torch.no_grad():
        if state.norm in ("layer", "rms"):
            return layer(x)
        y = layer(channels_second)
    return y if state.axes == "BCHW" else y.transpose(1, 2)


def normalize_by_rule(state: AxisState, x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` normalized by nothing but the rule: split each axis, average over the inner parts.

    Raises:
        ValueError: the groups do not divide the channels.
    """
    mean, variance, eps = _statistics(state, x)
    return ((_split(state, x) - mean) / torch.sqrt(variance + eps)).reshape(x.shape)


def check_against_builtin(state: AxisState) -> Answer:
    """Return how far the rule is from PyTorch's layer on an example, or why PyTorch refuses."""
    errors = []
    for dtype in (torch.float32, torch.float64):
        x = example_input(state, dtype)
        try:
            expected = builtin(state, x)
        except (ValueError, RuntimeError) as refusal:
            return Answer(problem=f"{type(refusal).__name__}: {refusal}")
        difference = (normalize_by_rule(state, x) - expected).abs().max()
        errors.append((str(dtype).removeprefix("torch."), float(difference)))
    return Answer(remark=_remark(state), errors=tuple(errors), picked=_picked(state))


def _split(state: AxisState, x: torch.Tensor) -> torch.Tensor:
    """Return a view of ``x`` in which every axis of size n has become (blocks, n / blocks)."""
    shape = [part for size, count in zip(x.shape, blocks(state), strict=True) for part in (count, size // count)]
    return x.reshape(shape)


def _statistics(state: AxisState, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return mean (0 for RMS norm), variance and eps, shaped to broadcast against the split tensor."""
    parts = _split(state, x)
    inner = tuple(range(1, parts.ndim, 2))
    if state.norm == "rms":
        return torch.zeros((), dtype=x.dtype), parts.square().mean(inner, keepdim=True), torch.finfo(x.dtype).eps
    mean = parts.mean(inner, keepdim=True)
    return mean, (parts - mean).square().mean(inner, keepdim=True), _EPS


def _remark(state: AxisState) -> str:
    if prod(state.shape) != prod(blocks(state)):
        return ""
    left = "its sign, ±1" if state.norm == "rms" else "0, up to rounding"
    return f"Every statistic sees a single value, so what is left of it is {left}."


def _picked(state: AxisState) -> str:
    x = example_input(state)
    mean, variance, _ = _statistics(state, x)
    at = state.picked_index
    value, output = float(x[at]), float(normalize_by_rule(state, x)[at])
    numerator = f"{value:.2f}"
    if state.norm != "rms":
        numerator = f"({value:.2f} − {float(_expand(state, mean)[at]):.2f})".replace("− -", "+ ")
    root = f"√({float(_expand(state, variance)[at]):.2f} + ε)"
    line = f"x[{', '.join(map(str, at))}] = {value:.2f} becomes {numerator} / {root} = {output:.2f}"
    return line.replace("-", "−")


def _expand(state: AxisState, statistic: torch.Tensor) -> torch.Tensor:
    """Return one value per element of the tensor."""
    return statistic.expand(_split(state, torch.empty(state.shape)).shape).reshape(state.shape)
