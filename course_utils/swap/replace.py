"""Norms and rotary embeddings in the place of a model's, with the parameters that are there (chapter 15)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import norms
from course_utils.swap.report import Swapped, full_name
from course_utils.swap.rotary import Frequencies, Rope, swap_positions

Norm = Callable[..., Tensor]


def swap(
    model: nn.Module,
    *,
    layer_norm: Norm | None = norms.layer_norm,
    rms_norm: Norm | None = norms.rms_norm,
    rope: Rope | None = None,
    frequencies: Frequencies | None = None,
    keep_rope: bool = False,
) -> Swapped:
    """Replace the norms and the rotary embedding of ``model``, in place. Chapter 15.

    A norm is recognised by what it computes, not by its name: its own output on random numbers tells layer norm, RMS
    norm, and RMS norm with a weight that counts from 1 (Gemma's) apart. What fits none of them is left, and said so.

    Args:
        model: of transformers, such as Llama, Qwen3, GPT-NeoX, Gemma; on any device, in any dtype.
        layer_norm: with the signature of ``torch.nn.functional.layer_norm``; None leaves layer norms alone.
        rms_norm: with that of ``torch.nn.functional.rms_norm``; None leaves RMS norms alone.
        rope: ``rope(x, positions, base)`` that rotates x (H, T, R) at positions (T,), in halves, as the exercise of
            chapter 12; it takes models whose RoPE is not scaled. None is the course's, with every way of scaling.
        frequencies: with the signature of ``rope_frequencies``, as the exercise of chapter 13: makes the table that
            the course's rotation turns by, in any model, scaled or not. None is the course's.
        keep_rope: leave the rotary embedding alone.

    Returns:
        What was replaced and what was left, with ``undo()``. A function of yours for which ``model`` has no place is
        among what was left.

    Raises:
        ValueError: something other than a function was given for one; two of ``rope``, ``frequencies`` and
            ``keep_rope`` were given; ``rope`` was given for a model whose RoPE is scaled, or differs from layer to
            layer; or what is to be replaced is replaced already. The model is then as it was.
    """
    functions = {"layer_norm": layer_norm, "rms_norm": rms_norm, "rope": rope, "frequencies": frequencies}
    for name, function in functions.items():
        if function is not None and (not callable(function) or isinstance(function, nn.Module | type)):
            raise ValueError(f"{name} must be a function or None: got {function!r}")
        if keep_rope and function is not None and name in ("rope", "frequencies"):
            raise ValueError(f"{name} must be None with keep_rope=True: got {function!r}")
    if rope is not None and frequencies is not None:
        raise ValueError(f"frequencies must be None with a rope, which makes its own: got {frequencies!r}")
    asked = {name for name in ("layer_norm", "rms_norm") if functions[name] is not None}
    if not keep_rope:
        asked.add("rope")
    if already := sorted(asked & _replaced_parts(model)):
        raise ValueError(f"model must not be swapped already, call undo() first: its {', '.join(already)} is replaced")

    swapped = Swapped()
    try:
        for name, module in list(model.named_modules()):
            if type(module).__name__.endswith(("LayerNorm", "RMSNorm")) and next(module.children(), None) is None:
                _swap_norm(swapped, model, name, module, layer_norm, rms_norm)
        if not keep_rope:
            swap_positions(swapped, model, rope, frequencies)
    except BaseException:
        swapped.undo()
        raise
    # To compare a model that has no place for a function of the caller's own would prove nothing of it.
    parts = _replaced_parts(model)
    for name, function in functions.items():
        part = "rope" if name == "frequencies" else name
        if function not in (None, norms.layer_norm, norms.rms_norm) and part not in parts:
            swapped.left.append((name, full_name(function), "the model has no place for it"))
    return swapped


def _replaced_parts(model: nn.Module) -> set[str]:
    return {part for module in model.modules() if isinstance(part := getattr(module, "put_for", None), str)}


class _SwappedNorm(nn.Module):
    """A norm with the parameters of another and a function of its own."""

    def __init__(self, function: Norm, module: Any, *, from_one: bool) -> None:
        super().__init__()
        self.function, self.from_one = function, from_one
        self.weight, self.bias = module.weight, getattr(module, "bias", None)
        self.shape = tuple(module.weight.shape)
        self.eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
        self.put_for = "layer_norm" if isinstance(module, nn.LayerNorm) else "rms_norm"

    def forward(self, x: Tensor) -> Tensor:
        if self.put_for == "layer_norm":
            return self.function(x, self.shape, self.weight, self.bias, self.eps)
        if self.from_one:  # 1 + w would lose w's last digits in half precision
            return self.function(x.float(), self.shape, 1 + self.weight.float(), self.eps).to(x.dtype)
        return self.function(x, self.shape, self.weight, self.eps)


def _swap_norm(
    swapped: Swapped, model: nn.Module, name: str, module: nn.Module, layer_norm: Norm | None, rms_norm: Norm | None
) -> None:
    """Put a function in the place of ``module`` if it is found to compute a layer norm or an RMS norm."""
    is_layer_norm = isinstance(module, nn.LayerNorm)
    function = layer_norm if is_layer_norm else rms_norm
    if function is None or not isinstance(getattr(module, "weight", None), nn.Parameter):
        why = "as asked" if function is None else "it has no weight"
        swapped.left.append((name, type(module).__name__, why))
        return
    built_in = torch.nn.functional.layer_norm if is_layer_norm else torch.nn.functional.rms_norm
    for from_one in (False, True):
        if _same_function(module, _SwappedNorm(built_in, module, from_one=from_one)):
            what = f"{full_name(function)}{' with weight 1 + w' if from_one else ''}"
            swapped.replace(model, name, module, _SwappedNorm(function, module, from_one=from_one), what)
            return
    swapped.left.append((name, type(module).__name__, "it computes something else"))


@torch.no_grad()
def _same_function(module: nn.Module, candidate: _SwappedNorm) -> bool:
    """Return whether both give the same on random rows of very different sizes, where eps shows."""
    weight, generator = candidate.weight, torch.Generator().manual_seed(0)
    rows = torch.randn(3, weight.numel(), generator=generator) * torch.tensor([[1e-3], [1.0], [1e3]])
    x = rows.view(3, *weight.shape).to(weight)
    wanted, got = module(x).float(), candidate(x).float()
    return bool((wanted - got).norm() <= 4 * torch.finfo(weight.dtype).eps * wanted.norm().clamp(min=1e-3))
