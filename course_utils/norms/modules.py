"""The norms as modules: the functions of this course with the parameters and running statistics of
`torch.nn`.

Chapters 02, 03, 06 and 07.

Each is a subclass of its namesake in `torch.nn`, which knows its arguments, parameters, buffers,
checkpoints and ``repr``; the forward pass is the course's. So a model can swap one for the other
and load the same checkpoint, either way, and tools that ask for ``nn.BatchNorm2d`` (``update_bn``,
a list of what gets no weight decay) find these too.
"""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.norms.core import affine, upcast_half
from course_utils.norms.functional import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)


class LayerNorm(nn.LayerNorm):
    """Layer norm over the last dimensions of each sample, with a weight and a bias per element.

    A subclass may compute it otherwise: ``function = staticmethod(kernels.layer_norm)``.

    Chapter 02. Source: Ba, Kiros, Hinton 2016.
    """

    function = staticmethod(layer_norm)

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """RMS norm over the last dimensions of each sample, with a weight per element.

    An ``eps`` of None is the machine epsilon of the computation; ``function`` is as in `LayerNorm`.

    Chapter 06. Source: Zhang, Sennrich 2019.
    """

    function = staticmethod(rms_norm)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(nn.GroupNorm):
    """Group norm of each sample over groups of neighbouring channels, with a weight and a bias per
    channel.

    Chapter 06. Source: Wu, He 2018.
    """

    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm, with a weight, a bias and running statistics per channel.

    ``momentum`` is the weight of a new batch in the running statistics; None averages all batches
    equally.

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
        if (
            self.training and not self.track_running_stats
        ):  # these must not be moved; evaluation uses them all the same
            return self._normalize(input, None, None, by_batch, momentum)
        return self._normalize(input, self.running_mean, self.running_var, by_batch, momentum)

    def _normalize(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        by_batch: bool,
        momentum: float,
    ) -> Tensor:
        """Normalize by the batch or by the running statistics; the layer that knows of other
        processes differs here."""
        return batch_norm(
            x, running_mean, running_var, self.weight, self.bias, by_batch, momentum, self.eps
        )


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    __doc__ = _BatchNorm.__doc__


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    __doc__ = _BatchNorm.__doc__


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    __doc__ = _BatchNorm.__doc__


class _InstanceNorm(nn.modules.instancenorm._InstanceNorm):
    """Instance norm, by default without parameters and running statistics.

    With ``track_running_stats``, evaluation normalizes by the running statistics. A ``momentum`` of
    None never moves them, and their ``num_batches_tracked`` stays zero, as in `torch.nn`.

    Chapter 06. Source: Ulyanov, Vedaldi, Lempitsky 2016.
    """

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            by_input,
            momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    __doc__ = _InstanceNorm.__doc__


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    __doc__ = _InstanceNorm.__doc__


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    __doc__ = _InstanceNorm.__doc__


class DynamicTanh(nn.Module):
    """Dynamic tanh, γ·tanh(α·x) + β: squashes as a norm does on average, without any statistic.

    ``normalized_shape`` is that of weight and bias, matched against the last dimensions of the
    input, which must not be broadcast to them (ValueError); ``alpha_init`` is what the one learned
    scale α, of shape (1,), starts from.

    Chapter 07. Source: Zhu et al. 2025, section 4 and algorithm 1.

    >>> DynamicTanh(2)(torch.tensor([[1.0, -4.0]]))
    tensor([[ 0.4621, -0.9640]], grad_fn=<AddcmulBackward0>)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        alpha_init: float = 0.5,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes = (normalized_shape,) if isinstance(normalized_shape, Integral) else normalized_shape
        self.normalized_shape = tuple(int(size) for size in sizes)  # type: ignore[union-attr, call-overload]
        self.alpha_init = alpha_init
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.weight = nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set α to ``alpha_init``, the weight to one and the bias to zero."""
        nn.init.constant_(self.alpha, self.alpha_init)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        shape = self.normalized_shape
        last = input.shape[max(input.dim() - len(shape), 0) :]
        if len(last) < len(shape) or any(
            size not in (1, other) for size, other in zip(shape, last, strict=True)
        ):
            raise ValueError(
                f"input must match weight and bias of shape {shape}: got {tuple(input.shape)}"
            )
        z = upcast_half(input)
        squashed = torch.tanh(self.alpha.to(z.dtype) * z)
        return affine(squashed, self.weight, self.bias, shape).to(input.dtype)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, alpha_init={self.alpha_init}"
