"""Chapter 05: the backward passes of layer, batch and RMS norm."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.channels import parameters
from course_utils.check.exercises.trailing import NARROW, has_three_values, numbers, spell_out_eps, trailing_call
from course_utils.check.probes import DOUBLE, GRADIENTS, Call, Probe, Tolerance, integers
from course_utils.check.report import shown_tensor

__all__ = ["backward_steps", "batch_norm_backward", "layer_norm_backward", "rms_norm_backward"]

# Near 10,000 the mean of a set is known to half a unit in the last place, 5e-4, and x̂ no better. Relative to the
# largest element, two-pass forms and torch's own are off by up to 5e-4, E[x²] − E[x]² by 300 and more.
_OFFSET = Tolerance(0.0, 5e-3)
# A mean of 259 is no bfloat16, and neither is 518; (4097² + 4095²) / 2 is no float32.
_NEAR_256 = torch.tensor([[256.0, 258.0, 260.0, 262.0], [512.0, 516.0, 520.0, 524.0]]).bfloat16()
_NEAR_4096 = torch.tensor([[4097.0, 4095.0, 4095.0, 4097.0], [8194.0, 8190.0, 8194.0, 8190.0]])


def _one_in_each_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every row. (Next to x = 1, 2, 3 a dy of 1, 2, 3 would hide everything: dx is 0.)"""
    return torch.eye(1, shape[-1], dtype=dtype).expand(tuple(shape)).clone()


