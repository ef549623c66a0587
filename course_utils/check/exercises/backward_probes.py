"""Chapter 05: the probes of the backward passes: the results one after the other, then what only some inputs show."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.probes import DOUBLE, GRADIENTS, Call, Probe, Tolerance, integers

__all__ = [
    "channel_probes",
    "one_in_each_channel",
    "one_in_each_row",
    "shares_three_samples",
    "shares_three_values",
    "shares_two_values",
    "trailing_probes",
]

_NARROW = "A float64 input is computed with float32's precision; torch keeps float64, which gradcheck needs."

# Near 10,000 the mean of a set is known to half a unit in the last place, 5e-4, and x̂ no better. Relative to the
# largest element, two-pass forms and torch's own are off by up to 5e-4, E[x²] − E[x]² by 300 and more.
_OFFSET = Tolerance(0.0, 5e-3)


def shares_three_values(call: Call) -> bool:
    """Whether a mean is over three values or more: of two, layer norm leaves only the signs, and dx is 0."""
    return torch.Size(call.arguments["normalized_shape"]).numel() >= 3


def shares_two_values(call: Call) -> bool:
    """Whether a mean square is over two values or more: of one, RMS norm leaves only the sign, and dx is 0."""
    return torch.Size(call.arguments["normalized_shape"]).numel() >= 2


def shares_three_samples(call: Call) -> bool:
    """Whether a channel has three values or more."""
    return call.arguments["x"][:, 0].numel() >= 3


def one_in_each_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every row. (Next to x = 1, 2, 3 a dy of 1, 2, 3 would hide everything: dx is 0.)"""
    return torch.eye(1, shape[-1], dtype=dtype).expand(tuple(shape)).clone()


