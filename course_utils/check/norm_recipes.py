"""The five norms written once, with every step an argument, so that a mistake is a recipe with one step replaced."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "affine",
    "as_dtype",
    "as_given",
    "batch_norm_with",
    "eps_of_arithmetic",
    "group_norm_with",
    "instance_norm_with",
    "layer_norm_with",
    "mean_square",
    "minus_mean",
    "move_towards",
    "over_root",
    "per_channel",
    "rms_norm_with",
    "unbiased_statistics",
    "variance",
    "widen",
]

Step = Callable[..., Any]
Axes = tuple[int, ...]


def widen(x: Tensor) -> Tensor:
    """Return half precision as float32, where statistics belong, and anything wider as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def as_given(z: Tensor, *_: Any) -> Tensor:
    """Leave ``z`` alone, in the place of any step."""
    return z


def minus_mean(z: Tensor, dims: Axes) -> Tensor:
    """Centre."""
    return z - z.mean(dims, keepdim=True)


def mean_square(c: Tensor, z: Tensor, dims: Axes) -> Tensor:
    """Measure the spread of ``c``, which is ``z`` centred: its variance (or, not centred, its mean square)."""
    return c.square().mean(dims, keepdim=True)


def variance(c: Tensor, z: Tensor, dims: Axes) -> Tensor:
    """Measure the spread of ``z`` by its variance, whether ``c`` is centred or not."""
    return z.var(dims, correction=0, keepdim=True)


def over_root(c: Tensor, spread: Tensor, eps: float) -> Tensor:
    """Scale by the root of the spread, epsilon inside."""
    return c * torch.rsqrt(spread + eps)


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scale and shift; ``weight`` and ``bias`` broadcast."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def as_dtype(y: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to the input's dtype: right once, after the affine step, and a mistake before it."""
    return y.to(dtype)


def per_channel(parameter: Tensor | None, ndim: int) -> Tensor | None:
    """Return a (C,) parameter in a shape that broadcasts along axis 1 of an input with ``ndim`` axes."""
    return None if parameter is None else parameter.reshape(1, -1, *[1] * (ndim - 2))


