"""Norms in the place of a model's norms, with the parameters that are there."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_utils.swap.swapped import Swapped, full_name

__all__ = ["Norm", "is_norm", "swap_norm"]

Norm = Callable[..., Tensor]


class _SwappedNorm(nn.Module):
    """A norm with the parameters of another and a function of its own."""

    def __init__(
        self,
        function: Norm,
        weight: nn.Parameter,
        bias: nn.Parameter | None,
        eps: float | None,
        *,
        is_layer_norm: bool,
        from_one: bool,
    ) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.function, self.shape, self.eps = function, tuple(weight.shape), eps
        self.is_layer_norm, self.from_one = is_layer_norm, from_one
        self.put_for = "layer_norm" if is_layer_norm else "rms_norm"

    def forward(self, x: Tensor) -> Tensor:
        if self.is_layer_norm:
            return self.function(x, self.shape, self.weight, self.bias, self.eps)
        if self.from_one:  # 1 + w would lose w's last digits in half precision
            return self.function(x.float(), self.shape, 1 + self.weight.float(), self.eps).to(x.dtype)
        return self.function(x, self.shape, self.weight, self.eps)


def is_norm(module: nn.Module) -> bool:
    """Return whether ``module`` calls itself a layer norm or an RMS norm, and has not been replaced yet."""
    named = type(module).__name__.endswith(("LayerNorm", "RMSNorm"))
    return named and next(module.children(), None) is None


def swap_norm(
    swapped: Swapped, model: nn.Module, name: str, module: nn.Module, layer_norm: Norm | None, rms_norm: Norm | None
) -> None:
    """Put a function in the place of ``module`` if it is found to compute a layer norm or an RMS norm."""
    was, weight = type(module).__name__, getattr(module, "weight", None)
    is_layer_norm = isinstance(module, nn.LayerNorm)
    function = layer_norm if is_layer_norm else rms_norm
    if function is None:
        swapped.left.append((name, was, "as asked"))
        return
    if not isinstance(weight, nn.Parameter):
        swapped.left.append((name, was, "it has no weight"))
        return
    built_in = torch.nn.functional.layer_norm if is_layer_norm else torch.nn.functional.rms_norm
    bias, eps = getattr(module, "bias", None), getattr(module, "variance_epsilon", getattr(module, "eps", None))
    for from_one in (False, True):
        kind = {"is_layer_norm": is_layer_norm, "from_one": from_one}
        if _same_function(module, _SwappedNorm(built_in, weight, bias, eps, **kind), weight):
            new = _SwappedNorm(function, weight, bias, eps, **kind)
            convention = " with weight 1 + w" if from_one else ""
            swapped.replace(model, name, module, new, f"{full_name(function)}{convention}")
            return
    swapped.left.append((name, was, "it computes something else"))


@torch.no_grad()
def _same_function(module: nn.Module, candidate: nn.Module, weight: Tensor) -> bool:
    """Return whether both give the same on random rows of very different sizes, where eps shows."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, weight.numel(), generator=generator) * torch.tensor([[1e-3], [1.0], [1e3]])
    x = rows.view(3, *weight.shape).to(weight)
    wanted, got = module(x).float(), candidate(x).float()
    return bool((wanted - got).norm() <= 4 * torch.finfo(weight.dtype).eps * wanted.norm().clamp(min=1e-3))
