"""Chapter 07: how large a number must be to rule its row; where a transformer's norms stand, and
whether a branch has any; a layer norm whose weight and bias come from a condition."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes
from course_utils.check.report import format_tensor

__all__ = ["ada_layer_norm", "large_enough", "place_norms", "where_norms"]


def _large_enough(row, feature, share):
    others = row.clone()
    others[feature] = 0
    squares = others.square().sum()
    # RMS norm makes √C a / √(a² + squares) of a
    return share * (squares / (1 - share**2)).sqrt()


large_enough = Exercise(
    "large_enough",
    _large_enough,
    read_probes(__file__, "large_enough", lambda **given: Call(given, {"row": "C"})),
    load("large_enough", _large_enough),
    any_dtype=True,
    may_shrink_to=lambda call: len(call.arguments["row"]) > max(2, call.arguments["feature"]),
)


def _place_norms(x, blocks, norm, place):
    stream = x
    if place == "peri":
        stream = norm(stream)
    for attention, mlp in blocks:
        if place == "parallel":
            h = norm(stream)
            stream = stream + attention(h) + mlp(h)
            continue
        for f in (attention, mlp):
            if place == "post":
                stream = norm(stream + f(stream))
            elif place == "pre":
                stream = stream + f(norm(stream))
            elif place == "after":
                stream = stream + norm(f(stream))
            else:  # sandwich, peri
                stream = stream + norm(f(norm(stream)))
    return stream


def _of_matrices(place_norms: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``place_norms`` as a function of the matrices (blocks, 2, C, C) of its parts."""

    def of_matrices(x, weights, offset, place):
        def part(weight, h):
            # a number is added: N(W N(x)) alone would be N(W x)
            return h @ weight.to(h.dtype) + offset

        def norm(h):
            return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)

        blocks = [tuple(partial(part, weight) for weight in pair) for pair in weights]
        return place_norms(x, blocks, norm, place)

    return of_matrices


def _format_blocks(call: Call) -> list[str]:
    x, weights, offset, place = call.arguments.values()
    added = f" + {offset:g}" if offset else ""
    parts = [
        f"block {i}: {name}(h) = h @ W{added}, W = {format_tensor(weight)}"
        for i, pair in enumerate(weights)
        for name, weight in zip(("attention", "mlp"), pair, strict=True)
    ]
    return [f'place_norms(x, blocks, norm, "{place}")', f"x = {format_tensor(x)}", *parts]


def _stream(x: Tensor, weights: Tensor, place: str, offset: float = 1.0) -> Call:
    return Call(
        {"x": x, "weights": weights, "offset": offset, "place": place},
        {"x": "TC", "weights": "LPCC"},
    )


place_norms = Exercise(
    "place_norms",
    _place_norms,
    read_probes(__file__, "place_norms", _stream),
    load("place_norms", _place_norms),
    adapt=_of_matrices,
    # a block has two parts, and of two features or one there is little to see
    may_shrink_to=lambda call: (
        call.arguments["weights"].shape[1] == 2 and call.arguments["x"].shape[-1] > 2
    ),
    format_call=_format_blocks,
)


def _where_norms(added, x):
    usual = added(x, 1.0)
    of_triple = added(3 * x, 1.0)
    of_heavier = added(x, 3.0)
    nothing = 0.01 * usual.abs().max()
    before = (of_triple - usual).abs().max() < nothing
    after = (of_heavier - usual).abs().max() < nothing
    return bool(before), bool(after)


def _of_a_branch(where_norms: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``where_norms`` as a function of a branch's matrices (C, C) and of its norms."""
    norms: dict[str, Callable[..., Tensor]] = {"rms": F.rms_norm, "layer": F.layer_norm}

    def of_a_branch(x, first, last, before, after):
        def norm(kind, h):
            return norms[kind](h, h.shape[-1:], eps=1e-5) if kind else h

        def added(stream, scale):
            inner = torch.tanh(norm(before, stream) @ first.to(stream.dtype))
            return norm(after, inner @ (scale * last.to(stream.dtype)))

        return where_norms(added, x)

    return of_a_branch


def _format_branch(call: Call) -> list[str]:
    names = {"rms": "RMS norm", "layer": "layer norm", "": "no norm"}
    before, after = (names[call.arguments[place]] for place in ("before", "after"))
    x, first, last = (format_tensor(call.arguments[name]) for name in ("x", "first", "last"))
    branch = f"{before}, then tanh(h @ W) @ (scale * V), then {after}"
    return ["where_norms(added, x)", f"added: {branch}", f"W = {first}", f"V = {last}", f"x = {x}"]


where_norms = Exercise(
    "where_norms",
    _where_norms,
    read_probes(__file__, "where_norms"),
    load("where_norms", _where_norms),
    returns=("before", "after"),
    any_dtype=True,
    adapt=_of_a_branch,
    may_shrink_to=lambda call: False,  # of a few numbers anything may come out alike
    format_call=_format_branch,
)


def _ada_layer_norm(x, condition, weight, bias, eps=1e-6):
    z, dims = x, -1
    mean = z.mean(dims, keepdim=True)
    variance = (z - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    x_hat = (z - mean) / std
    both = condition @ weight.T + bias  # (B, 2 C)
    shift, scale = both.chunk(2, dim=-1)
    shift, scale = shift[:, None], scale[:, None]  # (B, 1, C): the same for all tokens
    return x_hat * (1 + scale) + shift


def _call(**arguments: Tensor) -> Call:
    axes = {"x": "BTC", "condition": "BD"}
    return Call(arguments, axes)


ada_layer_norm = Exercise(
    "ada_layer_norm",
    _ada_layer_norm,
    read_probes(__file__, "ada_layer_norm", _call),
    load("ada_layer_norm", _ada_layer_norm),
    # of two values, layer norm says only which is the larger
    may_shrink_to=lambda call: call.arguments["x"].shape[-1] >= 3,
    simplest=dict.fromkeys(
        ("weight", "bias"), lambda shape, dtype: torch.zeros(shape, dtype=dtype)
    ),
)
