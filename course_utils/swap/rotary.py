"""Rotary embeddings in the place of a model's, tables and rotation together (chapter 15).

Notation used for tensor shapes: B batch, T tokens, H heads, D head dimension, R rotary dimension (at most D).
"""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.rope import RotaryEmbedding, apply_rope, from_config, rope_cos_sin
from course_utils.swap.report import Swapped, full_name

ROTATION = "apply_rotary_pos_emb"  # the name of the function in every model of transformers with half-split RoPE

Rope = Callable[[Tensor, Tensor, float], Tensor]
Frequencies = Callable[[Mapping[str, Any], int, int | None, int | None], tuple[Tensor, float]]


class _SwappedRotary(nn.Module):
    """Cosine and sine as transformers hands them to its layers, (B, T, R) each, from the course's or other frequencies.

    A ``frequencies`` function is asked anew at every call: it may depend on the length.
    """

    put_for = "rope"

    def __init__(self, config: Any, frequencies: Frequencies | None = None) -> None:
        super().__init__()
        self.config = from_config(config.to_dict())
        self.function = frequencies
        window = self.config.max_position_embeddings
        self.rotary = {
            name: RotaryEmbedding(layer.head_dim, rope_parameters=layer.parameters, max_position_embeddings=window)
            for name, layer in self.config.layers.items()
        }

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        name = next(iter(self.rotary)) if layer_type is None else layer_type
        if self.function is None:
            cos, sin = self.rotary[name].cos_sin(position_ids, torch.float32)  # (B, T, R/2)
        else:
            layer, window = self.config.layers[name], self.config.max_position_embeddings
            seq_len = int(position_ids.max()) + 1
            cos, sin = rope_cos_sin(position_ids, *self.function(layer.parameters, layer.head_dim, window, seq_len))
        return torch.cat((cos, cos), -1).to(x.dtype), torch.cat((sin, sin), -1).to(x.dtype)  # (B, T, R) each


class _Positions(nn.Module):
    """Hands the positions themselves to the layers, for a ``rope`` that computes its own angles."""

    put_for = "rope"

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        return position_ids, position_ids


def swap_positions(swapped: Swapped, model: nn.Module, rope: Rope | None, frequencies: Frequencies | None) -> None:
    """Replace the tables and the rotations together, or neither: one hands to the other what only it understands."""
    modules = list(model.named_modules())
    tables = [(name, module) for name, module in modules if type(module).__name__.endswith("RotaryEmbedding")]
    layers = [(name, module) for name, module in modules if _rotation_of(module) is not None]
    if reason := _why_not(tables, layers):
        swapped.left += [(name, type(module).__name__, reason) for name, module in tables]
        swapped.left += [(name, ROTATION, reason) for name, module in layers]
        return
    for name, module in tables:
        if rope is not None:
            _require_plain(module.config)
            swapped.replace(model, name, module, _Positions(), "the positions themselves")
        else:
            what = "the course's frequencies, in float64" if frequencies is None else full_name(frequencies)
            swapped.replace(model, name, module, _SwappedRotary(module.config, frequencies), what)
    for name, module in layers:
        _swap_rotation(swapped, name, module, rope)


def _why_not(tables: list[tuple[str, nn.Module]], layers: list[tuple[str, nn.Module]]) -> str:
    if not tables or not layers:
        return "it is not built as Llama is"
    if not all(hasattr(module, "config") for _, module in tables):
        return "it has no config to read"
    if not all(_same_tables(module) for _, module in tables):
        return "its angles are not those that its config asks for"
    return "" if all(_rotates_halves(_rotation_of(module)) for _, module in layers) else "it rotates in another way"


@torch.no_grad()
def _same_tables(module: nn.Module) -> bool:
    """Return whether ``module`` gives the course's cosines and sines; Llama's, for one, ignores a partial factor."""
    mine = _SwappedRotary(module.config)
    positions = torch.arange(4, device=next(module.buffers()).device)[None]
    for layer_type in mine.rotary if len(mine.rotary) > 1 else (None,):
        arguments = (torch.zeros(1), positions) if layer_type is None else (torch.zeros(1), positions, layer_type)
        for table, wanted in zip(mine(*arguments), module(*arguments), strict=True):
            if table.shape != wanted.shape or not torch.allclose(table, wanted, atol=1e-5):
                return False
    return True


def _rotation_of(module: nn.Module) -> Any:
    """Return the function that ``module`` rotates its queries and keys with, or None."""
    forward = inspect.unwrap(type(module).forward)
    if ROTATION not in getattr(getattr(forward, "__code__", None), "co_names", ()):
        return None
    return forward.__globals__.get(ROTATION)


@torch.no_grad()
def _rotates_halves(rotation: Any) -> bool:
    """Return whether ``rotation`` does what the course's does, on random queries, keys and angles."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, 3, 8, generator=generator)
    angles = torch.randn(1, 3, 4, generator=generator)
    cos, sin = angles.cos().repeat(1, 1, 2), angles.sin().repeat(1, 1, 2)
    try:
        wanted = rotation(q, k, cos, sin)
    except (TypeError, ValueError, RuntimeError):
        return False
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(wanted, _course_rotation(q, k, cos, sin), strict=True))


def _require_plain(config: Any) -> None:
    layers = from_config(config.to_dict()).layers
    if len(layers) > 1:
        raise ValueError(f"rope must be None for a model whose RoPE differs by layer: this one has {', '.join(layers)}")
    rope_type = next(iter(layers.values())).parameters.get("rope_type", "default")
    if rope_type != "default":
        raise ValueError(f"rope must be None for a model with rope_type {rope_type!r}: it scales nothing")


def _swap_rotation(swapped: Swapped, name: str, module: nn.Module, rope: Rope | None) -> None:
    """Let ``module`` rotate with another function: its own forward pass, with one global name bound anew."""
    forward = inspect.unwrap(type(module).forward)
    rotation = _course_rotation if rope is None else _own_rotation(rope, module.config)
    swapped.undo_actions.append(lambda: module.__dict__.pop("forward", None))
    module.forward = types.MethodType(_with_global(forward, ROTATION, rotation), module)
    what = "course_utils.rope.apply_rope" if rope is None else full_name(rope)
    swapped.replaced.append((name, ROTATION, what))


def _with_global(function: Any, name: str, value: Any) -> types.FunctionType:
    """Return a copy of ``function`` in which the global ``name`` is ``value``; nobody else sees the change."""
    namespace = {**function.__globals__, name: value}
    copy = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _course_rotation(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """Rotate q and k (B, H, T, D) by cosine and sine (B, T, R), which hold each pair's value twice."""
    half = cos.shape[-1] // 2
    cos, sin = (table[..., :half].unsqueeze(unsqueeze_dim) for table in (cos, sin))
    return apply_rope(q, cos, sin), apply_rope(k, cos, sin)


def _own_rotation(rope: Rope, config: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    described = from_config(config.to_dict())
    base = described.rope_parameters.get("rope_theta", 10_000.0)
    rotary_dim = 2 * len(described.frequencies()[0])

    def rotate(x: Tensor, positions: Tensor) -> Tensor:
        rows = zip(x[..., :rotary_dim], positions.expand(len(x), -1), strict=True)
        turned = torch.stack([rope(row, at, base) for row, at in rows])
        return torch.cat((turned.to(x.dtype), x[..., rotary_dim:]), -1)

    def rotation(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return rotate(q, cos), rotate(k, cos)  # both are the positions, (B, T)

    return rotation
