"""What PyTorch refuses, said by PyTorch: arguments that are not plainly in order go to the
built-in, which may raise.

Chapters 02, 03 and 06.

Each function takes the arguments of its namesake in `torch.nn.functional`, running statistics as a
pair and weight and bias as another where there are both. Running statistics go on as copies, since
the built-in may move them before it raises, or not raise at all.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[Tensor | None, Tensor | None]


def check_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None
) -> None:
    if not (ends_in(x, normalized_shape, weight, bias) and _dtypes_fit(x, weight, bias)):
        F.layer_norm(x, normalized_shape, weight, bias)


def check_rms_norm(x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None) -> None:
    if not (ends_in(x, normalized_shape, weight) and _dtypes_fit(x, weight)):
        F.rms_norm(x, normalized_shape, weight)


def check_group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None
) -> None:
    in_groups = (
        x.dim() >= 2 and num_groups > 0 and x.shape[1] % num_groups == 0 and x.numel() > num_groups
    )
    if not (in_groups and _one_per_channel(x, weight, bias) and _dtypes_fit(x, weight, bias)):
        F.group_norm(x, num_groups, weight, bias)


def check_instance_norm(x: Tensor, running: Pair, parameters: Pair, use_input_stats: bool) -> None:
    has_positions = x.dim() >= 3 and x.shape[2:].numel() > 1
    if not (has_positions and _running_fit(x, running, parameters, use_input_stats)):
        F.instance_norm(x, *_copies(running), *parameters, use_input_stats)


def check_batch_norm(
    x: Tensor, running: Pair, parameters: Pair, training: bool, eps: float
) -> None:
    has_batch = x.dim() >= 2 and x.numel() > x.shape[1] and eps > 0
    if not (has_batch and _running_fit(x, running, parameters, training)):
        F.batch_norm(x, *_copies(running), *parameters, training, eps=eps)


def _copies(running: Pair) -> Pair:
    mean, variance = (None if value is None else value.clone() for value in running)
    return mean, variance


def ends_in(x: Tensor, normalized_shape: Sequence[int], *parameters: Tensor | None) -> bool:
    """The last sizes of x are ``normalized_shape``, and so is the shape of each parameter."""
    if not isinstance(normalized_shape, Sequence) or not 0 < len(normalized_shape) <= x.dim():
        return False
    shape = tuple(normalized_shape)
    fits = (
        all(isinstance(size, int | torch.SymInt) for size in shape)
        and x.shape[-len(shape) :] == shape
    )
    return fits and all(parameter is None or parameter.shape == shape for parameter in parameters)


def _one_per_channel(x: Tensor, *values: Tensor | None) -> bool:
    return all(value is None or value.shape == x.shape[1:2] for value in values)


def _dtypes_fit(x: Tensor, *parameters: Tensor | None) -> bool:
    """All of the dtype of x, or all float32 beside a half-precision x."""
    dtypes = [parameter.dtype for parameter in parameters if parameter is not None]
    if not x.is_floating_point():
        return False
    in_half = x.dtype in (torch.float16, torch.bfloat16)
    return all(dtype == x.dtype for dtype in dtypes) or (
        in_half and all(dtype == torch.float32 for dtype in dtypes)
    )


def _running_fit(x: Tensor, running: Pair, parameters: Pair, by_input: bool) -> bool:
    """Both running statistics are there, or neither where the input has its own; none asks for a
    gradient."""
    there = [statistic for statistic in running if statistic is not None]
    complete = len(there) == 2 or (by_input and not there)
    constant = not any(statistic.requires_grad for statistic in there)
    everything = (*running, *parameters)
    return (
        complete and constant and _one_per_channel(x, *everything) and _dtypes_fit(x, *everything)
    )
