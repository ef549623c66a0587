"""Put other norms and another RoPE into a model of transformers, in place.

    swapped = swap(model)                                # the course's functions
    swapped = swap(model, rms_norm=mine, rope=mine_too)  # yours
    compare_layers(model, original, input_ids=ids)       # which layer differs first, and by how much

What is replaced keeps its parameters under their names, so that ``state_dict``, gradients and optimizers go on working.

    norm       norms, recognised by what they compute
    rotary     rotary embeddings, tables and rotation together
    swapped    the report, and the way back
    layers     two copies of a model, layer by layer
    trials     two copies of a model, plain, cached, padded, and backwards
"""

from torch import nn

from course_utils import norms
from course_utils.swap.layers import Layers, compare_layers
from course_utils.swap.norm import Norm, is_norm, swap_norm
from course_utils.swap.rotary import Rope, swap_positions
from course_utils.swap.swapped import Swapped
from course_utils.swap.trials import trials

__all__ = ["Layers", "Swapped", "compare_layers", "swap", "trials"]


def swap(
    model: nn.Module,
    *,
    layer_norm: Norm | None = norms.layer_norm,
    rms_norm: Norm | None = norms.rms_norm,
    rope: Rope | None = None,
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
        keep_rope: leave the rotary embedding alone.

    Returns:
        What was replaced and what was left, with ``undo()``.

    Raises:
        ValueError: ``rope`` was given for a model whose RoPE is scaled, or differs from layer to layer.
    """
    swapped = Swapped()
    for name, module in list(model.named_modules()):
        if is_norm(module):
            swap_norm(swapped, model, name, module, layer_norm, rms_norm)
    if not keep_rope:
        swap_positions(swapped, model, rope)
    return swapped
