"""Layer, RMS and group norm as modules: the functions with their parameters.


Constructor arguments, attributes, ``state_dict`` keys, versions and ``repr`` are those of `torch.nn`, so that a model
can swap one for the other and load the same checkpoint, either way.
"""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.norms.functional import group_norm, layer_norm, rms_norm

__all__ = ["AffineNorm", "GroupNorm", "LayerNorm", "RMSNorm", "as_shape"]


class AffineNorm(nn.Module):
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


class LayerNorm(AffineNorm):
    """Layer norm over the last dimensions of each sample, with a weight and a bias per element.

    Args:
        normalized_shape: the sizes of the dimensions to normalize over; an int for the last alone.
        eps: added to the variance, inside the root.
        elementwise_affine: whether to learn a weight.
        bias: whether to learn a bias beside the weight.
        device, dtype: of the parameters.

    Raises:
        TypeError: ``normalized_shape`` is neither an int nor a sequence.

    Source: Ba, Kiros, Hinton 2016; `torch.nn.LayerNorm`.
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
        self.normalized_shape = as_shape(normalized_shape)
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


class RMSNorm(AffineNorm):
    """RMS norm over the last dimensions of each sample, with a weight per element.

    Args:
        normalized_shape: the sizes of the dimensions to normalize over; an int for the last alone.
        eps: added to the mean square, inside the root; ``None`` is the machine epsilon of the computation.
        elementwise_affine: whether to learn a weight.
        device, dtype: of the weight.

    Raises:
        TypeError: ``normalized_shape`` is neither an int nor a sequence.

    Source: Zhang, Sennrich 2019; `torch.nn.RMSNorm`.
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
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register("weight", self.normalized_shape, elementwise_affine, device, dtype)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(AffineNorm):
    """Group norm of each sample over groups of neighbouring channels, with a weight and a bias per channel.

    Args:
        num_groups: G, a divisor of ``num_channels``.
        num_channels: C.
        eps: added to the variance, inside the root.
        affine: whether to learn a weight.
        device, dtype: of the parameters.
        bias: whether to learn a bias beside the weight.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
        ZeroDivisionError: ``num_groups`` is zero; the type is `torch.nn.GroupNorm`'s.

    Source: Wu, He 2018; `torch.nn.GroupNorm`.
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
        if num_groups == 0:
            raise ZeroDivisionError(f"num_groups must be at least 1: got {num_groups!r}")
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


def as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return ``normalized_shape`` as a tuple, an integer (numpy's too) as a tuple of one.

    Raises:
        TypeError: it is neither an integer nor a sequence.
    """
    if isinstance(normalized_shape, int | Integral):
        return (int(normalized_shape),)
    if not isinstance(normalized_shape, Iterable):
        raise TypeError(f"normalized_shape must be an int or a sequence of ints: got {normalized_shape!r}")
    return tuple(normalized_shape)
