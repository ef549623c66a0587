"""What the exercises on norms share: a table of inputs, by what each looks at, and how a norm is
called on them.

Chapters 02, 03, 05 and 06. The mistakes that these exercises share are in mistakes/norms.toml.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from course_utils.check.probes import DOUBLE, Call, Probe, Tolerance, integers, read_probes

__all__ = [
    "AS_PRINTED", "LAYER", "NARROW", "RMS", "Norm", "channel_call", "epsilon_calls", "fill_eps",
    "has_three_values", "identity", "in_stages", "norm_probes", "numbers", "running_call",
    "shared_probes", "trailing_call", "trailing_probes",
]  # fmt: skip

AS_PRINTED = Tolerance(0.0, 1e-3)  # a number that a task gives to three digits
NARROW = (
    "A float64 input is computed with float32's precision; torch keeps float64, which gradcheck "
    "needs."
)
# next to a variance of 3e5, an epsilon of 1e-5 is below float32's rounding, wherever it is put
LARGE = 100.0
STAGES = (
    "statistics", "evaluation", "running statistics", "running statistics in "
                                                      "evaluation", "no running statistics",
    "epsilon", "affine", "gradient", "large offset", "half precision", "half-precision affine",
    "half-precision gradient", "float64",
)  # fmt: skip

# x is exact in float32; its mean is not, by up to half a unit in the last place of 10,000: 5e-4, or
# 4e-4 of the spread. Two-pass forms and torch's own are off by up to 6e-4, Welford's by 1e-3, E[x²]
# − E[x]² by 1 and more.
_OFFSET = Tolerance(0.0, 5e-3)
# Pairs in which a wrong result is the same in whatever order the operations come. (4097² + 4095²) /
# 2 is 4096² + 1, and in float32 the 1 is lost: E[x²] − E[x]² is 0 where the variance is 1.
_NEAR_4096 = torch.tensor([[4097.0, 4095.0], [8194.0, 8190.0]])
# 257 is no bfloat16: the mean of 256 and 258 is rounded to 256, and the pair centred becomes 0 and
# 2.
_NEAR_256 = torch.tensor([[256.0, 258.0], [512.0, 516.0]], dtype=torch.bfloat16)


def numbers(*shape: int, seed: int, scale: float = LARGE, offset: float = 0.0) -> Tensor:
    """Return ``integers`` of a ``scale`` next to which epsilon does not show, unless another is
    asked for."""
    return integers(*shape, seed=seed, scale=scale, offset=offset)


def shared_probes(inputs: str, call: Callable[..., Call]) -> list[Probe]:
    """Return the probes of statistics that norms share: "rows", "more_rows" or "channels"."""
    return read_probes(__file__, inputs, call)


@dataclass(frozen=True)
class Norm:
    """How a norm is called, and the sizes of its inputs."""

    # makes a call from x and further arguments; ``weight=True`` makes up a weight
    call: Callable[..., Call]
    sets: str  # what shares a mean
    equal: Tensor  # in which each of these is of equal values
    small: Sequence[int]  # a size where epsilon is looked at, and the gradient,
    weighted: Sequence[int]  # where the affine step is,
    wide: Sequence[int]  # where all gradients are, with
    wide_arguments: Mapping[str, Any] = field(default_factory=dict)
    half: Sequence[int] = (4, 4, 2, 8)  # where half precision is, and
    half_gradient: Sequence[int] = (2, 4, 2, 3)  # its gradients
    parameters: Sequence[str] = ("weight", "bias")
    half_call: Callable[..., Call] | None = (
        None  # makes the calls that look at half precision, if others do
    )
    offset: Call | None = None  # values near 10,000; None for a norm without a mean,
    pairs: Callable[[Tensor], Call] | None = (
        None  # as are two pairs of values, each of which shares its statistics
    )


def norm_probes(norm: Norm) -> list[Probe]:
    """Return the probes that look at the same in every norm: epsilon, affine step, gradients,
    precision."""
    both = dict.fromkeys(norm.parameters, True)
    tracked = ("x", *norm.parameters)
    half = norm.half_call or norm.call

    def output(name: str, stage: str, call: Call, **others: Any) -> Probe:
        return Probe(name, stage, call, compares=("output",), **others)

    near_32 = integers(*norm.half, seed=21, scale=0.25, offset=32.0).bfloat16()
    near_300 = integers(*norm.half, seed=22, scale=64.0).half()
    large = integers(*norm.half, seed=23, scale=16.0).bfloat16()
    small = integers(*norm.half_gradient, seed=24).bfloat16()
    wide = numbers(*norm.wide, seed=18, scale=1.0)
    double = integers(*norm.half, seed=25).double()
    probes = [
        *(output(name, "epsilon", call) for name, call in epsilon_calls(norm).items()),
        output("weight", "affine", norm.call(numbers(*norm.weighted, seed=13), weight=True)),
        Probe(
            "gradient of x", "gradient", norm.call(numbers(*norm.small, seed=17, scale=1.0)), ("x",)
        ),
        Probe(
            "gradients with weights",
            "gradient",
            norm.call(wide, **norm.wide_arguments, **both),
            tracked,
        ),
        output("bfloat16, values near 32", "half precision", half(near_32), rough=True),
        output("float16, values near 300", "half precision", half(near_300), rough=True),
        output("bfloat16 with weight", "half-precision affine", half(large, weight=True)),
        Probe(
            "bfloat16 gradients",
            "half-precision gradient",
            half(small, **both),
            tracked,
            rough=True,
        ),
        Probe("float64", "float64", half(double), remark=NARROW, remark_beyond=DOUBLE),
    ]
    if "bias" in both:
        probes += [
            output("bias", "affine", norm.call(numbers(*norm.weighted, seed=14), bias=True)),
            output(
                "bfloat16 with weight and bias",
                "half-precision affine",
                half(large, **both),
                rough=True,
            ),
        ]
    if norm.offset and norm.pairs:
        probes += [
            output(
                "values near 10,000", "large offset", norm.offset, rough=True, tolerance=_OFFSET
            ),
            output("pairs near 4,096", "large offset", norm.pairs(_NEAR_4096)),
            output("bfloat16, pairs near 256", "half precision", norm.pairs(_NEAR_256)),
        ]
    return probes


def epsilon_calls(norm: Norm) -> dict[str, Call]:
    """Return calls in which epsilon makes a difference."""
    return {
        "values near 0.001": norm.call(numbers(*norm.small, seed=9, scale=2.0**-12)),
        "values near 0.00001": norm.call(numbers(*norm.small, seed=10, scale=2.0**-18)),
        "eps=0.5": norm.call(numbers(*norm.small, seed=11, scale=1.0), eps=0.5),
        f"{norm.sets} of equal values": norm.call(norm.equal),
    }


def in_stages(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes in the order of their stages; in one, rough probes last: the first to fail
    is what is shown."""
    return sorted(probes, key=lambda probe: (STAGES.index(probe.stage), probe.rough))