def one_in_each_channel(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 0, 0, ... in every channel."""
    return torch.eye(shape[0], 1, dtype=dtype).reshape(-1, *[1] * (len(shape) - 1)).expand(tuple(shape)).clone()


def numbers(*shape: int, seed: int, scale: float = 100.0) -> Tensor:
    """Return whole numbers of a ``scale`` next to which epsilon does not show, unless another is asked for."""
    return integers(*shape, seed=seed, scale=scale)


def _gradient(x: Tensor, seed: int) -> Tensor:
    """Return a dy for ``x``, of its scale, that has a mean: zeros would hide what is left out."""
    scale = max(1.0, x.float().abs().max().item() / 9) if x.abs().max() < 5_000 else 1.0
    return integers(*x.shape, seed=seed, scale=scale, offset=2 * scale).to(x.dtype)


def trailing_probes(*, has_mean: bool) -> list[Probe]:
    """Return the probes of layer norm's backward pass, or (without a mean and a bias) of RMS norm's."""

    def call(x: Tensor, letters: str, normalized: int = 1, dy: Tensor | None = None, **others: Any) -> Call:
        shape = tuple(x.shape[x.ndim - normalized :])
        if others.get("weight") is True:
            others["weight"] = (integers(*shape, seed=90) / 4 + 0.125).to(x.dtype)
        dy = _gradient(x, seed=91) if dy is None else dy
        trailing = letters[-normalized:]
        axes = {"dy": letters, "x": letters, "normalized_shape": trailing, "weight": trailing}
        return Call({"dy": dy, "x": x, "normalized_shape": shape, **others}, axes)

    of_the_task = torch.tensor([[1.0, 2.0, 4.0] if has_mean else [3.0, 4.0]])
    plain = {
        "five rows of six": call(numbers(5, 6, seed=1), "BC"),
        "as many rows as features": call(numbers(4, 4, seed=2), "BC"),
        "a batch of sequences": call(numbers(2, 3, 4, seed=3), "BTC"),
        "two normalized axes of three": call(numbers(5, 3, 4, seed=4), "BTC", 2),
        "every axis normalized": call(numbers(3, 4, seed=5), "TC", 2),
        "dy not contiguous": call(numbers(5, 6, seed=6), "BC", dy=_gradient(numbers(6, 5, seed=7), 92).t()),
        "the numbers of the task": call(of_the_task, "BC", dy=one_in_each_row(of_the_task.shape, torch.float32)),
    }
    weighted = {
        "weight": call(numbers(5, 6, seed=10), "BC", weight=True),
        "weights of two axes": call(numbers(2, 3, 4, seed=11), "BTC", 2, weight=True),
    }
    small = {
        "values near 0.001": call(numbers(4, 5, seed=20, scale=2.0**-12), "BC"),
        "values near 0.00001": call(numbers(4, 5, seed=21, scale=2.0**-18), "BC"),
        "eps=0.5": call(numbers(4, 5, seed=22, scale=1.0), "BC", eps=0.5),
        "rows of equal values": call(torch.tensor([[4.0] * 4, [0.0] * 4]), "BC"),
    }
    row = torch.tensor([[256.0, 258.0, 260.0, 262.0], [512.0, 516.0, 520.0, 524.0]]).bfloat16()
    half = [
        _half("bfloat16, values near 128", call(integers(8, 16, seed=30, offset=128.0).bfloat16(), "BC"), rough=True),
        _half("float16, values near 300", call(integers(8, 16, seed=31, scale=64.0).half(), "BC"), rough=True),
    ]
    ones = torch.ones(1024, 4).bfloat16()
    many = call(torch.tensor([[3.0, 5.0, 5.0, 3.0]]).repeat(1024, 1).bfloat16(), "BC", dy=ones)
    others = []
    if has_mean:
        # A mean of 259 is no bfloat16, and neither is 518; (4097² + 4095²) / 2 is no float32.
        half.insert(0, _half("bfloat16, rows near 256", call(row, "BC")))
        far = torch.tensor([[4097.0, 4095.0, 4095.0, 4097.0], [8194.0, 8190.0, 8194.0, 8190.0]])
        others = [
            Probe("rows near 4,096", "large offset", call(far, "BC"), tolerance=_OFFSET),
            Probe(
                "values near 10,000", "large offset",
                call(integers(64, 48, seed=23, scale=0.25, offset=1e4), "BC"), rough=True, tolerance=_OFFSET,
            ),
        ]  # fmt: skip
    else:
        tiny = integers(4, 5, seed=24, scale=2.0**-18, offset=2.0**-19)
        small["eps=0, values near 0.00001"] = call(tiny, "BC", eps=0.0)
        near_zero = (integers(8, 16, seed=32) / 256).bfloat16()
        half.append(_half("bfloat16, values near 0.01", call(near_zero, "BC"), rough=True))
    half_weight = call(integers(4, 8, seed=33).bfloat16(), "BC", weight=True)
    half.append(_half("bfloat16 with weight", half_weight, rough=True))
    double = call(integers(4, 5, seed=34).double(), "BC", weight=True)
    return _in_order(plain, weighted, small, others, half, many, double, has_bias=has_mean)


def channel_probes() -> list[Probe]:
    """Return the probes of batch norm's backward pass."""

    def call(x: Tensor, letters: str, dy: Tensor | None = None, **others: Any) -> Call:
        if others.get("weight") is True:
            others["weight"] = (integers(x.shape[1], seed=90) / 4 + 0.125).to(x.dtype)
        dy = _gradient(x, seed=91) if dy is None else dy
        return Call({"dy": dy, "x": x, **others}, {"dy": letters, "x": letters, "weight": "C"})

    of_the_task = torch.tensor([[1.0], [2.0], [4.0]])
    strided = _gradient(numbers(2, 3, 4, 3, seed=47), 92).permute(0, 3, 1, 2)
    plain = {
        "vectors": call(numbers(8, 3, seed=41), "NC"),
        "as many vectors as channels": call(numbers(4, 4, seed=42), "NC"),
        "signals": call(numbers(4, 3, 5, seed=43), "NCL"),
        "signals as long as channels": call(numbers(4, 5, 5, seed=44), "NCL"),
        "images": call(numbers(3, 2, 3, 4, seed=45), "NCHW"),
        "one image": call(numbers(1, 2, 3, 4, seed=46), "NCHW"),
        "dy not contiguous": call(numbers(2, 3, 3, 4, seed=48), "NCHW", dy=strided),
        "the numbers of the task": call(of_the_task, "NC", dy=one_in_each_channel(of_the_task.shape, torch.float32)),
    }
    weighted = {
        "weight": call(numbers(6, 3, seed=50), "NC", weight=True),
        "weights of images": call(numbers(2, 3, 2, 2, seed=51), "NCHW", weight=True),
        "images as wide as channels": call(numbers(2, 4, 3, 4, seed=52), "NCHW", weight=True),
    }
    small = {
        "values near 0.001": call(numbers(6, 3, seed=53, scale=2.0**-12), "NC"),
        "values near 0.00001": call(numbers(6, 3, seed=54, scale=2.0**-18), "NC"),
        "eps=0.5": call(numbers(6, 3, seed=55, scale=1.0), "NC", eps=0.5),
        "channels of equal values": call(torch.tensor([[4.0, 0.0]] * 4), "NC"),
    }
    far = torch.tensor([[4097.0, 4095.0, 4095.0, 4097.0], [8194.0, 8190.0, 8194.0, 8190.0]]).t().contiguous()
    offset = [
        Probe("channels near 4,096", "large offset", call(far, "NC"), tolerance=_OFFSET),
        Probe(
            "values near 10,000", "large offset",
            call(integers(48, 64, seed=56, scale=0.25, offset=1e4), "NC"), rough=True, tolerance=_OFFSET,
        ),
    ]  # fmt: skip
    column = torch.tensor([[256.0, 258.0, 260.0, 262.0], [512.0, 516.0, 520.0, 524.0]]).t().contiguous().bfloat16()
    half = [
        _half("bfloat16, channels near 256", call(column, "NC")),
        _half(
            "bfloat16, values near 128", call(integers(4, 4, 8, seed=57, offset=128.0).bfloat16(), "NCL"), rough=True
        ),
        _half("float16, values near 300", call(integers(4, 4, 8, seed=58, scale=64.0).half(), "NCL"), rough=True),
        _half("bfloat16 with weight", call(integers(4, 4, 8, seed=59).bfloat16(), "NCL", weight=True), rough=True),
    ]
    alternating = torch.tensor([[3.0, 5.0], [5.0, 3.0]]).repeat(512, 1).bfloat16()
    # dy follows x̂, so that the terms of dweight, too, are all of one sign.
    many = call(alternating, "NC", dy=(alternating - 3))
    double = call(integers(4, 4, 5, seed=60).double(), "NCL", weight=True)
    return _in_order(plain, weighted, small, offset, half, many, double, has_bias=True)


def _half(name: str, call: Call, rough: bool = False) -> Probe:
    x = call.arguments["x"]
    # A gradient computed in half precision from statistics that are not is rounded, and not wrong.
    return Probe(name, "half precision", call, rough=rough, tolerance=GRADIENTS[x.dtype])


def _in_order(
    plain: dict[str, Call],
    weighted: dict[str, Call],
    small: dict[str, Call],
    offset: Sequence[Probe],
    half: Sequence[Probe],
    many: Call,
    double: Call,
    *,
    has_bias: bool,
) -> list[Probe]:
    """Return the probes by stage: the sums, dx, then dx with a weight, each without what the next one looks at."""

    def looking_at(result: str, calls: dict[str, Call], stage: str = "") -> list[Probe]:
        return [Probe(name, stage or result, call, compares=(result,)) for name, call in calls.items()]

    sums = ("dweight", "dbias") if has_bias else ("dweight",)
    return [
        *(looking_at("dbias", plain | weighted) if has_bias else ()),
        *looking_at("dweight", plain | weighted),
        *looking_at("dx", plain),
        *looking_at("dx", weighted, "dx with a weight"),
        *(Probe(name, "epsilon", call) for name, call in small.items()),
        *offset,
        *half,
        Probe("1,024 rows in bfloat16", "sums in half precision", many, compares=sums, rough=True,
              tolerance=GRADIENTS[torch.bfloat16]),
        Probe("float64", "float64", double, remark=_NARROW, remark_beyond=DOUBLE),
    ]  # fmt: skip
