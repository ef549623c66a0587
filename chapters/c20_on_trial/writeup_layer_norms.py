"""The layer norms of the five write-ups that this course grew from, taken to their parts (chapter
20).

They differ in four things only: what they divide by, where ε stands in it, how large it is, and
which dimensions they average over. Each is a value here, so that one can be exchanged while the
others stay:

>>> from dataclasses import replace
>>> quiet = torch.tensor([[-1e-3, 1e-3]])
>>> LAYERS["Rico"](quiet, (2,))
tensor([[-0.9950,  0.9950]])
>>> replace(LAYERS["Rico"], eps=1e-5)(quiet, (2,))
tensor([[-0.3015,  0.3015]])

Notation used for tensor shapes: ``*`` any leading dimensions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Divisor = Callable[[Tensor, tuple[int, ...], float], Tensor]


def root_of_library_variance(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return √(σ² + ε) over ``dims``, kept, with the variance of ``torch.var``, which divides by
    n."""
    return torch.sqrt(x.var(dims, correction=0, keepdim=True) + eps)


def root_of_mean_square(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return √(mean of (x − μ)² + ε) over ``dims``, kept: two passes, as TensorFlow's
    ``reduce_variance`` too."""
    return torch.sqrt((x - x.mean(dims, keepdim=True)).square().mean(dims, keepdim=True) + eps)


def root_of_raw_moments(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return √(mean of x² − μ² + ε) over ``dims``, kept: one pass; NaN where rounding makes the
    difference negative."""
    return torch.sqrt(
        x.square().mean(dims, keepdim=True) - x.mean(dims, keepdim=True).square() + eps
    )


def std_plus_eps(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Return σ + ε over ``dims``, kept: ε outside the root."""
    return x.std(dims, correction=0, keepdim=True) + eps


@dataclass(frozen=True)
class SourceLayer:
    """One write-up's layer norm, called as ``layer(x, normalized_shape, weight, bias)``."""

    source: str  # the write-up's letter in the list of sources
    formula: str  # what it divides by, as one would say it
    divisor: Divisor  # the same as a function of x, the dimensions and ε
    eps: float
    # average over all of ``normalized_shape``, or over the last dimension whatever that says
    every_dim: bool
    # Keras casts to float32 before it calls a layer
    casts: bool = False

    def __call__(
        self,
        x: Tensor,
        normalized_shape: tuple[int, ...],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Return the output (*, *normalized_shape), as the write-up computes it; γ and β promote
        its dtype."""
        dims = tuple(range(-len(normalized_shape), 0)) if self.every_dim else (-1,)
        x = x.float() if self.casts else x
        x_hat = (x - x.mean(dims, keepdim=True)) / self.divisor(x, dims, self.eps)
        if weight is not None:
            x_hat = weight * x_hat
        return x_hat if bias is None else x_hat + bias


LAYERS = {
    layer.source: layer
    for layer in (
        # Rico's Nerd Cluster, LayerNormCustom
        SourceLayer("Rico", "√(σ² + ε)", root_of_library_variance, 1e-8, every_dim=True),
        # the article's TensorFlow layer; its weight and bias have the shape (1, C)
        SourceLayer(
            "Road to ML", "√(mean (x − μ)² + ε)", root_of_mean_square, 1e-5, False, casts=True
        ),
        # "LayerNorm vs BatchNorm", Norm with dim=-1
        SourceLayer(
            "rich-junwang", "√(mean (x − μ)² + ε)", root_of_mean_square, 1e-12, every_dim=False
        ),
        # labml.ai
        SourceLayer("labml.ai", "√(mean x² − μ² + ε)", root_of_raw_moments, 1e-5, every_dim=True),
        # Clay, MyLayerNorm
        SourceLayer("Clay", "σ + ε", std_plus_eps, 1e-5, every_dim=False),
    )
}
