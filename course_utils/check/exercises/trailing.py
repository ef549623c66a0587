"""Chapters 00 to 02, 06 and 10: centring, and the norms over trailing axes; what the probes of all norms share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import DOUBLE, Call, Probe, Tolerance, integers

__all__ = ["centre", "layer_norm", "normalize", "rms_norm"]

AS_PRINTED = Tolerance(0.0, 1e-3)  # a number that a task gives to three digits
NARROW = "A float64 input is computed with float32's precision; torch keeps float64, which gradcheck needs."
LARGE = 100.0  # next to a variance of 3e5, an epsilon of 1e-5 is below float32's rounding, wherever it is put
STAGES = (
    "statistics", "evaluation", "running statistics", "running statistics in evaluation", "no running statistics",
    "epsilon", "affine", "gradient", "large offset", "half precision", "half-precision affine",
    "half-precision gradient", "float64",
)  # fmt: skip


def numbers(*shape: int, seed: int, scale: float = LARGE, offset: float = 0.0) -> Tensor:
    """Return ``integers`` of a ``scale`` next to which epsilon does not show, unless another is asked for."""
    return integers(*shape, seed=seed, scale=scale, offset=offset)


def in_stages(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes in the order of their stages; in one, rough probes last: the first to fail is what is shown."""
    return sorted(probes, key=lambda probe: (STAGES.index(probe.stage), probe.rough))


def offset_probe(call: Call) -> Probe:
    """Return the probe with values near 10,000."""
    # x is exact in float32; its mean is not, by up to half a unit in the last place of 10,000: 5e-4, or 4e-4 of the
    # spread. Two-pass forms and torch's own are off by up to 6e-4, Welford's by 1e-3, E[x²] − E[x]² by 1 and more.
    tolerance = Tolerance(0.0, 5e-3)
    return Probe("values near 10,000", "large offset", call, compares=("output",), rough=True, tolerance=tolerance)


def pair_probes(make: Callable[[Tensor], Call]) -> list[Probe]:
    """Return probes in which a wrong result is the same in whatever order the operations come.

    ``make`` makes a call from two pairs of values, (2, 2), each of which shares its statistics.
    """
    # (4097² + 4095²) / 2 is 4096² + 1, and in float32 the 1 is lost: E[x²] − E[x]² is 0 where the variance is 1.
    far = torch.tensor([[4097.0, 4095.0], [8194.0, 8190.0]])
    # 257 is no bfloat16: the mean of 256 and 258 is rounded to 256, and the pair centred becomes 0 and 2.
    half = torch.tensor([[256.0, 258.0], [512.0, 516.0]], dtype=torch.bfloat16)
    return [
        Probe("pairs near 4,096", "large offset", make(far), compares=("output",)),
        Probe("bfloat16, pairs near 256", "half precision", make(half), compares=("output",)),
    ]


def _centre(x):
    return x - x.mean(-1, keepdim=True)


def _table(name: str, stage: str, x: Tensor, **others: Any) -> Probe:
    return Probe(name, stage, Call({"x": x}, {"x": "BC"}), **others)


centre = Check(
    "centre",
    _centre,
    [
        _table("the worked number", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])),
        _table("two rows of three", "values", torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 40.0]])),
        _table("four rows of four", "values", integers(4, 4, seed=60)),
        _table("five rows of six", "values", integers(5, 6, seed=61)),
        _table("gradient of x", "gradient", integers(3, 4, seed=62), gradients=("x",)),
        _table("float64", "float64", integers(3, 4, seed=63).double() / 7, tolerance=DOUBLE),
    ],
    load("centre", _centre),
    is_possible=lambda call: call.arguments["x"].shape[1] >= 3,
)


def _normalize(x, dims, eps=1e-5):
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    return (x - mean) / std


def in_turn(x, dims, eps=1e-5):
    for dim in (dims,) if isinstance(dims, int) else dims:
        x = _normalize(x, dim, eps)
    return x


def _over(name: str, stage: str, x: Tensor, letters: str, dims, *, eps: float | None = None, **others: Any) -> Probe:
    given = {} if eps is None else {"eps": eps}
    return Probe(name, stage, Call({"x": x, "dims": dims, **given}, {"x": letters}), **others)


def _averages_three_values(call: Call) -> bool:
    x, dims = call.arguments["x"], call.arguments["dims"]
    return x.numel() >= 3 * x.sum(dims).numel()


