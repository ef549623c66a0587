"""Chapter 19: ε of a norm, the base of a rotation and a layer's memory, found by calling them."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from chapters.c19_other_peoples_code.strange_layers import StrangeNorm
from course_utils import rope
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Tolerance, read_probes

__all__ = ["find_base", "find_eps", "remembers"]

WITHIN = Tolerance(1e-2, 0.0)  # a hundredth of what is asked for, however small


def _find_eps(layer, width):
    row = torch.linspace(-1, 1, width, dtype=torch.float64)
    row = row / row.square().mean().sqrt()  # mean 0, mean square 1

    def divisor(size):
        x = size * row
        return (x[0] / layer(x)[0]).item()

    quiet = divisor(1e-20)  # ε, or its root
    rise = divisor(quiet) / quiet  # √2 inside the root, 2 outside, 1 for a floor
    return quiet**2 if 1.2 < rise < 1.7 else quiet


def zoo(seed: int, **chosen: Any) -> Callable[[Tensor], Tensor]:
    """A norm over the last axis of any rows, with the conventions of ``seed`` and those chosen."""
    drawn = {"where": "the last axis", "offset": None, **chosen}
    return StrangeNorm(seed, **drawn)


def _of_a_norm(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_a_norm(conventions, width):
        layer = zoo(0, **conventions)
        return function(lambda x: layer(x.reshape(-1, 1, width)).reshape(x.shape), width)

    return of_a_norm


def _norm(width: int, **conventions: Any) -> Call:
    drawn = {"centred": "variance" in conventions["statistic"], "one_pass": False}
    drawn |= {"in_float32": False, "rounded_first": False}
    return Call({"conventions": drawn | conventions, "width": width})


def _format_norm(call: Call) -> list[str]:
    said = call.arguments["conventions"]
    mean = "subtracts the mean, " if said["centred"] else ""
    place = {"inside": "inside the root", "outside": "outside the root", "floor": "as a floor"}
    dtype = "float32" if said["in_float32"] else "float64"
    words = f"{mean}divides by the root of: {said['statistic']}, ε {place[said['place']]}"
    width = call.arguments["width"]
    return [f"find_eps(layer, {width})", f"layer: {words}; computes in {dtype}"]


find_eps = Exercise(
    "find_eps",
    _find_eps,
    read_probes(__file__, "find_eps", _norm, WITHIN, plain=True),
    load("find_eps", _find_eps),
    any_dtype=True,
    adapt=_of_a_norm,
    may_shrink_to=lambda call: False,  # conventions have no smaller form
    format_call=_format_norm,
)


def _find_base(rotate, dim):
    columns = torch.eye(dim, dtype=torch.float64)
    turned = torch.stack([rotate(column.expand(2, dim)) for column in columns])
    cosines = (turned[:, 0] * turned[:, 1]).sum(-1)
    angles = cosines.clamp(-1, 1).acos().sort(descending=True).values  # each pair twice
    pairs = (angles > 0).sum().item() / 2
    return (angles[0] / angles[2]).item() ** pairs


def rotation(
    rotary: int, layout: str, base: float, first: int = 0, **scaling: Any
) -> Callable[[Tensor], Tensor]:
    """A rotation of rows (T, dim), of which ``rotary`` columns turn; the first row stands at
    position ``first``."""
    parameters = {"rope_type": "default", "rope_theta": base, **scaling}
    frequencies, _ = rope.rope_frequencies(parameters, rotary)

    def rotate(x: Tensor) -> Tensor:
        positions = torch.arange(len(x), dtype=torch.float64) + first
        tables = rope.rope_cos_sin(positions, frequencies, 1.0, torch.float64)
        return rope.apply_rope(x.double(), *tables, layout)

    return rotate


def _of_a_rotation(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_a_rotation(conventions, dim):
        return function(rotation(**conventions), dim)

    return of_a_rotation


def _rotation(dim: int, **conventions: Any) -> Call:
    return Call({"conventions": {"rotary": dim, **conventions}, "dim": dim})


def _format_rotation(call: Call) -> list[str]:
    said = ", ".join(f"{name}={value!r}" for name, value in call.arguments["conventions"].items())
    return [f"find_base(rotate, {call.arguments['dim']})", f"rotate: {said}"]


find_base = Exercise(
    "find_base",
    _find_base,
    read_probes(__file__, "find_base", _rotation, WITHIN, plain=True),
    load("find_base", _find_base),
    any_dtype=True,
    adapt=_of_a_rotation,
    may_shrink_to=lambda call: False,
    format_call=_format_rotation,
)


def _remembers(make, x):
    fresh = make()(x)
    others = [x.bfloat16()]
    others += [x[: len(x) // 2]]
    others += [torch.cat([x, x])]
    others += [100 * x]
    for other in others:
        layer = make()
        layer(other)
        if not torch.equal(layer(x), fresh):
            return True
    return False


def remembering(kind: str) -> Callable[[Tensor], Tensor]:
    """A layer for rows (T, C) that keeps something of the calls before: "nothing", what has no
    effect ("a count", "each in its place"), or a "dtype", the "last dtype", a "length", the "most
    rows", a "table", a "size", a "size in each dtype", "every call", "a little of every call"."""
    kept: dict[Any, Any] = {"calls": 0}
    added = {"every call": 1.0, "a little of every call": 0.01}

    def layer(x: Tensor) -> Tensor:
        first = kept.setdefault((x.dtype, len(x)) if kind == "each in its place" else "first", x)
        before, kept["last"] = kept.get("last", x), x
        kept["calls"] += 1
        kept["most"] = max(kept.get("most", 0), len(x))
        if kind in ("dtype", "last dtype", "table", "each in its place"):
            kept_in = {"last dtype": before, "table": x}.get(kind, first)
            rows = len(first) if kind == "table" else len(x)
            angles = 0.7 * torch.arange(len(x)).clamp(max=rows - 1).to(kept_in.dtype)
            return x * angles[:, None].to(x.dtype).cos()
        if kind == "most rows":
            return x * math.log(1 + kept["most"])
        if kind == "length":
            return x * math.log(1 + len(first))
        if kind == "size":
            return x / before.abs().max().to(x.dtype)
        if kind == "size in each dtype":
            return x / kept.setdefault(x.dtype, x.abs().max())
        return x.tanh() + added.get(kind, 0.0) * kept["calls"]

    return layer


def _of_a_kind(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_a_kind(kind, rows):
        rng = torch.Generator().manual_seed(rows)
        x = torch.randn(rows, 4, generator=rng)
        x[0, 0] = 8  # the largest, in every dtype and in the first rows too
        return function(lambda: remembering(kind), x)

    return of_a_kind


remembers = Exercise(
    "remembers",
    _remembers,
    read_probes(__file__, "remembers", plain=True),
    load("remembers", _remembers),
    any_dtype=True,
    adapt=_of_a_kind,
    may_shrink_to=lambda call: False,
    format_call=lambda call: [
        f"remembers(make, x), x of {call.arguments['rows']} rows",
        f"the layer keeps, and uses: {call.arguments['kind']}",
    ],
)