def _one_in_each_channel(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every channel."""
    return torch.eye(shape[0], 1, dtype=dtype).reshape(-1, *[1] * (len(shape) - 1)).expand(tuple(shape)).clone()


def _gradient(x: Tensor, seed: int = 91) -> Tensor:
    """Return a dy for ``x``, of its scale, that has a mean: zeros would hide what is left out."""
    scale = max(1.0, x.float().abs().max().item() / 9) if x.abs().max() < 5_000 else 1.0
    return integers(*x.shape, seed=seed, scale=scale, offset=2 * scale).to(x.dtype)


def _rows(x: Tensor, letters: str, normalized: int = 1, dy: Tensor | None = None, **others: Any) -> Call:
    """Return a call that normalizes the last ``normalized`` axes of ``x``; ``weight=True`` makes one up."""
    forward = trailing_call(x, letters, normalized, **others)
    arguments = {"dy": _gradient(x) if dy is None else dy, **forward.arguments}
    return Call(arguments, {"dy": letters, **forward.axes})


def _channels(x: Tensor, letters: str, dy: Tensor | None = None, **others: Any) -> Call:
    """Return a call that normalizes every channel of ``x``; ``weight=True`` makes one up."""
    arguments = {"dy": _gradient(x) if dy is None else dy, "x": x, **parameters(x.shape[1], x.dtype, **others)}
    return Call(arguments, {"dy": letters, "x": letters, "weight": "C"})


def _half(name: str, call: Call, rough: bool = True) -> Probe:
    # A gradient computed in half precision from statistics that are not is rounded, and not wrong.
    return Probe(name, "half precision", call, rough=rough, tolerance=GRADIENTS[call.arguments["x"].dtype])


def _offset(name: str, call: Call, rough: bool = False) -> Probe:
    return Probe(name, "large offset", call, rough=rough, tolerance=_OFFSET)


def _in_order(
    plain: dict[str, Call],
    weighted: dict[str, Call],
    small: dict[str, Call],
    rounded: Sequence[Probe],
    many: Call,
    double: Call,
    *,
    sums: Sequence[str] = ("dbias", "dweight"),
) -> list[Probe]:
    """Return the probes by stage: the sums, dx, then dx with a weight, each without what the next one looks at."""

    def looking_at(result: str, calls: dict[str, Call], stage: str) -> list[Probe]:
        return [Probe(name, stage, call, compares=(result,)) for name, call in calls.items()]

    return [
        *(probe for result in sums for probe in looking_at(result, plain | weighted, result)),
        *looking_at("dx", plain, "dx"),
        *looking_at("dx", weighted, "dx with a weight"),
        *(Probe(name, "epsilon", call) for name, call in small.items()),
        *rounded,
        Probe("1,024 rows in bfloat16", "sums in half precision", many, compares=sums, rough=True,
              tolerance=GRADIENTS[torch.bfloat16]),
        Probe("float64", "float64", double, remark=NARROW, remark_beyond=DOUBLE),
    ]  # fmt: skip


def _trailing_probes(*, has_mean: bool) -> list[Probe]:
    """Return the probes of layer norm's backward pass, or (without a mean and a bias) of RMS norm's."""
    of_the_task = torch.tensor([[1.0, 2.0, 4.0] if has_mean else [3.0, 4.0]])
    plain = {
        "five rows of six": _rows(numbers(5, 6, seed=1), "BC"),
        "as many rows as features": _rows(numbers(4, 4, seed=2), "BC"),
        "a batch of sequences": _rows(numbers(2, 3, 4, seed=3), "BTC"),
        "two normalized axes of three": _rows(numbers(5, 3, 4, seed=4), "BTC", 2),
        "every axis normalized": _rows(numbers(3, 4, seed=5), "TC", 2),
        "dy not contiguous": _rows(numbers(5, 6, seed=6), "BC", dy=_gradient(numbers(6, 5, seed=7), 92).t()),
        "the numbers of the task": _rows(of_the_task, "BC", dy=_one_in_each_row(of_the_task.shape, torch.float32)),
    }
    weighted = {
        "weight": _rows(numbers(5, 6, seed=10), "BC", weight=True),
        "weights of two axes": _rows(numbers(2, 3, 4, seed=11), "BTC", 2, weight=True),
    }
    small = {
        "values near 0.001": _rows(numbers(4, 5, seed=20, scale=2.0**-12), "BC"),
        "values near 0.00001": _rows(numbers(4, 5, seed=21, scale=2.0**-18), "BC"),
        "eps=0.5": _rows(numbers(4, 5, seed=22, scale=1.0), "BC", eps=0.5),
        "rows of equal values": _rows(torch.tensor([[4.0] * 4, [0.0] * 4]), "BC"),
    }
    half = [
        _half("bfloat16, values near 128", _rows(integers(8, 16, seed=30, offset=128.0).bfloat16(), "BC")),
        _half("float16, values near 300", _rows(integers(8, 16, seed=31, scale=64.0).half(), "BC")),
        _half("bfloat16 with weight", _rows(integers(4, 8, seed=33).bfloat16(), "BC", weight=True)),
    ]
    many = _rows(
        torch.tensor([[3.0, 5.0, 5.0, 3.0]]).repeat(1024, 1).bfloat16(), "BC", dy=torch.ones(1024, 4).bfloat16()
    )
    double = _rows(integers(4, 5, seed=34).double(), "BC", weight=True)
    if has_mean:
        rounded = [
            _offset("rows near 4,096", _rows(_NEAR_4096, "BC")),
            _offset("values near 10,000", _rows(integers(64, 48, seed=23, scale=0.25, offset=1e4), "BC"), rough=True),
            _half("bfloat16, rows near 256", _rows(_NEAR_256, "BC"), rough=False),
        ]
        return _in_order(plain, weighted, small, [*rounded, *half], many, double)
    small["eps=0, values near 0.00001"] = _rows(integers(4, 5, seed=24, scale=2.0**-18, offset=2.0**-19), "BC", eps=0.0)
    half.append(_half("bfloat16, values near 0.01", _rows((integers(8, 16, seed=32) / 256).bfloat16(), "BC")))
    return _in_order(plain, weighted, small, half, many, double, sums=("dweight",))


def _channel_probes() -> list[Probe]:
    """Return the probes of batch norm's backward pass."""
    of_the_task = torch.tensor([[1.0], [2.0], [4.0]])
    strided = _gradient(numbers(2, 3, 4, 3, seed=47), 92).permute(0, 3, 1, 2)
    plain = {
        "vectors": _channels(numbers(8, 3, seed=41), "NC"),
        "as many vectors as channels": _channels(numbers(4, 4, seed=42), "NC"),
        "signals": _channels(numbers(4, 3, 5, seed=43), "NCL"),
        "signals as long as channels": _channels(numbers(4, 5, 5, seed=44), "NCL"),
        "images": _channels(numbers(3, 2, 3, 4, seed=45), "NCHW"),
        "one image": _channels(numbers(1, 2, 3, 4, seed=46), "NCHW"),
        "dy not contiguous": _channels(numbers(2, 3, 3, 4, seed=48), "NCHW", dy=strided),
        "the numbers of the task": _channels(of_the_task, "NC", dy=_one_in_each_channel((3, 1), torch.float32)),
    }
    weighted = {
        "weight": _channels(numbers(6, 3, seed=50), "NC", weight=True),
        "weights of images": _channels(numbers(2, 3, 2, 2, seed=51), "NCHW", weight=True),
        "images as wide as channels": _channels(numbers(2, 4, 3, 4, seed=52), "NCHW", weight=True),
    }
    small = {
        "values near 0.001": _channels(numbers(6, 3, seed=53, scale=2.0**-12), "NC"),
        "values near 0.00001": _channels(numbers(6, 3, seed=54, scale=2.0**-18), "NC"),
        "eps=0.5": _channels(numbers(6, 3, seed=55, scale=1.0), "NC", eps=0.5),
        "channels of equal values": _channels(torch.tensor([[4.0, 0.0]] * 4), "NC"),
    }
    near_10000 = integers(48, 64, seed=56, scale=0.25, offset=1e4)
    rounded = [
        _offset("channels near 4,096", _channels(_NEAR_4096.t().contiguous(), "NC")),
        _offset("values near 10,000", _channels(near_10000, "NC"), rough=True),
        _half("bfloat16, channels near 256", _channels(_NEAR_256.t().contiguous(), "NC"), rough=False),
        _half("bfloat16, values near 128", _channels(integers(4, 4, 8, seed=57, offset=128.0).bfloat16(), "NCL")),
        _half("float16, values near 300", _channels(integers(4, 4, 8, seed=58, scale=64.0).half(), "NCL")),
        _half("bfloat16 with weight", _channels(integers(4, 4, 8, seed=59).bfloat16(), "NCL", weight=True)),
    ]
    alternating = torch.tensor([[3.0, 5.0], [5.0, 3.0]]).repeat(512, 1).bfloat16()
    many = _channels(alternating, "NC", dy=alternating - 3)  # dy follows x̂: all terms of dweight are of one sign
    double = _channels(integers(4, 4, 5, seed=60).double(), "NCL", weight=True)
    return _in_order(plain, weighted, small, rounded, many, double)


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


layer_norm_backward = Check(
    "layer_norm_backward",
    _layer_norm_backward,
    _trailing_probes(has_mean=True),
    load("layer_norm_backward", _layer_norm_backward),
    returns=("dx", "dweight", "dbias"),
    is_possible=has_three_values,
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


batch_norm_backward = Check(
    "batch_norm_backward",
    _batch_norm_backward,
    _channel_probes(),
    load("batch_norm_backward", _batch_norm_backward),
    returns=("dx", "dweight", "dbias"),
    is_possible=lambda call: call.arguments["x"][:, 0].numel() >= 3,
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


rms_norm_backward = Check(
    "rms_norm_backward",
    _rms_norm_backward,
    _trailing_probes(has_mean=False),
    load("rms_norm_backward", _rms_norm_backward),
    returns=("dx", "dweight"),
    spell_out=spell_out_eps,
    is_possible=lambda call: torch.Size(call.arguments["normalized_shape"]).numel() >= 2,
    simplest={"dy": _one_in_each_row},
)


_STEPS = ("bias", "weight", "x_hat", "rstd", "variance", "centred", "mean", "x")  # in the order of the way back


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
    """Return ``function`` of named steps as one of the forward pass's inputs; a gradient it leaves out is NaN."""

    def gradients(dy, x, weight, bias, dims, rows):
        centred = x - (mean := x.mean(dims, keepdim=True))
        rstd = ((variance := centred.square().mean(dims, keepdim=True)) + 1e-5) ** -0.5
        steps = {"x": x, "weight": weight, "bias": bias, "mean": mean, "centred": centred, "variance": variance,
                 "rstd": rstd, "x_hat": centred * rstd, "y": weight * centred * rstd + bias}  # fmt: skip
        d = function(dy, steps, dims, rows)
        return tuple(d.get(name, torch.full_like(steps[name], torch.nan)) for name in _STEPS) if type(d) is dict else d

    return gradients


def _shown_steps(call: Call) -> list[str]:
    at = {name: call.arguments[name] for name in ("dims", "rows")}
    line = "backward_steps(dy, forward_steps(x, weight, bias, {dims}), {dims}, {rows})".format(**at)
    return [line, *(f"{name} = {shown_tensor(value)}" for name, value in call.tensors())]


def _step_calls() -> dict[str, Call]:
    """Return layer norms of rows and a batch norm of images, with parameters and a dy that hide nothing."""

    def call(x: Tensor, letters: str, size: Sequence[int], dims: Any, rows: Any) -> Call:
        affine = parameters(torch.Size(size).numel(), x.dtype, weight=True, bias=True)
        arguments = {"dy": _gradient(x), "x": x, **{name: value.reshape(tuple(size)) for name, value in affine.items()}}
        names = letters[1] + "ij"[: len(size) - 1]
        return Call({**arguments, "dims": dims, "rows": rows}, {"dy": letters, "x": letters, "weight": names,
                                                               "bias": names})  # fmt: skip

    channels = (0, 2, 3)
    return {
        "five rows of six": call(numbers(5, 6, seed=61), "BC", (6,), -1, 0),
        "as many rows as features": call(numbers(4, 4, seed=62), "BC", (4,), -1, 0),
        "rows near 0.004": call(numbers(4, 5, seed=63, scale=2.0**-10), "BC", (5,), -1, 0),
        "batch norm of images": call(numbers(3, 2, 3, 4, seed=64), "NCHW", (2, 1, 1), channels, channels),
    }


backward_steps = Check(
    "backward_steps",
    _backward_steps,
    [Probe(name, f'd["{step}"]', call, compares=(step,)) for step in _STEPS for name, call in _step_calls().items()],
    load("backward_steps", _backward_steps),
    returns=_STEPS,
    flatten=_after_a_forward_pass,
    is_possible=lambda call: call.arguments["x"].shape[1] >= 3 or call.arguments["x"].ndim > 2,
    shown=_shown_steps,
)