normalize = Check(
    "normalize",
    _normalize,
    [
        _over("rows of a square table", "statistics", numbers(4, 4, seed=70), "BC", 1),
        _over("a negative dimension", "statistics", numbers(5, 6, seed=71), "BC", -1),
        _over("columns", "statistics", numbers(5, 6, seed=72), "BC", 0),
        _over("both dimensions", "statistics", numbers(3, 4, seed=73), "BC", (0, 1)),
        _over("channels of images", "statistics", numbers(4, 3, 2, 5, seed=74), "BCHW", (0, 2, 3)),
        _over("samples of images", "statistics", numbers(2, 3, 4, 2, seed=75), "BCHW", (-3, -2, -1)),
        _over("the worked number", "epsilon", torch.tensor([[1.0, 3.0], [5.0, 5.0]]), "BC", 1, tolerance=AS_PRINTED),
        _over("values near 0.001", "epsilon", integers(4, 5, seed=76, scale=2.0**-12), "BC", 1),
        _over("eps=0.5", "epsilon", integers(4, 5, seed=77), "BC", 1, eps=0.5),
        _over("rows of equal values", "epsilon", torch.tensor([[4.0] * 4, [0.0] * 4]), "BC", 1),
        _over("gradient of x", "gradient", integers(3, 4, seed=78), "BC", 1, gradients=("x",)),
        _over("float64", "float64", integers(3, 4, seed=79).double() / 7, "BC", 1, tolerance=DOUBLE),
    ],
    load("normalize", _normalize),
    is_possible=_averages_three_values,
)


def trailing_call(x: Tensor, letters: str, normalized: int = 1, **others: Any) -> Call:
    """Return a call that normalizes the last ``normalized`` axes of ``x``; ``True`` for weight or bias makes one up."""
    shape = tuple(x.shape[-normalized:])
    for seed, name in enumerate(("weight", "bias")):
        if others.get(name) is True:
            others[name] = (integers(*shape, seed=50 + seed) / 4 + 0.125).to(x.dtype)
    trailing = letters[-normalized:]
    axes = {"x": letters, "normalized_shape": trailing, "weight": trailing, "bias": trailing}
    return Call({"x": x, "normalized_shape": shape, **others}, axes)


def has_three_values(call: Call) -> bool:
    """Return whether a row has three values or more: of two, a norm leaves only the signs, and no gradient."""
    return torch.Size(call.arguments["normalized_shape"]).numel() >= 3


def _trailing_probes(worked: Tensor, **ones: Any) -> list[Probe]:
    """Return the probes that layer norm and RMS norm have in common.

    ``worked`` is the example of the task, and ``ones`` an affine step that changes nothing.
    """
    both = dict.fromkeys(ones, True)

    def statistics(name: str, x: Tensor, letters: str, normalized: int = 1, **others: Any) -> Probe:
        return Probe(name, "statistics", trailing_call(x, letters, normalized, **others))

    bfloat16 = torch.bfloat16
    return [
        Probe("the worked number", "statistics", trailing_call(worked, "BC"), tolerance=AS_PRINTED),
        statistics("one row of four", torch.tensor([[1.0, 2.0, 3.0, 4.0]]) * LARGE, "BC"),
        statistics("five rows of six", numbers(5, 6, seed=1), "BC"),
        statistics("as many rows as features", numbers(4, 4, seed=2), "BC"),
        statistics("a batch of sequences", numbers(2, 3, 4, seed=3), "BTC"),
        statistics("two normalized axes of three", numbers(5, 3, 4, seed=4), "BTC", 2),
        statistics("two normalized axes of four", numbers(2, 3, 4, 2, seed=5), "BCHW", 2),
        statistics("three normalized axes of four", numbers(3, 2, 4, 2, seed=12), "BCHW", 3),
        statistics("every axis normalized", numbers(3, 4, seed=6), "TC", 2),
        statistics("not contiguous", numbers(6, 5, seed=7).t(), "BC"),
        statistics("an affine step that changes nothing", numbers(5, 6, seed=8), "BC", **ones),
        Probe("values near 0.001", "epsilon", trailing_call(numbers(4, 5, seed=9, scale=2.0**-12), "BC")),
        Probe("values near 0.00001", "epsilon", trailing_call(numbers(4, 5, seed=10, scale=2.0**-18), "BC")),
        Probe("eps=0.5", "epsilon", trailing_call(numbers(4, 5, seed=11, scale=1.0), "BC", eps=0.5)),
        Probe("rows of equal values", "epsilon", trailing_call(torch.tensor([[4.0] * 4, [0.0] * 4]), "BC")),
        Probe("weight", "affine", trailing_call(numbers(5, 6, seed=13), "BC", weight=True)),
        Probe("weights of two axes", "affine", trailing_call(numbers(2, 3, 4, seed=15), "BTC", 2, **both)),
        Probe("gradient of x", "gradient", trailing_call(numbers(5, 6, seed=17, scale=1.0), "BC"), ("x",)),
        Probe("gradients with weights", "gradient",
              trailing_call(numbers(2, 3, 4, seed=18, scale=1.0), "BTC", 2, **both), ("x", *both)),
        Probe("bfloat16, values near 32", "half precision",
              trailing_call(integers(8, 16, seed=21, scale=0.25, offset=32.0).to(bfloat16), "BC"), rough=True),
        Probe("float16, values near 300", "half precision",
              trailing_call(integers(8, 16, seed=22, scale=64.0).half(), "BC"), rough=True),
        Probe("bfloat16 with weight", "half-precision affine",
              trailing_call(integers(16, 16, seed=23, scale=16.0).to(bfloat16), "BC", weight=True)),
        Probe("bfloat16 gradients", "half-precision gradient",
              trailing_call(integers(4, 8, seed=24).to(bfloat16), "BC", **both), ("x", *both), rough=True),
        Probe("float64", "float64", trailing_call(integers(4, 5, seed=25).double(), "BC"),
              remark=NARROW, remark_beyond=DOUBLE),
    ]  # fmt: skip


