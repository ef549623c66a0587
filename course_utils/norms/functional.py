"""The five norms as functions: arguments (the first is called ``x``), results and errors of ``torch.nn.functional``.

``weight`` is γ, one where it is missing; ``bias`` is β, zero where it is missing; ``eps`` is added inside the root. The
result has the shape and dtype of ``x``.

Notation used for tensor shapes: N samples, C channels, ``*`` any dimensions, the positions of a channel for instance.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_utils.norms import contract
from course_utils.norms.core import (
    affine,
    channel_shape,
    inverse_rms,
    match_memory_format,
    moments,
    result_dtype,
    standardize,
    trailing_dims,
    upcast_half,
)


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each sample of ``x`` (*, *normalized_shape), floating, over its last dimensions; contiguous.

    Weight and bias have the shape ``normalized_shape``.

    Chapter 02. Source: Ba, Kiros, Hinton 2016, eq. 3.

    >>> layer_norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), (4,))
    tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
    """
    contract.check_layer_norm(x, normalized_shape, weight, bias)
    x_hat = standardize(upcast_half(x), trailing_dims(normalized_shape), eps)
    return affine(x_hat, weight, bias, normalized_shape).to(result_dtype(x)).contiguous()


def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide each sample of ``x`` (*, *normalized_shape), floating or complex, by its root mean square.

    The weight, of shape ``normalized_shape``, is multiplied before the one rounding (Llama's own layer rounds first).
    An ``eps`` of None is the machine epsilon of the dtype computed in, so float32's for half-precision inputs.

    Chapter 06. Source: Zhang, Sennrich 2019, eq. 4.

    >>> rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    contract.check_rms_norm(x, normalized_shape, weight)
    z = upcast_half(x)
    z_hat = z * inverse_rms(z, trailing_dims(normalized_shape), eps)
    return match_memory_format(x, affine(z_hat, weight, None, normalized_shape).to(result_dtype(x)))


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize each sample of ``x`` (N, C, *), floating, over groups of neighbouring channels and all positions.

    One group is layer norm over (C, *), C groups are instance norm. Weight and bias are (C,); a channels-last input
    stays so.

    Chapter 06. Source: Wu, He 2018, eq. 7.
    """
    contract.check_group_norm(x, num_groups, weight, bias)
    groups = upcast_half(x).unflatten(1, (num_groups, x.shape[1] // num_groups))  # (N, G, C/G, *)
    x_hat = standardize(groups, tuple(range(2, groups.dim())), eps).flatten(1, 2)  # (N, C, *)
    return match_memory_format(x, affine(x_hat, weight, bias, channel_shape(x)).to(result_dtype(x)))


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize every channel of every sample of ``x`` (N, C, *), floating, over its own positions; contiguous.

    Running statistics (C,) are moved in place, towards the average over the samples, when ``use_input_stats``, and take
    the place of the input's otherwise. ``momentum`` is the weight of the new ones.

    Chapter 06. Source: Ulyanov, Vedaldi, Lempitsky 2016, eq. 3.
    """
    running, parameters = (running_mean, running_var), (weight, bias)
    contract.check_instance_norm(x, running, parameters, use_input_stats)
    positions = tuple(range(2, x.dim()))
    return _normalize_channels(x, positions, running, parameters, use_input_stats, momentum, eps).contiguous()


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize every channel of ``x`` (N, C, *), floating, over the batch and all positions.

    When ``training``, by the batch's own mean and biased variance, and the running statistics (C,) are moved in place,
    the variance unbiased, with ``momentum`` as the weight of the new ones; otherwise by the running statistics. A
    channels-last input stays so.

    Chapter 03. Source: Ioffe, Szegedy 2015, algorithms 1 and 2.
    """
    running, parameters = (running_mean, running_var), (weight, bias)
    contract.check_batch_norm(x, running, parameters, training, eps)
    if x.numel() == 0:  # nothing to normalize and no statistics to learn; weight and bias still get a gradient of zero
        return affine(x.clone(), weight, bias, channel_shape(x))
    batch_and_positions = (0, *range(2, x.dim()))
    y = _normalize_channels(x, batch_and_positions, running, parameters, training, momentum, eps)
    return match_memory_format(x, y)


def _normalize_channels(
    x: Tensor,
    dims: tuple[int, ...],
    running: contract.Pair,
    parameters: contract.Pair,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch and instance norm: statistics of the input over ``dims``, or the running ones, then γ and β a channel."""
    dtype, channels, (running_mean, running_var) = x.dtype, channel_shape(x), running
    x = upcast_half(x)
    if use_input_stats:
        centred, mean, variance = moments(x, dims)
        if running_mean is not None and running_var is not None and x.numel() > 0:
            count = x.numel() // mean.numel()
            _move_average(running_mean, mean, momentum)
            _move_average(running_var, variance * (count / (count - 1)), momentum)  # stored unbiased
    else:
        assert running_mean is not None, "the contract has been checked"
        assert running_var is not None
        centred = x - running_mean.to(x.dtype).reshape(channels)
        variance = running_var.to(x.dtype).reshape(channels)
    x_hat = centred * torch.rsqrt(variance + eps)
    return affine(x_hat, *parameters, channels).to(dtype)


@torch.no_grad()
def _move_average(running: Tensor, batch: Tensor, momentum: float) -> None:
    """Move ``running`` (C,) towards ``batch`` (N or 1, C, 1...) averaged over its samples, in place, rounding once."""
    new = batch.mean(0).flatten()  # (C,)
    running.copy_(torch.add(momentum * new, running, alpha=1 - momentum))
