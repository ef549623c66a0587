"""Chapter 05: the backward passes of layer, batch and RMS norm."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import (
    LAYER,
    NARROW,
    RMS,
    Norm,
    channel_call,
    epsilon_calls,
    fill_eps,
    has_three_values,
    numbers,
    shared_probes,
    trailing_call,
)
from course_utils.check.probes import DOUBLE, GRADIENTS, Call, Probe, integers, read_probes
from course_utils.check.report import format_tensor

__all__ = ["backward_steps", "batch_norm_backward", "layer_norm_backward", "rms_norm_backward"]


def _one_in_each_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every row. (Next to x = 1, 2, 3 a dy of 1, 2, 3 would hide everything:
    dx is 0.)"""
    dy = torch.zeros(tuple(shape), dtype=dtype)
    dy[..., 0] = 1.0
    return dy


def _one_in_each_channel(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every channel."""
    dy = torch.zeros(tuple(shape), dtype=dtype)
    dy[0] = 1.0
    return dy


def _gradient(x: Tensor) -> Tensor:
    """Return a dy for ``x``, of its scale, that has a mean: zeros would hide what is left out."""
    scale = max(1.0, x.float().abs().max().item() / 9) if x.abs().max() < 5_000 else 1.0
    return integers(*x.shape, seed=91, scale=scale, offset=2 * scale).to(x.dtype)


def _backward(call: Call, dy: Tensor | None = None) -> Call:
    """Return the call of a forward pass as one of its backward pass."""
    dy = _gradient(call.arguments["x"]) if dy is None else dy
    return Call({"dy": dy, **call.arguments}, {"dy": call.axes["x"], **call.axes})


def _rows(x: Tensor, normalized: int = 1, dy: Tensor | None = None, **arguments: Any) -> Call:
    return _backward(trailing_call(x, normalized, **arguments), dy)


def _channels(x: Tensor, dy: Tensor | None = None, **arguments: Any) -> Call:
    return _backward(channel_call(x, **arguments), dy)


def _probes(
    norm: Norm, exercise: str, many: Call, *, sums: Sequence[str] = ("dbias", "dweight")
) -> list[Probe]:
    """Return the probes by stage: the sums, dx, then dx with a weight, each without what the next
    one looks at."""
    shared = shared_probes(norm.sets, norm.call)
    shared += read_probes(__file__, norm.sets, norm.call)
    own = read_probes(__file__, exercise, norm.call)
    plain = [probe for probe in shared + own if probe.stage in ("statistics", "plain")]
    weighted = [probe for probe in shared if probe.stage == "weighted"]

    half = integers(*norm.half_gradient, seed=33).bfloat16()

    def looking_at(result: str, probes: Sequence[Probe], stage: str) -> list[Probe]:
        return [replace(probe, stage=stage, compares=(result,)) for probe in probes]

    return [
        *(probe for result in sums for probe in looking_at(result, plain + weighted, result)),
        *looking_at("dx", plain, "dx"),
        *looking_at("dx", weighted, "dx with a weight"),
        *(Probe(name, "epsilon", call) for name, call in epsilon_calls(norm).items()),
        *(probe for probe in own if probe.stage != "plain"),
        *(probe for probe in shared if probe.stage == "half precision"),
        Probe(
            "1,024 rows in bfloat16",
            "sums in half precision",
            many,
            compares=sums,
            rough=True,
            tolerance=GRADIENTS[torch.bfloat16],
        ),
        Probe(
            "bfloat16 with a float32 weight",  # as in mixed precision
            "dtypes",
            norm.call(half, dtype=torch.float32, weight=True),
            tolerance=GRADIENTS[torch.bfloat16],
        ),
        Probe(
            "float64",
            "float64",
            norm.call(integers(*norm.half_gradient, seed=34).double(), weight=True),
            remark=NARROW,
            remark_beyond=DOUBLE,
        ),
    ]


_MANY_ROWS = _rows(
    torch.tensor([[3.0, 5.0, 5.0, 3.0]]).repeat(1024, 1).bfloat16(),
    dy=torch.ones(1024, 4).bfloat16(),
)


def _layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))  # share a mean
    rows = tuple(range(x.ndim - len(normalized_shape)))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))

    def average(t):
        return t.mean(dims, keepdim=True)

    mean = average(z)
    spread = average((z - mean).square())
    rstd = torch.rsqrt(spread + eps)
    x_hat = (z - mean) * rstd
    g = d if weight is None else d * weight
    dx = rstd * (g - average(g) - x_hat * average(g * x_hat))

    dweight = d * x_hat
    dbias = d
    dweight, dbias = (terms.sum(rows) if rows else terms for terms in (dweight, dbias))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype), dbias.to(out.dtype)


layer_norm_backward = Exercise(
    "layer_norm_backward",
    _layer_norm_backward,
    _probes(replace(LAYER, call=_rows), "layer_norm_backward", _MANY_ROWS),
    load("layer_norm_backward", _layer_norm_backward),
    returns=("dx", "dweight", "dbias"),
    may_shrink_to=has_three_values,
    simplest={"dy": _one_in_each_row},
)


def _batch_norm_backward(dy, x, weight=None, eps=1e-5):
    dims = (0, *range(2, x.ndim))  # share a mean
    rows = (0, *range(2, x.ndim))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))
    if weight is not None:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))

    def average(t):
        return t.mean(dims, keepdim=True)

    mean = average(z)
    spread = average((z - mean).square())
    rstd = torch.rsqrt(spread + eps)
    x_hat = (z - mean) * rstd
    g = d if weight is None else d * weight
    dx = rstd * (g - average(g) - x_hat * average(g * x_hat))

    dweight = d * x_hat
    dbias = d
    dweight, dbias = (terms.sum(rows) for terms in (dweight, dbias))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype), dbias.to(out.dtype)


_CHANNELS = Norm(
    _channels,
    "channels",
    equal=torch.tensor([[4.0, 0.0]] * 4),
    small=(6, 3),
    weighted=(6, 3),
    wide=(2, 3, 2, 2),
    half_gradient=(4, 4, 8),
)
_ALTERNATING = torch.tensor([[3.0, 5.0], [5.0, 3.0]]).repeat(512, 1).bfloat16()

batch_norm_backward = Exercise(
    "batch_norm_backward",
    _batch_norm_backward,
    # dy follows x̂: all terms of dweight are of one sign
    _probes(_CHANNELS, "batch_norm_backward", _channels(_ALTERNATING, dy=_ALTERNATING - 3)),
    load("batch_norm_backward", _batch_norm_backward),
    returns=("dx", "dweight", "dbias"),
    may_shrink_to=lambda call: call.arguments["x"][:, 0].numel() >= 3,
    simplest={"dy": _one_in_each_channel},
)


def _rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):
    dims = tuple(range(-len(normalized_shape), 0))  # share a mean square
    rows = tuple(range(x.ndim - len(normalized_shape)))  # share a weight
    z, d = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (x, dy))
    eps = torch.finfo(z.dtype).eps if eps is None else eps

    def average(t):
        return t.mean(dims, keepdim=True)

    spread = average(z.square())
    rstd = torch.rsqrt(spread + eps)
    x_hat = z * rstd
    g = d if weight is None else d * weight
    dx = rstd * (g - x_hat * average(g * x_hat))

    dweight = d * x_hat
    (dweight,) = (terms.sum(rows) if rows else terms for terms in (dweight,))
    out = x if weight is None else weight
    return dx.to(x.dtype), dweight.to(out.dtype)


rms_norm_backward = Exercise(
    "rms_norm_backward",
    _rms_norm_backward,
    _probes(replace(RMS, call=_rows), "rms_norm_backward", _MANY_ROWS, sums=("dweight",)),
    load("rms_norm_backward", _rms_norm_backward),
    returns=("dx", "dweight"),
    fill_defaults=fill_eps,
    may_shrink_to=lambda call: torch.Size(call.arguments["normalized_shape"]).numel() >= 2,
    simplest={"dy": _one_in_each_row},
)


# in the order of the way back
_STEPS = (
    "bias",
    "weight",
    "x_hat",
    "rstd",
    "variance",
    "centred",
    "mean",
    "x",
)


def _backward_steps(dy, steps, dims, rows):
    weight, centred, rstd, x_hat = (steps[name] for name in ("weight", "centred", "rstd", "x_hat"))
    n = centred.numel() // rstd.numel()  # how many values share a mean
    d = {}
    d["bias"] = dy.sum(rows).reshape(weight.shape)
    d["weight"] = (dy * x_hat).sum(rows).reshape(weight.shape)
    d["x_hat"] = dy * weight
    d["rstd"] = (d["x_hat"] * centred).sum(dims, keepdim=True)
    d["variance"] = d["rstd"] * -0.5 * rstd**3
    d["centred"] = d["x_hat"] * rstd + d["variance"] * 2 * centred / n
    d["mean"] = -d["centred"].sum(dims, keepdim=True)
    d["x"] = d["centred"] + d["mean"] / n
    return d


def _after_a_forward_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` of named steps as one of the forward pass's inputs; a gradient it leaves
    out is NaN."""

    def gradients(dy, x, weight, bias, dims, rows):
        steps = {"x": x, "weight": weight, "bias": bias}
        steps["mean"] = x.mean(dims, keepdim=True)
        steps["centred"] = x - steps["mean"]
        steps["variance"] = steps["centred"].square().mean(dims, keepdim=True)
        steps["rstd"] = (steps["variance"] + 1e-5) ** -0.5
        steps["x_hat"] = steps["centred"] * steps["rstd"]
        steps["y"] = weight * steps["x_hat"] + bias
        d = function(dy, steps, dims, rows)
        if not isinstance(d, dict):
            return d
        return tuple(d.get(name, torch.full_like(steps[name], torch.nan)) for name in _STEPS)

    return gradients


def _format_steps(call: Call) -> list[str]:
    dims, rows = call.arguments["dims"], call.arguments["rows"]
    line = f"backward_steps(dy, forward_steps(x, weight, bias, {dims}), {dims}, {rows})"
    return [line, *(f"{name} = {format_tensor(value)}" for name, value in call.tensors())]


def _step_call(x: Tensor, size: Sequence[int], dims: Any, rows: Any) -> Call:
    """Return a call with parameters of ``size`` and a dy that hide nothing."""
    flat = (
        channel_call(x, weight=True, bias=True)
        if len(size) > 1
        else trailing_call(x, weight=True, bias=True)
    )
    affine = {name: flat.arguments[name].reshape(tuple(size)) for name in ("weight", "bias")}
    axes = {"dy": flat.axes["x"], "x": flat.axes["x"]}
    letters = axes["x"][1] + "ij"[: len(size) - 1]
    arguments = {"dy": _gradient(x), "x": x, **affine, "dims": dims, "rows": rows}
    return Call(arguments, {**axes, "weight": letters, "bias": letters})


_CHANNEL_DIMS = (0, 2, 3)
_STEP_CALLS = {
    "five rows of six": _step_call(numbers(5, 6, seed=61), (6,), -1, 0),
    "as many rows as features": _step_call(numbers(4, 4, seed=62), (4,), -1, 0),
    "rows near 0.004": _step_call(numbers(4, 5, seed=63, scale=2.0**-10), (5,), -1, 0),
    "batch norm of images": _step_call(
        numbers(3, 2, 3, 4, seed=64), (2, 1, 1), _CHANNEL_DIMS, _CHANNEL_DIMS
    ),
}

backward_steps = Exercise(
    "backward_steps",
    _backward_steps,
    [
        Probe(name, f'd["{step}"]', call, compares=(step,))
        for step in _STEPS
        for name, call in _STEP_CALLS.items()
    ],
    load("backward_steps", _backward_steps),
    returns=_STEPS,
    adapt=_after_a_forward_pass,
    may_shrink_to=lambda call: call.arguments["x"].shape[1] >= 3 or call.arguments["x"].ndim > 2,
    format_call=_format_steps,
)
