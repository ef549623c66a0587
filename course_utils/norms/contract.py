"""What PyTorch's norms refuse, in PyTorch's words: the types and messages of torch 2.13 on a CPU."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

__all__ = [
    "check_batch_norm",
    "check_group_norm",
    "check_instance_norm",
    "check_layer_norm",
    "check_rms_norm",
]


def check_layer_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None) -> None:
    """Raise what `torch.nn.functional.layer_norm` raises for these arguments."""
    _check_normalized_shape("layer_norm", normalized_shape, weight, bias)
    shape = list(normalized_shape)
    if x.dim() < len(shape) or list(x.shape[x.dim() - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*, {str(shape)[1:]}, "
            f"but got input of size{list(x.shape)}"
        )
    _check_parameter_dtypes(x, weight, bias)
    _check_floating("LayerNormKernelImpl", x)


def check_rms_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None) -> None:
    """Raise what `torch.nn.functional.rms_norm` raises for these arguments."""
    _check_normalized_shape("rms_norm", normalized_shape, weight, None)
    shape = list(normalized_shape)
    if x.dim() < len(shape):
        raise ValueError(f"Input tensor must have at least {len(shape)} dimensions, but got {x.dim()}")
    if list(x.shape[x.dim() - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*{str(shape)[1:]}, "
            f"but got input of size{list(x.shape)}"
        )
    if not x.is_complex():
        _check_floating("rms_norm", x)


def check_group_norm(x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None) -> None:
    """Raise what `torch.nn.functional.group_norm` raises for these arguments."""
    if x.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.dim()}")
    batch, channels, *positions = x.shape
    # One value a group in the whole batch: PyTorch asks for more even in evaluation, although one sample may have one.
    _check_more_than_one([batch * channels // num_groups, num_groups, *positions])
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, "
            f"but got input of shape {list(x.shape)} and num_groups={num_groups}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and list(parameter.shape) != [channels]:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(parameter.shape)} and input of shape {list(x.shape)}"
            )
    _check_parameter_dtypes(x, weight, bias)
    _check_floating("GroupNormKernelImpl", x)
    if not x.numel():  # PyTorch 2.13 returns nothing for groups without values, 2.15 refuses them: this one decides
        torch.group_norm(x.detach(), num_groups)


def check_instance_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    use_input_stats: bool,
) -> None:
    """Raise what `torch.nn.functional.instance_norm` raises for these arguments."""
    if use_input_stats and prod(x.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {x.shape}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    _check_both_or_neither(running_mean, running_var)
    _check_lengths(x, running_mean, running_var, weight, bias, copies=x.shape[0])
    _check_floating("batch_norm", x)
    _check_parameter_dtypes(x, weight, bias)
    _check_constant(running_mean, running_var)


def check_batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    eps: float,
) -> None:
    """Raise what `torch.nn.functional.batch_norm` raises for these arguments."""
    if training:
        _check_more_than_one(x.shape)
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if x.dim() > 0 and x.numel() == 0:
        return
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    _check_both_or_neither(running_mean, running_var)
    _check_lengths(x, running_mean, running_var, weight, bias)
    _check_floating("batch_norm", x)
    _check_parameter_dtypes(x, weight, bias, running_mean, running_var)
    _check_constant(running_mean, running_var)


def _check_normalized_shape(
    function: str, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None
) -> None:
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(
            f"{function}(): argument 'normalized_shape' (position 2) must be tuple of ints, "
            f"not {type(normalized_shape).__name__}"
        )
    shape = list(normalized_shape)
    for position, size in enumerate(shape):
        if isinstance(size, float):
            raise TypeError(
                f"{function}(): argument 'normalized_shape' (position 2) must be tuple of ints, "
                f"but found element of type float at pos {position}"
            )
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and list(parameter.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, "
                f"but got {name} of shape {list(parameter.shape)} and normalized_shape = {shape}"
            )


def _check_more_than_one(size: Sequence[int]) -> None:
    """Refuse a size (N, C, *) with a single value per channel, whose variance says nothing."""
    if size[0] * prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _check_both_or_neither(running_mean: Tensor | None, running_var: Tensor | None) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


def _check_constant(running_mean: Tensor | None, running_var: Tensor | None) -> None:
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is not None and running.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. "
                "This input cannot have requires_grad True."
            )


def _check_lengths(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    copies: int = 1,
) -> None:
    """Ask for a value a channel; PyTorch's instance norm counts ``copies`` of each, one per sample."""
    channels = x.shape[1] if x.dim() > 1 else 0
    named = (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    for name, values in named:
        if values is not None and values.numel() != channels:
            raise RuntimeError(f"{name} should contain {copies * channels} elements not {copies * values.numel()}")


def _check_parameter_dtypes(x: Tensor, *parameters: Tensor | None) -> None:
    """Ask for parameters of the input's dtype, or all float32 beside a half-precision input; only the CPU insists."""
    dtypes = [parameter.dtype for parameter in parameters if parameter is not None]
    if x.device.type != "cpu" or not dtypes:
        return
    if dtypes[0] == x.dtype:
        for dtype in dtypes:
            if dtype != x.dtype:
                raise RuntimeError(f"expected scalar type {_type_name(x.dtype)} but found {_type_name(dtype)}")
        return
    if any(dtype != torch.float32 for dtype in dtypes):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if x.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def _check_floating(kernel: str, x: Tensor) -> None:
    if not x.is_floating_point():
        raise NotImplementedError(f'"{kernel}" not implemented for {_type_name(x.dtype)!r}')


def _type_name(dtype: torch.dtype) -> str:
    """Return PyTorch's C++ name of ``dtype``: ``Float``, ``Long``, ``ComplexFloat``."""
    return torch.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")
