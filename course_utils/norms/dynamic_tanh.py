"""Dynamic tanh: what is left of a norm when the statistics are taken away."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.arguments import broadcasts_to
from course_utils.norms.core import affine, upcast_half
from course_utils.norms.modules import AffineNorm, as_shape

__all__ = ["DynamicTanh"]


class DynamicTanh(AffineNorm):
    """Dynamic tanh, γ·tanh(α·x) + β: squashes as a norm does on average, without any statistic.

    Args:
        normalized_shape: the shape of weight and bias, matched against the last dimensions; an int for the last alone.
        alpha_init: what the one learned scale α starts from.
        device, dtype: of the parameters.

    Raises:
        ValueError: in the forward pass, an input whose last dimensions weight and bias do not match.

    Source: Zhu et al. 2025, section 4 and algorithm 1, whose ``alpha`` has shape (1,).

    >>> DynamicTanh(2)(torch.tensor([[1.0, -4.0]]))
    tensor([[ 0.4621, -0.9640]], grad_fn=<AddcmulBackward0>)
    """

    alpha: nn.Parameter

    def __init__(
        self, normalized_shape: int | Sequence[int], alpha_init: float = 0.5, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
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
        # The input must not be broadcast to the weight: 1 feature would come out as 64.
        if not broadcasts_to(self.normalized_shape, input.shape):
            raise ValueError(
                f"input must match weight and bias of shape {self.normalized_shape}: got {tuple(input.shape)}"
            )
        z = upcast_half(input)
        squashed = torch.tanh(self.alpha.to(z.dtype) * z)
        return affine(squashed, self.weight, self.bias, self.normalized_shape).to(input.dtype)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, alpha_init={self.alpha_init}"
