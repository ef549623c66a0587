"""Put other norms and another RoPE into a model of transformers, in place.

    swapped = swap(model)                                # the course's functions
    swapped = swap(model, rms_norm=mine, rope=mine_too)  # yours, or frequencies=
    compare_layers(model, original, input_ids=ids)       # which layer differs first, and by how much

What is replaced keeps its parameters under their names, so that ``state_dict``, gradients and optimizers go on working.

    norm       norms, recognised by what they compute
    rotary     rotary embeddings, tables and rotation together
    swapped    the report, and the way back
    layers     two copies of a model, layer by layer
    trials     two copies of a model, plain, cached, padded, and backwards
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from course_utils import norms
from course_utils.swap.layers import Layers, compare_layers
from course_utils.swap.norm import Norm, is_norm, swap_norm
from course_utils.swap.rotary import Frequencies, Rope, swap_positions
from course_utils.swap.swapped import Swapped, full_name
from course_utils.swap.trials import trials

__all__ = ["Layers", "Swapped", "compare_layers", "swap", "trials"]


def swap(
    model: nn.Module,
    *,
    layer_norm: Norm | None = norms.layer_norm,
    rms_norm: Norm | None = norms.rms_norm,
    rope: Rope | None = None,
    frequencies: Frequencies | None = None,
    keep_rope: bool = False,
) -> Swapped:
    """Replace the norms and the rotary embedding of ``model``, in place.

    A norm is recognised by what it computes, not by its name: its own output on random numbers tells layer norm, RMS
    norm, and RMS norm with a weight that counts from 1 (Gemma's) apart. What fits none of them is left, and said so.

    Args:
        model: of transformers, such as Llama, Qwen3, GPT-NeoX, Gemma; on any device, in any dtype.
        layer_norm: with the signature of ``torch.nn.functional.layer_norm``; None leaves layer norms alone.
        rms_norm: with that of ``torch.nn.functional.rms_norm``; None leaves RMS norms alone.
        rope: ``rope(x, positions, base)`` that rotates x (H, T, R) at positions (T,), in halves, as the exercise of
            chapter 12; it takes models whose RoPE is not scaled. None is the course's, with every way of scaling.
        frequencies: with the signature of ``rope_scaling.rope_frequencies``, as the exercise of chapter 13: makes the
            table that the course's rotation turns by, in any model, scaled or not. None is the course's.
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
    _require_functions(functions)
    _require_one_rope(rope, frequencies, keep_rope)
    asked = {name for name in ("layer_norm", "rms_norm") if functions[name] is not None}
    _require_unswapped(model, asked if keep_rope else asked | {"rope"})
    swapped = Swapped()
    try:
        for name, module in list(model.named_modules()):
            if is_norm(module):
                swap_norm(swapped, model, name, module, layer_norm, rms_norm)
        if not keep_rope:
            swap_positions(swapped, model, rope, frequencies)
    except BaseException:
        swapped.undo()
        raise
    _note_without_a_place(swapped, model, functions)
    return swapped


def _require_functions(functions: Mapping[str, Any]) -> None:
    for name, function in functions.items():
        if function is not None and (not callable(function) or isinstance(function, nn.Module | type)):
            raise ValueError(f"{name} must be a function or None: got {function!r}")


def _require_one_rope(rope: Rope | None, frequencies: Frequencies | None, keep_rope: bool) -> None:
    for name, function in (("rope", rope), ("frequencies", frequencies)):
        if keep_rope and function is not None:
            raise ValueError(f"{name} must be None with keep_rope=True: got {function!r}")
    if rope is not None and frequencies is not None:
        raise ValueError(f"frequencies must be None with a rope, which makes its own: got {frequencies!r}")


def _require_unswapped(model: nn.Module, asked: set[str]) -> None:
    if already := sorted(asked & _swapped_parts(model)):
        raise ValueError(f"model must not be swapped already, call undo() first: its {', '.join(already)} is replaced")


def _swapped_parts(model: nn.Module) -> set[str]:
    parts = (getattr(module, "put_for", None) for module in model.modules())
    return {part for part in parts if isinstance(part, str)}


def _note_without_a_place(swapped: Swapped, model: nn.Module, functions: Mapping[str, Any]) -> None:
    """Say which of the caller's own functions are nowhere in ``model``: to compare it would prove nothing of them."""
    parts = _swapped_parts(model)
    for name, function in functions.items():
        own = function is not None and function not in (norms.layer_norm, norms.rms_norm)
        part = "rope" if name == "frequencies" else name
        if own and part not in parts:
            swapped.left.append((name, full_name(function), "the model has no place for it"))