def with_affine(
    shape: Sequence[int], dtype: torch.dtype, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments with weight and bias in ``dtype``, made up where they are ``True``."""
    for seed, name in enumerate(("weight", "bias")):
        if name in arguments:
            made_up = integers(*shape, seed=60 + seed) / 4 + 0.125
            value = made_up if arguments[name] is True else arguments[name]
            arguments[name] = value.to(dtype)
    return arguments


def trailing_call(
    x: Tensor, normalized: int = 1, dtype: torch.dtype | None = None, **arguments: Any
) -> Call:
    """Return a call that normalizes the last ``normalized`` axes of ``x``, whose parameters are of
    ``dtype``, by default that of ``x``."""
    shape = tuple(x.shape[-normalized:])
    letters = "ABCD"[: x.ndim]
    axes = {"x": letters} | dict.fromkeys(
        ("normalized_shape", "weight", "bias"), letters[-normalized:]
    )
    affine = with_affine(shape, dtype or x.dtype, arguments)
    return Call({"x": x, "normalized_shape": shape, **affine}, axes)


def channel_call(x: Tensor, dtype: torch.dtype | None = None, **arguments: Any) -> Call:
    """Return a call on ``x`` (N, C, ...), whose parameters are of ``dtype``, by default that of
    ``x``."""
    axes = {"x": "NCDHW"[: x.ndim]} | dict.fromkeys(
        ("running_mean", "running_var", "weight", "bias"), "C"
    )
    return Call({"x": x, **with_affine(x.shape[1:2], dtype or x.dtype, arguments)}, axes)


def running_call(x: Tensor, running: bool = True, **arguments: Any) -> Call:
    """Return a call on ``x`` (N, C, ...) with running statistics, or None for them.

    Parameters and buffers are float32 next to a half-precision x, as in mixed-precision training.
    (With all of them in half precision, torch's own batch norm on the CPU keeps its statistics in
    half precision: no norm to measure by.)
    """
    channels, dtype = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    statistics: dict[str, Any] = {"running_mean": None, "running_var": None}
    if running:  # of the size that the statistics of large inputs have
        statistics["running_mean"] = integers(channels, seed=80, scale=20.0).to(dtype)
        statistics["running_var"] = (integers(channels, seed=81).abs() * 10_000.0 + 50_000.0).to(
            dtype
        )
    return channel_call(x, dtype, **{**statistics, **arguments})


LAYER = Norm(
    trailing_call,
    "rows",
    equal=torch.tensor([[4.0] * 4, [0.0] * 4]),
    small=(4, 5),
    weighted=(5, 6),
    wide=(2, 3, 4),
    wide_arguments={"normalized": 2},
    half=(8, 16),
    half_gradient=(4, 8),
    offset=trailing_call(integers(64, 48, seed=20, scale=0.25, offset=1e4)),
    pairs=trailing_call,
)
RMS = replace(LAYER, parameters=("weight",), offset=None, pairs=None)


def trailing_probes(norm: Norm, worked: Tensor) -> list[Probe]:
    """Return the probes of a norm over trailing axes; ``worked`` is the example of the task."""
    one_row = torch.tensor([[100.0, 200.0, 300.0, 400.0]])
    return [
        Probe("the worked number", "statistics", trailing_call(worked), tolerance=AS_PRINTED),
        Probe("one row of four", "statistics", trailing_call(one_row)),
        *shared_probes("rows", trailing_call),
        *shared_probes("more_rows", trailing_call),
        *norm_probes(norm),
    ]


def identity(size: int) -> dict[str, Any]:
    """Return the weight and the bias of an affine step that changes nothing."""
    return {"weight": torch.ones(size), "bias": torch.zeros(size)}


def has_three_values(call: Call) -> bool:
    """Return whether a row has three values or more: of two, a norm leaves only the signs, and no
    gradient."""
    return torch.Size(call.arguments["normalized_shape"]).numel() >= 3


def fill_eps(call: Call) -> Call:
    """Return the call with the epsilon that eps=None stands for: that of the dtype torch computes
    in."""
    eps = torch.finfo(torch.promote_types(call.arguments["x"].dtype, torch.float32)).eps
    return call.replace(eps=eps) if call.arguments.get("eps") is None else call
