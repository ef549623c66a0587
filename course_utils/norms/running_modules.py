"""Batch and instance norm as modules: the functions with their parameters and running statistics.

Constructor arguments, attributes, ``state_dict`` keys, versions and ``repr`` are those of `torch.nn`, so that a model
can swap one for the other and load the same checkpoint, either way.
"""

import warnings
from typing import Any

import torch
from torch import Tensor

from course_utils.norms.functional import batch_norm, instance_norm
from course_utils.norms.modules import AffineNorm

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _RunningNorm(AffineNorm):
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


class _BatchNorm(_RunningNorm):
    """Batch norm, with a weight, a bias and running statistics per channel.

    Args:
        num_features: C.
        eps: added to the variance, inside the root.
        momentum: the weight of a new batch in the running statistics; ``None`` averages all batches equally.
        affine: whether to learn a weight.
        track_running_stats: whether to keep running statistics; without them evaluation uses the batch's own.
        device, dtype: of parameters and running statistics.
        bias: whether to learn a bias beside the weight.

    Source: Ioffe, Szegedy 2015; `torch.nn.BatchNorm1d`, `2d` and `3d`.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)

        no_running = self.running_mean is None and self.running_var is None
        # While training, statistics that are not tracked must not be moved; evaluation uses them all the same.
        hidden = self.training and not self.track_running_stats
        return self._normalize(
            input,
            None if hidden else self.running_mean,
            None if hidden else self.running_var,
            self.training or no_running,
            momentum,
        )

    def _normalize(
        self, x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        """Normalize by the batch or by the running statistics; the layer that knows of other processes differs here."""
        return batch_norm(x, running_mean, running_var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _input_dims = (2, 3)  # (N, C) or (N, C, L)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _input_dims = (4,)  # (N, C, H, W)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _input_dims = (5,)  # (N, C, D, H, W)


class _InstanceNorm(_RunningNorm):
    """Instance norm, on request with a weight, a bias and running statistics per channel.

    Args:
        num_features: C.
        eps: added to the variance, inside the root.
        momentum: the weight of a new batch in the running statistics; ``None`` never moves them.
        affine: whether to learn a weight.
        track_running_stats: whether to keep running statistics (their ``num_batches_tracked`` stays zero, as in
            `torch.nn`) and to normalize by them in evaluation.
        device, dtype: of parameters and running statistics.
        bias: whether to learn a bias beside the weight.

    Source: Ulyanov, Vedaldi, Lempitsky 2016; `torch.nn.InstanceNorm1d`, `2d` and `3d`.
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

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) -> None:  # type: ignore[no-untyped-def]
        """Load, refusing the running statistics that the oldest states hold and this layer does not track."""
        found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
        if local_metadata.get("version", None) is None and not self.track_running_stats and found:
            names, name = " and ".join(f'"{name}"' for name in found), type(self).__name__
            errors.append(
                f"Unexpected running stats buffer(s) {names} for {name} with track_running_stats=False. If state_dict "
                f"is a checkpoint saved before 0.4.0, this may be expected because {name} does not track running "
                "stats by default since 0.4.0. Please remove these keys from state_dict. If the running stats are "
                f"actually needed, instead set track_running_stats=True in {name} to enable them. See the "
                f"documentation of {name} for details."
            )
            for name in found:
                state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (2, 3)  # (C, L) or (N, C, L)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (3, 4)  # (C, H, W) or (N, C, H, W)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _input_dims = (4, 5)  # (C, D, H, W) or (N, C, D, H, W)