def _layer_norm_in_steps(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = z.mean(dims, keepdim=True)
    variance = (z - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


_BOTH = {"weight": True, "bias": True}
_HALF_ROWS = integers(16, 16, seed=23, scale=16.0).bfloat16()

layer_norm = Check(
    "layer_norm",
    _layer_norm,
    in_stages(
        [
            *_trailing_probes(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), weight=torch.ones(6), bias=torch.zeros(6)),
            Probe("bias", "affine", trailing_call(numbers(5, 6, seed=14), "BC", bias=True)),
            Probe("bfloat16 with weight and bias", "half-precision affine", trailing_call(_HALF_ROWS, "BC", **_BOTH),
                  rough=True),
            Probe("weight and bias", "affine", trailing_call(numbers(5, 6, seed=16), "BC", **_BOTH)),
            offset_probe(trailing_call(integers(64, 48, seed=20, scale=0.25, offset=1e4), "BC")),
            *pair_probes(lambda values: trailing_call(values, "BC")),
        ]
    ),
    load("layer_norm", _layer_norm_in_steps),
    is_possible=has_three_values,
)  # fmt: skip


def _rms_norm_in_steps(x, normalized_shape, weight=None, eps=None):
    dims = tuple(range(-len(normalized_shape), 0))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if eps is None else eps
    variance = z.square().mean(dims, keepdim=True)  # as Llama's code calls the mean square
    std = torch.sqrt(variance + eps)
    y = z / std
    y = y if weight is None else y * weight
    return y.to(x.dtype)


def _rms_norm(x, normalized_shape, weight=None, eps=None):
    return F.rms_norm(x, normalized_shape, weight, eps)


def spell_out_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for: that of the dtype torch computes in."""
    eps = torch.finfo(torch.promote_types(call.arguments["x"].dtype, torch.float32)).eps
    return call.replace(eps=eps) if call.arguments.get("eps") is None else call


_TINY = integers(4, 5, seed=30, scale=2.0**-18, offset=2.0**-19)
_PAIR = torch.tensor([[300.0, 400.0]]).half()  # 300² is infinite in float16, and so is the mean square
_SMALL = (integers(8, 16, seed=31) / 256).bfloat16()

rms_norm = Check(
    "rms_norm",
    _rms_norm,
    in_stages(
        [
            *_trailing_probes(torch.tensor([[3.0, 4.0]]), weight=torch.ones(6)),
            Probe("eps=0, values near 0.00001", "epsilon", trailing_call(_TINY, "BC", eps=0.0)),
            Probe("float16, a pair near 300", "half precision", trailing_call(_PAIR, "BC")),
            Probe("bfloat16, values near 0.01", "half precision", trailing_call(_SMALL, "BC"), rough=True),
        ]
    ),
    load("rms_norm", _rms_norm_in_steps),
    spell_out=spell_out_eps,
    is_possible=has_three_values,
)
