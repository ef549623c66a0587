"""Norms and rotary embeddings in the place of a model's, with the parameters that are there
(chapter 17).

Notation used for tensor shapes: B batch, T tokens, H heads, D head dimension, R rotary dimension
(at most D).
"""

import inspect
import re
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import norms
from course_utils.rope import apply_rope, from_config, rope_cos_sin
from course_utils.table import Table

# the name of the function in every model of transformers with half-split RoPE
ROTATION = "apply_rotary_pos_emb"

Norm = Callable[..., Tensor]
Rope = Callable[[Tensor, Tensor, float], Tensor]
Frequencies = Callable[[Mapping[str, Any], int, int | None, int | None], tuple[Tensor, float]]


@dataclass
class Swapped:
    """What ``swap`` did: ``replaced`` holds (name, what was there, what is there), ``left`` (name,
    what, why)."""

    replaced: list[tuple[str, str, str]] = field(default_factory=list)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    undo_actions: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Give the model back everything that was replaced."""
        while self.undo_actions:
            self.undo_actions.pop()()

    def replace(
        self, model: nn.Module, name: str, module: nn.Module, new: nn.Module, what: str
    ) -> None:
        """Put ``new`` where ``module`` is in ``model``, and note it."""
        parent_name, _, child = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        setattr(parent, child, new.train(module.training))
        self.replaced.append((name, type(module).__name__, what))
        self.undo_actions.append(lambda: setattr(parent, child, module))

    def table(self) -> Table:
        """Return both lists, equal lines of different layers counted together."""
        lines = [*self.replaced, *((name, what, f"left: {why}") for name, what, why in self.left)]
        counted = Counter(
            (re.sub(r"(?<![^.])\d+(?![^.])", "*", name), was, now) for name, was, now in lines
        )
        rows = [(name, n, was, now) for (name, was, now), n in counted.items()]
        return Table(("module", "how many", "was", "is"), rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def swap(
    model: nn.Module,
    *,
    layer_norm: Norm | None = norms.layer_norm,
    rms_norm: Norm | None = norms.rms_norm,
    rope: Rope | None = None,
    frequencies: Frequencies | None = None,
    keep_rope: bool = False,
) -> Swapped:
    """Replace the norms and the rotary embedding of ``model``, in place. Chapter 17.

    A norm is recognised by what it computes, not by its name: its own output on random numbers
    tells layer norm, RMS norm, and RMS norm with a weight that counts from 1 (Gemma's) apart. What
    fits none of them is left, and said so.

    Args:
        model: of transformers, such as Llama, Qwen3, GPT-NeoX, Gemma; on any device, in any dtype.
        layer_norm: with the signature of ``torch.nn.functional.layer_norm``; None leaves layer
            norms alone.
        rms_norm: with that of ``torch.nn.functional.rms_norm``; None leaves RMS norms alone.
        rope: ``rope(x, positions, base)`` that rotates x (H, T, R) at positions (T,), in halves, as
            the exercise of chapter 14; it takes models whose RoPE is not scaled. None is the
            course's, with every way of scaling.
        frequencies: with the signature of ``rope_frequencies``, as the exercise of chapter 15:
            makes the table that the course's rotation turns by, in any model, scaled or not. None
            is the course's.
        keep_rope: leave the rotary embedding alone.

    Returns:
        What was replaced and what was left, with ``undo()``. A function of yours for which
        ``model`` has no place is among what was left.

    Raises:
        ValueError: something other than a function was given for one; two of ``rope``,
            ``frequencies`` and ``keep_rope`` were given; ``rope`` was given for a model whose RoPE
            is scaled, or differs from layer to layer; or the model is swapped already. The model is
            then as it was.
    """
    functions = {
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "rope": rope,
        "frequencies": frequencies,
    }
    for name, function in functions.items():
        if function is not None and (
            not callable(function) or isinstance(function, nn.Module | type)
        ):
            raise ValueError(f"{name} must be a function or None: got {function!r}")
        if keep_rope and function is not None and name in ("rope", "frequencies"):
            raise ValueError(f"{name} must be None with keep_rope=True: got {function!r}")
    if rope is not None and frequencies is not None:
        raise ValueError(
            f"frequencies must be None with a rope, which makes its own: got {frequencies!r}"
        )
    if any(
        isinstance(module, _SwappedNorm | _SwappedRotary | _Positions) for module in model.modules()
    ):
        raise ValueError("model must not be swapped already: call undo() of that swap first")

    swapped = Swapped()
    try:
        for name, module in list(model.named_modules()):
            if (
                type(module).__name__.endswith(("LayerNorm", "RMSNorm"))
                and next(module.children(), None) is None
            ):
                _swap_norm(swapped, model, name, module, layer_norm, rms_norm)
        if not keep_rope:
            _swap_rope(swapped, model, rope, frequencies)
    except BaseException:
        swapped.undo()
        raise
    # To compare a model that has no place for a function of the caller's own would prove nothing of
    # it.
    for name, function in functions.items():
        if function in (None, norms.layer_norm, norms.rms_norm):
            continue
        if not any(now.startswith(_full_name(function)) for _, _, now in swapped.replaced):
            swapped.left.append((name, _full_name(function), "the model has no place for it"))
    return swapped


class _SwappedNorm(nn.Module):
    """A norm with the parameters of another and a function of its own."""

    def __init__(self, function: Norm, module: Any, *, from_one: bool) -> None:
        super().__init__()
        self.function, self.from_one = function, from_one
        self.weight, self.bias = module.weight, getattr(module, "bias", None)
        self.shape = tuple(module.weight.shape)
        self.eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
        self.is_layer_norm = isinstance(module, nn.LayerNorm)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_layer_norm:
            return self.function(x, self.shape, self.weight, self.bias, self.eps)
        if self.from_one:  # 1 + w would lose w's last digits in half precision
            return self.function(x.float(), self.shape, 1 + self.weight.float(), self.eps).to(
                x.dtype
            )
        return self.function(x, self.shape, self.weight, self.eps)


def _swap_norm(
    swapped: Swapped,
    model: nn.Module,
    name: str,
    module: nn.Module,
    layer_norm: Norm | None,
    rms_norm: Norm | None,
) -> None:
    """Put a function in the place of ``module`` if it is found to compute a layer norm or an RMS
    norm."""
    is_layer_norm = isinstance(module, nn.LayerNorm)
    function = layer_norm if is_layer_norm else rms_norm
    if function is None or not isinstance(getattr(module, "weight", None), nn.Parameter):
        why = "as asked" if function is None else "it has no weight"
        swapped.left.append((name, type(module).__name__, why))
        return
    built_in = torch.nn.functional.layer_norm if is_layer_norm else torch.nn.functional.rms_norm
    for from_one in (False, True):
        if _same_function(module, _SwappedNorm(built_in, module, from_one=from_one)):
            what = f"{_full_name(function)}{' with weight 1 + w' if from_one else ''}"
            swapped.replace(
                model, name, module, _SwappedNorm(function, module, from_one=from_one), what
            )
            return
    swapped.left.append((name, type(module).__name__, "it computes something else"))


@torch.no_grad()
def _same_function(module: nn.Module, candidate: _SwappedNorm) -> bool:
    """Return whether both give the same on random rows of very different sizes, where eps shows."""
    weight, generator = candidate.weight, torch.Generator().manual_seed(0)
    rows = torch.randn(3, weight.numel(), generator=generator) * torch.tensor(
        [[1e-3], [1.0], [1e3]]
    )
    x = rows.view(3, *weight.shape).to(weight)
    wanted, got = module(x).float(), candidate(x).float()
    return bool(
        (wanted - got).norm() <= 4 * torch.finfo(weight.dtype).eps * wanted.norm().clamp(min=1e-3)
    )


def _full_name(function: Any) -> str:
    """Return the module and the name of a function, or of the type of whatever else can be
    called."""
    if function.__module__.startswith("chapters."):
        return "the course's answer"
    return f"{function.__module__}.{getattr(function, '__name__', type(function).__name__)}"


class _SwappedRotary(nn.Module):
    """Cosine and sine as transformers hands them to its layers, (B, T, R) each, from the course's
    or other frequencies.

    They are asked for anew at every call: they may depend on the length.
    """

    def __init__(self, config: Any, frequencies: Frequencies | None = None) -> None:
        super().__init__()
        self.config = from_config(config.to_dict())
        self.function = frequencies

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor]:
        layers, window, seq_len = (
            self.config.layers,
            self.config.max_position_embeddings,
            int(position_ids.max()) + 1,
        )
        layer = layers[layer_type or next(iter(layers))]
        if self.function is None:
            inv_freq, attention_factor = layer.frequencies(seq_len)
        else:
            inv_freq, attention_factor = self.function(
                layer.parameters, layer.head_dim, window, seq_len
            )
        cos, sin = rope_cos_sin(position_ids, inv_freq, attention_factor)  # (B, T, R/2)
        # (B, T, R) each
        return torch.cat((cos, cos), -1).to(x.dtype), torch.cat((sin, sin), -1).to(x.dtype)


class _Positions(nn.Module):
    """Hands the positions themselves to the layers, for a ``rope`` that computes its own angles."""

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        return position_ids, position_ids


def _swap_rope(
    swapped: Swapped, model: nn.Module, rope: Rope | None, frequencies: Frequencies | None
) -> None:
    """Replace the tables and the rotations together, or neither: one hands to the other what only
    it understands."""
    modules = list(model.named_modules())
    tables = [
        (name, module)
        for name, module in modules
        if type(module).__name__.endswith("RotaryEmbedding")
    ]
    layers = [(name, module) for name, module in modules if _rotation_of(module) is not None]
    if reason := _why_not(tables, layers):
        swapped.left += [(name, type(module).__name__, reason) for name, module in tables]
        swapped.left += [(name, ROTATION, reason) for name, module in layers]
        return
    for name, module in tables:
        if rope is not None:
            swapped.replace(model, name, module, _Positions(), "the positions themselves")
        else:
            what = (
                "the course's frequencies, in float64"
                if frequencies is None
                else _full_name(frequencies)
            )
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
    return (
        ""
        if all(_rotates_halves(_rotation_of(module)) for _, module in layers)
        else "it rotates in another way"
    )


@torch.no_grad()
def _same_tables(module: nn.Module) -> bool:
    """Return whether ``module`` gives the course's cosines and sines; Llama's, for one, ignores a
    partial factor."""
    mine = _SwappedRotary(module.config)
    positions = torch.arange(4, device=next(module.buffers()).device)[None]
    one_type = len(mine.config.layers) == 1
    for layer_type in mine.config.layers:
        options = () if one_type else (layer_type,)
        tables = mine(torch.zeros(1), positions, *options)
        wanted = module(torch.zeros(1), positions, *options)
        for mine_table, wanted_table in zip(tables, wanted, strict=True):
            if mine_table.shape != wanted_table.shape or not torch.allclose(
                mine_table, wanted_table, atol=1e-5
            ):
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
    """Return whether ``rotation`` does what the course's does, on random queries, keys and
    angles."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, 3, 8, generator=generator)
    angles = torch.randn(1, 3, 4, generator=generator)
    cos, sin = angles.cos().repeat(1, 1, 2), angles.sin().repeat(1, 1, 2)
    try:
        wanted = rotation(q, k, cos, sin)
    except (TypeError, ValueError, RuntimeError):
        return False
    return all(
        torch.allclose(a, b, atol=1e-5)
        for a, b in zip(wanted, _course_rotation(q, k, cos, sin), strict=True)
    )


def _swap_rotation(swapped: Swapped, name: str, module: nn.Module, rope: Rope | None) -> None:
    """Let ``module`` rotate with another function: a copy of its own forward pass, with one global
    name bound anew."""
    forward = inspect.unwrap(type(module).forward)
    names = {
        **forward.__globals__,
        ROTATION: _course_rotation if rope is None else _own_rotation(rope, module.config),
    }
    mine = types.FunctionType(
        forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__
    )
    mine.__kwdefaults__ = forward.__kwdefaults__
    swapped.undo_actions.append(lambda: module.__dict__.pop("forward", None))
    module.forward = types.MethodType(mine, module)
    what = "course_utils.rope.apply_rope" if rope is None else _full_name(rope)
    swapped.replaced.append((name, ROTATION, what))


def _course_rotation(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Rotate q and k (B, H, T, D) by cosine and sine (B, T, R), which hold each pair's value
    twice."""
    half = cos.shape[-1] // 2
    cos, sin = (table[..., :half].unsqueeze(unsqueeze_dim) for table in (cos, sin))
    return apply_rope(q, cos, sin), apply_rope(k, cos, sin)


def _own_rotation(rope: Rope, config: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    described = from_config(config.to_dict())
    if len(described.layers) > 1:
        names = ", ".join(described.layers)
        raise ValueError(
            f"rope must be None for a model whose RoPE differs by layer: this one has {names}"
        )
    if described.main.rope_type != "default":
        raise ValueError(
            f"rope must be None for a model with rope_type {described.main.rope_type!r}: it scales "
            "nothing"
        )
    base = described.rope_parameters.get("rope_theta", 10_000.0)
    rotary_dim = 2 * len(described.frequencies()[0])

    def rotate(x: Tensor, positions: Tensor) -> Tensor:
        rows = zip(x[..., :rotary_dim], positions.expand(len(x), -1), strict=True)
        turned = torch.stack([rope(row, at, base) for row, at in rows])
        return torch.cat((turned.to(x.dtype), x[..., rotary_dim:]), -1)

    def rotation(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor]:
        return rotate(q, cos), rotate(k, cos)  # both are the positions, (B, T)

    return rotation