def unbiased_statistics(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return mean and unbiased variance per channel; where ``dims`` leave instances apart, their average."""
    mean, variance = z.mean(dims), z.var(dims, correction=1)
    return (mean.mean(0), variance.mean(0)) if mean.ndim == 2 else (mean, variance)


def move_towards(running: Tensor, batch: Tensor, momentum: float) -> None:
    """Update in place, the new value weighted by ``momentum``."""
    running.copy_((1 - momentum) * running + momentum * batch)


def update_both(running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, momentum: float) -> None:
    """Update both running statistics, outside the graph."""
    with torch.no_grad():
        move_towards(running_mean, mean, momentum)
        move_towards(running_var, variance, momentum)


def eps_of_arithmetic(x: Tensor) -> float:
    """Return what torch's RMS norm takes for eps=None: the machine epsilon of the dtype it computes in."""
    return torch.finfo(widen(x).dtype).eps


_STEPS: dict[str, Step] = {
    "widen": widen,  # (x) -> z
    "before": as_given,  # (z, weight, bias) -> z: nothing stands before the statistics
    "centre": minus_mean,  # (z, dims) -> c
    "spread": mean_square,  # (c, z, dims) -> spread
    "scale": over_root,  # (c, spread, eps) -> y
    "narrow": as_given,  # (y, dtype) -> y: float32 is kept until after the affine step
    "affine": affine,  # (y, weight, bias) -> y
    "close": as_dtype,  # (y, dtype) -> y: back to the input's dtype
    "parameter": per_channel,  # (parameter, ndim) -> parameter that broadcasts
    "batch_statistics": unbiased_statistics,  # (z, dims) -> mean, variance for the running statistics
    "update": update_both,  # (running_mean, running_var, mean, variance, momentum): in place
    "default_eps": eps_of_arithmetic,  # (x) -> eps
}


def _normalize(step: dict[str, Step], z: Tensor, dims: Axes, eps: float) -> Tensor:
    c = step["centre"](z, dims)
    return step["scale"](c, step["spread"](c, z, dims), eps)


def _finish(step: dict[str, Step], y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return step["close"](step["affine"](step["narrow"](y, x.dtype), weight, bias), x.dtype)


def _trailing(x: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(normalized_shape), 0))


def layer_norm_with(dims: Step = _trailing, **steps: Step) -> Callable:
    """Return a layer norm with some ``steps`` replaced; ``dims(x, normalized_shape)`` are what it averages over."""
    step = _STEPS | steps

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        z = step["before"](step["widen"](x), weight, bias)
        return _finish(step, _normalize(step, z, dims(x, normalized_shape), eps), x, weight, bias)

    return layer_norm


def rms_norm_with(dims: Step = _trailing, **steps: Step) -> Callable:
    """Return an RMS norm with some ``steps`` replaced; ``dims(x, normalized_shape)`` are what it averages over."""
    plain = layer_norm_with(dims, **({"centre": as_given} | steps))
    default_eps = (_STEPS | steps)["default_eps"]

    def rms_norm(x, normalized_shape, weight=None, eps=None):
        return plain(x, normalized_shape, weight, None, default_eps(x) if eps is None else eps)

    return rms_norm


def _consecutive(z: Tensor, num_groups: int) -> Tensor:
    return z.reshape(z.shape[0], num_groups, -1)


def group_norm_with(split: Step = _consecutive, **steps: Step) -> Callable:
    """Return a group norm with some ``steps`` replaced; ``split(z, num_groups)`` puts what is averaged in axes 2 on."""
    step = _STEPS | steps

    def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
        weight, bias = step["parameter"](weight, x.ndim), step["parameter"](bias, x.ndim)
        groups = split(step["before"](step["widen"](x), weight, bias), num_groups)
        y = _normalize(step, groups, tuple(range(2, groups.ndim)), eps).reshape(x.shape)
        return _finish(step, y, x, weight, bias)

    return group_norm


def _running_norm_with(leading: tuple[int, ...], dims: Step | None, use: Step, follow: Step, steps: dict) -> Callable:
    """Return batch norm (``leading`` is (0,)) or instance norm (()), with its last arguments in their common order."""
    step = _STEPS | steps

    def norm(x, running_mean, running_var, weight, bias, from_input, momentum, eps):
        own_dims = (*leading, *range(2, x.ndim))
        weight, bias = step["parameter"](weight, x.ndim), step["parameter"](bias, x.ndim)
        z = step["before"](step["widen"](x), weight, bias)
        if use(from_input) or running_mean is None:
            y = _normalize(step, z, dims(x) if dims else own_dims, eps)
        else:
            mean, variance = step["parameter"](running_mean, x.ndim), step["parameter"](running_var, x.ndim)
            y = step["scale"](z - mean, variance, eps)
        if follow(from_input) and running_mean is not None:
            step["update"](running_mean, running_var, *step["batch_statistics"](z, own_dims), momentum)
        return _finish(step, y, x, weight, bias)

    return norm


def batch_norm_with(dims: Step | None = None, use: Step = bool, follow: Step = bool, **steps: Step) -> Callable:
    """Return a batch norm with some ``steps`` replaced.

    ``dims(x)`` are what it averages over, ``use(training)`` is whether the batch's statistics normalize, and
    ``follow(training)`` whether the running statistics move.
    """
    norm = _running_norm_with((0,), dims, use, follow, steps)

    def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        return norm(x, running_mean, running_var, weight, bias, training, momentum, eps)

    return batch_norm


def instance_norm_with(dims: Step | None = None, use: Step = bool, follow: Step = bool, **steps: Step) -> Callable:
    """Return an instance norm with some ``steps`` replaced, as ``batch_norm_with`` does."""
    norm = _running_norm_with((), dims, use, follow, steps)

    def instance_norm(
        x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
    ):
        return norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)

    return instance_norm
