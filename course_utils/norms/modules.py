"""The norms as modules: the functions with their parameters and, for batch and instance norm, running statistics.

Constructor arguments, attributes, ``state_dict`` keys, versions and ``repr`` are those of `torch.nn`, so that a model
can swap one for the other and load the same checkpoint, either way. Chapters 02 (layer norm), 03 (batch norm) and 06.
"""

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.norms import core
from course_utils.norms.functional import batch_norm, group_norm, instance_norm, layer_norm, rms_norm

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "DynamicTanh",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "RMSNorm",
]


class _AffineNorm(nn.Module):
    """A norm with a weight that starts at one and a bias that starts at zero, either of them optional."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def _register(self, name: str, shape: Sequence[int], present: bool, device: Any, dtype: Any) -> None:
        """Register an uninitialized parameter, or its absence."""
        parameter = nn.Parameter(torch.empty(tuple(shape), device=device, dtype=dtype)) if present else None
        self.register_parameter(name, parameter)

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        if self.weight is not None:
            nn.init.ones_(self.weight)
        bias = getattr(self, "bias", None)  # RMS norm knows no bias
        if bias is not None:
            nn.init.zeros_(bias)


class LayerNorm(_AffineNorm):
    """Layer norm over the last dimensions of each sample, with a weight and a bias per element (`torch.nn.LayerNorm`).

    Chapter 02. Source: Ba, Kiros, Hinton 2016.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register("weight", self.normalized_shape, elementwise_affine, device, dtype)
        self._register("bias", self.normalized_shape, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_AffineNorm):
    """RMS norm over the last dimensions of each sample, with a weight per element (`torch.nn.RMSNorm`).

    An ``eps`` of None is the machine epsilon of the computation.

    Chapter 06. Source: Zhang, Sennrich 2019.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register("weight", self.normalized_shape, elementwise_affine, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_AffineNorm):
    """Group norm of each sample over groups of neighbouring channels, with a weight and a bias per channel.

    Raises ValueError where ``num_groups`` does not divide ``num_channels``, as `torch.nn.GroupNorm` does.

    Chapter 06. Source: Wu, He 2018.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register("weight", (num_channels,), affine, device, dtype)
        self._register("bias", (num_channels,), affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class DynamicTanh(_AffineNorm):
    """Dynamic tanh, γ·tanh(α·x) + β: squashes as a norm does on average, without any statistic.

    ``normalized_shape`` is that of weight and bias, matched against the last dimensions of the input, which must not be
    broadcast to them (ValueError); ``alpha_init`` is what the one learned scale α, of shape (1,), starts from.

    Chapter 06. Source: Zhu et al. 2025, section 4 and algorithm 1.

    >>> DynamicTanh(2)(torch.tensor([[1.0, -4.0]]))
    tensor([[ 0.4621, -0.9640]], grad_fn=<AddcmulBackward0>)
    """

    alpha: nn.Parameter

    def __init__(
        self, normalized_shape: int | Sequence[int], alpha_init: float = 0.5, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.alpha_init = alpha_init
        self._register("alpha", (1,), True, device, dtype)
        self._register("weight", self.normalized_shape, True, device, dtype)
        self._register("bias", self.normalized_shape, True, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set α to ``alpha_init``, the weight to one and the bias to zero."""
        nn.init.constant_(self.alpha, self.alpha_init)
        super().reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        shape = self.normalized_shape
        last = input.shape[max(input.dim() - len(shape), 0) :]
        if len(last) < len(shape) or any(size not in (1, other) for size, other in zip(shape, last, strict=True)):
            raise ValueError(f"input must match weight and bias of shape {shape}: got {tuple(input.shape)}")
        z = core.upcast_half(input)
        squashed = torch.tanh(self.alpha.to(z.dtype) * z)
        return core.affine(squashed, self.weight, self.bias, shape).to(input.dtype)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, alpha_init={self.alpha_init}"


class _RunningNorm(_AffineNorm):
    """What batch and instance norm share: a weight, a bias and, on request, running statistics per channel."""

    _version = 2  # since 2 the state holds num_batches_tracked
    _input_dims: tuple[int, ...]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._register("weight", (num_features,), affine, device, dtype)
        self._register("bias", (num_features,), affine and bias, device, dtype)
        for name, shape, buffer_dtype in (
            ("running_mean", (num_features,), dtype),
            ("running_var", (num_features,), dtype),
            ("num_batches_tracked", (), torch.long),
        ):
            buffer = torch.empty(shape, device=device, dtype=buffer_dtype) if track_running_stats else None
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to zero, the running variance to one and the count of batches to zero."""
        for buffer, start in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if self.track_running_stats and buffer is not None:
                buffer.fill_(start)

    def reset_parameters(self) -> None:
        """Set weight, bias and running statistics to what they start from."""
        self.reset_running_stats()
        super().reset_parameters()

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._input_dims:
            expected = " or ".join(f"{dim}D" for dim in self._input_dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args) -> None:  # type: ignore[no-untyped-def]
        """Load, counting from where this layer stands when the state is older than the count (version 1)."""
        version = local_metadata.get("version", None)
        if self.num_batches_tracked is not None and (version is None or version < 2):
            on_meta = self.num_batches_tracked.device.type == "meta"
            default = torch.tensor(0, dtype=torch.long) if on_meta else self.num_batches_tracked
            state_dict.setdefault(prefix + "num_batches_tracked", default)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class BatchNorm(_RunningNorm):
    """Batch norm, with a weight, a bias and running statistics per channel (`torch.nn.BatchNorm1d`, `2d`, `3d`).

    ``momentum`` is the weight of a new batch in the running statistics; None averages all batches equally.

    Chapters 03 and 04. Source: Ioffe, Szegedy 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)

        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        if self.training and not self.track_running_stats:  # these must not be moved; evaluation uses them all the same
            return self._normalize(input, None, None, by_batch, momentum)
        return self._normalize(input, self.running_mean, self.running_var, by_batch, momentum)

    def _normalize(
        self, x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        """Normalize by the batch or by the running statistics; the layer that knows of other processes differs here."""
        return batch_norm(x, running_mean, running_var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(BatchNorm):
    __doc__ = BatchNorm.__doc__
    _input_dims = (2, 3)  # (N, C) or (N, C, L)


class BatchNorm2d(BatchNorm):
    __doc__ = BatchNorm.__doc__
    _input_dims = (4,)  # (N, C, H, W)


class BatchNorm3d(BatchNorm):
    __doc__ = BatchNorm.__doc__
    _input_dims = (5,)  # (N, C, D, H, W)


class _InstanceNorm(_RunningNorm):
    """Instance norm (`torch.nn.InstanceNorm1d`, `2d`, `3d`), by default without parameters and running statistics.

    With ``track_running_stats``, evaluation normalizes by the running statistics. A ``momentum`` of None never moves
    them, and their ``num_batches_tracked`` stays zero, as in `torch.nn`.

    Chapter 06. Source: Ulyanov, Vedaldi, Lempitsky 2016.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        is_single_sample = input.dim() == self._input_dims[0]
        self._check_channels(input, 0 if is_single_sample else 1)
        y = instance_norm(
            input.unsqueeze(0) if is_single_sample else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y.squeeze(0) if is_single_sample else y

    def _check_channels(self, input: Tensor, dim: int) -> None:
        if input.shape[dim] == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                f"but got: {input.shape[dim]}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False",
            stacklevel=3,
        )


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (2, 3)  # (C, L) or (N, C, L)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (3, 4)  # (C, H, W) or (N, C, H, W)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (4, 5)  # (C, D, H, W) or (N, C, D, H, W)


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """An integer (numpy's too) as a tuple of one, a sequence as a tuple."""
    return (int(normalized_shape),) if isinstance(normalized_shape, Integral) else tuple(normalized_shape)  # type: ignore[arg-type]
