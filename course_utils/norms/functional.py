"""The five norms as functions: arguments, results and errors of ``torch.nn.functional``; and
division by the L2 norm.

``weight`` is γ, one where it is missing; ``bias`` is β, zero where it is missing; ``eps`` is added
inside the root. The result has the shape and dtype of ``input``.

Notation used for tensor shapes: N samples, C channels, ``*`` any dimensions, the positions of a
channel for instance.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_utils.norms import builtin_errors
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
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each sample of ``input`` (*, *normalized_shape), floating, over its last
    dimensions; contiguous.

    Weight and bias have the shape ``normalized_shape``.

    Chapter 02. Source: Ba, Kiros, Hinton 2016, eq. 3.

    >>> layer_norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), (4,))
    tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
    """
    builtin_errors.check_layer_norm(input, normalized_shape, weight, bias)
    x_hat = standardize(upcast_half(input), trailing_dims(normalized_shape), eps)
    return affine(x_hat, weight, bias, normalized_shape).to(result_dtype(input)).contiguous()


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    offset: float = 0.0,
) -> Tensor:
    """Divide each sample of ``input`` (*, *normalized_shape), floating or complex, by its root mean
    square.

    The weight, of shape ``normalized_shape``, is multiplied before the one rounding (Llama's own
    layer rounds first), as ``offset`` + weight: an ``offset`` of 1 is Gemma's. An ``eps`` of None
    is the machine epsilon of the dtype computed in, so float32's for half-precision inputs.

    Chapter 06. Source: Zhang, Sennrich 2019, eq. 4.

    >>> rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    builtin_errors.check_rms_norm(input, normalized_shape, weight)
    z = upcast_half(input)
    z_hat = z * inverse_rms(z, trailing_dims(normalized_shape), eps)
    if weight is not None and offset:  # 1 + γ in half precision would lose the last digits of γ
        weight = offset + weight.to(z.dtype)
    return match_memory_format(
        input, affine(z_hat, weight, None, normalized_shape).to(result_dtype(input))
    )


def l2_norm(input: Tensor, dim: int | Sequence[int] = -1, eps: float = 1e-12) -> Tensor:
    """Divide ``input``, floating, of any shape, by its L2 norm over ``dim``, or by ``eps`` where
    that is larger: as ``F.normalize``.

    Queries and keys are normalized so in QK norm. Unlike ``F.normalize``, half-precision inputs are
    computed in float32: their squares overflow or vanish.

    Chapter 07. Source: Henry et al. 2020, eq. 2; ``torch.nn.functional.normalize``.

    >>> l2_norm(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """
    z = upcast_half(input)
    length = torch.linalg.vector_norm(z, dim=dim, keepdim=True)
    return (z / length.clamp_min(eps)).to(result_dtype(input))


def scale_norm(input: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Give each vector of ``input`` (*, C), floating, the length ``weight``, one learned number g.

    A vector shorter than ``eps`` is divided by ``eps``. The weight has one element.

    Chapter 07. Source: Nguyen, Salazar 2019, eq. 5, and ``ScaleNorm`` of its authors' code.

    >>> scale_norm(torch.tensor([3.0, 4.0]), torch.tensor(10.0))
    tensor([6., 8.])
    """
    if weight.numel() != 1:
        raise ValueError(f"weight must have one element: got shape {tuple(weight.shape)}")
    z = upcast_half(input)
    return (weight.to(z.dtype) * l2_norm(z, eps=eps)).to(result_dtype(input))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each sample of ``input`` (N, C, *), floating, over groups of neighbouring channels
    and all positions.

    One group is layer norm over (C, *), C groups are instance norm. Weight and bias are (C,); a
    channels-last input stays so.

    Chapter 06. Source: Wu, He 2018, eq. 7.
    """
    builtin_errors.check_group_norm(input, num_groups, weight, bias)
    # (N, G, C/G, *)
    groups = upcast_half(input).unflatten(1, (num_groups, input.shape[1] // num_groups))
    x_hat = standardize(groups, tuple(range(2, groups.dim())), eps).flatten(1, 2)  # (N, C, *)
    return match_memory_format(
        input, affine(x_hat, weight, bias, channel_shape(input)).to(result_dtype(input))
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize every channel of every sample of ``input`` (N, C, *), floating, over its own
    positions; contiguous.

    Running statistics (C,) are moved in place, towards the average over the samples, when
    ``use_input_stats``, and take the place of the input's otherwise. ``momentum`` is the weight of
    the new ones.

    Chapter 06. Source: Ulyanov, Vedaldi, Lempitsky 2016, eq. 3.
    """
    running, parameters = (running_mean, running_var), (weight, bias)
    builtin_errors.check_instance_norm(input, running, parameters, use_input_stats)
    positions = tuple(range(2, input.dim()))
    return _normalize_channels(
        input, positions, running, parameters, use_input_stats, momentum, eps
    ).contiguous()


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize every channel of ``input`` (N, C, *), floating, over the batch and all positions.

    When ``training``, by the batch's own mean and biased variance, and the running statistics (C,)
    are moved in place, the variance unbiased, with ``momentum`` as the weight of the new ones;
    otherwise by the running statistics. A channels-last input stays so.

    Chapter 03. Source: Ioffe, Szegedy 2015, algorithms 1 and 2.
    """
    running, parameters = (running_mean, running_var), (weight, bias)
    builtin_errors.check_batch_norm(input, running, parameters, training, eps)
    if input.numel() == 0:  # nothing to normalize; weight and bias still get a gradient of zero
        return affine(input.clone(), weight, bias, channel_shape(input))
    batch_and_positions = (0, *range(2, input.dim()))
    y = _normalize_channels(
        input, batch_and_positions, running, parameters, training, momentum, eps
    )
    return match_memory_format(input, y)


def _normalize_channels(
    x: Tensor,
    dims: tuple[int, ...],
    running: builtin_errors.Pair,
    parameters: builtin_errors.Pair,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch and instance norm: statistics of the input over ``dims``, or the running ones, then γ
    and β a channel."""
    dtype, channels = x.dtype, channel_shape(x)
    running_mean, running_var = running
    x = upcast_half(x)
    if use_input_stats:
        centred, mean, variance = moments(x, dims)
        if running_mean is not None and running_var is not None and x.numel() > 0:
            count = x.numel() // mean.numel()
            _move_average(running_mean, mean, momentum)
            # stored unbiased
            _move_average(running_var, variance * (count / (count - 1)), momentum)
    else:
        assert running_mean is not None, "what PyTorch refuses has been refused"
        assert running_var is not None
        centred = x - running_mean.to(x.dtype).reshape(channels)
        variance = running_var.to(x.dtype).reshape(channels)
    x_hat = centred * torch.rsqrt(variance + eps)
    return affine(x_hat, *parameters, channels).to(dtype)


@torch.no_grad()
def _move_average(running: Tensor, batch: Tensor, momentum: float) -> None:
    """Move ``running`` (C,) towards ``batch`` (N or 1, C, 1...) averaged over its samples, in
    place, rounding once."""
    new = batch.mean(0).flatten()  # (C,)
    running.copy_(torch.add(momentum * new, running, alpha=1 - momentum))
