"""What the probes of the five norms share: their stages, and calls over trailing axes, channels, running statistics."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.probes import DOUBLE, Call, Probe, Tolerance, integers

__all__ = [
    "AS_PRINTED", "has_three_values", "in_stages", "numbers", "offset_probe", "pair_probes", "parameters",
    "precision_probes", "running_call", "trailing_call", "trailing_probes", "worked_number",
]  # fmt: skip

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


def trailing_call(x: Tensor, letters: str, normalized: int = 1, **others: Any) -> Call:
    """Return a call that normalizes the last ``normalized`` axes of ``x``; ``True`` for weight or bias makes one up."""
    shape = tuple(x.shape[-normalized:])
    for seed, name in enumerate(("weight", "bias")):
        if others.get(name) is True:
            others[name] = (integers(*shape, seed=50 + seed) / 4 + 0.125).to(x.dtype)
    trailing = letters[-normalized:]
    axes = {"x": letters, "normalized_shape": trailing, "weight": trailing, "bias": trailing}
    return Call({"x": x, "normalized_shape": shape, **others}, axes)


def worked_number(call: Call, name: str = "the worked number", stage: str = "statistics") -> Probe:
    """Return the probe with the example of the task, as exact as it is printed there: epsilon does not show."""
    return Probe(name, stage, call, tolerance=AS_PRINTED)


def has_three_values(call: Call) -> bool:
    """Return whether a row has three values or more: of two, a norm leaves only the signs, and no gradient."""
    return torch.Size(call.arguments["normalized_shape"]).numel() >= 3


def trailing_probes(both: dict[str, Any], ones: dict[str, Any]) -> list[Probe]:
    """Return the probes that layer norm and RMS norm have in common.

    ``both`` asks for a weight, and a bias where there is one; ``ones`` is an affine step that changes nothing.
    """

    def statistics(name: str, x: Tensor, letters: str, normalized: int = 1, **others: Any) -> Probe:
        return Probe(name, "statistics", trailing_call(x, letters, normalized, **others))

    bfloat16 = torch.bfloat16
    return [
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


def parameters(channels: int, dtype: torch.dtype = torch.float32, **chosen: Any) -> dict[str, Any]:
    """Return ``chosen`` with its weight and bias in ``dtype``, made up where they are ``True``."""
    for seed, name in enumerate(("weight", "bias")):
        if name in chosen:
            made_up = integers(channels, seed=60 + seed) / 4 + 0.125
            chosen[name] = (made_up if chosen[name] is True else chosen[name]).to(dtype)
    return chosen


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


def precision_probes(
    call: Callable[..., Call],
    *,
    offset: Call,
    pair: Callable[[Tensor], Call],
    plain: dict[str, Any] | None = None,
) -> list[Probe]:
    """Return the probes of a norm over channels that look at rounding: a large offset, half precision, float64.

    ``call`` makes a call from x, its letters and further arguments: ``plain`` ones, and an affine step.
    """
    plain, both = plain or {}, {"weight": True, "bias": True}

    def probe(name: str, stage: str, x: Tensor, *, rough: bool = True, **others: Any) -> Probe:
        made = call(x.to(torch.bfloat16), "NCHW", **{**plain, **others})
        return Probe(name, stage, made, compares=("output",), rough=rough)

    near_32 = integers(4, 4, 2, 8, seed=71, scale=0.25, offset=32.0)
    near_300 = call(integers(4, 4, 2, 8, seed=72, scale=64.0).half(), "NCHW", **plain)
    large = integers(4, 4, 2, 8, seed=73, scale=16.0)
    small = call(integers(2, 4, 2, 3, seed=74).to(torch.bfloat16), "NCHW", **{**plain, **both})
    float64 = call(integers(4, 4, 5, seed=75).double(), "NCL", **plain)
    return [
        offset_probe(offset),
        *pair_probes(pair),
        probe("bfloat16, values near 32", "half precision", near_32),
        Probe("float16, values near 300", "half precision", near_300, compares=("output",), rough=True),
        probe("bfloat16 with weight", "half-precision affine", large, rough=False, weight=True),
        probe("bfloat16 with weight and bias", "half-precision affine", large, **both),
        Probe("bfloat16 gradients", "half-precision gradient", small, ("x", *both), rough=True),
        Probe("float64", "float64", float64, remark=NARROW, remark_beyond=DOUBLE),
    ]


def running_call(x: Tensor, letters: str, **others: Any) -> Call:
    """Return a call on ``x``; ``running=True`` makes up running statistics, ``True`` for weight or bias those.

    Parameters and buffers are float32 next to a half-precision x, as in mixed-precision training. (With all of them in
    half precision, torch's own batch norm on the CPU keeps its statistics in half precision: no norm to measure by.)
    """
    channels, dtype = x.shape[1], torch.float64 if x.dtype == torch.float64 else torch.float32
    running: dict[str, Any] = {  # of the size that the statistics of large inputs have
        "running_mean": integers(channels, seed=80, scale=20.0).to(dtype),
        "running_var": (integers(channels, seed=81).abs() * 10_000.0 + 50_000.0).to(dtype),
    }
    if not others.pop("running", True):
        running = dict.fromkeys(running)
    axes = {"x": letters} | dict.fromkeys(("running_mean", "running_var", "weight", "bias"), "C")
    return Call({"x": x, **running, **parameters(channels, dtype, **others)}, axes)
