"""Chapters 03 and 06: batch, group and instance norm: statistics over groups of channels."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.trailing import AS_PRINTED, NARROW, in_stages, numbers, offset_probe, pair_probes
from course_utils.check.probes import DOUBLE, Call, Probe, integers

__all__ = ["batch_norm", "group_norm", "instance_norm"]


def parameters(channels: int, dtype: torch.dtype = torch.float32, **chosen: Any) -> dict[str, Any]:
    """Return ``chosen`` with its weight and bias in ``dtype``, made up where they are ``True``."""
    for seed, name in enumerate(("weight", "bias")):
        if name in chosen:
            made_up = integers(channels, seed=60 + seed) / 4 + 0.125
            chosen[name] = (made_up if chosen[name] is True else chosen[name]).to(dtype)
    return chosen


def _precision_probes(
    call: Callable[..., Call], offset: Call, pair: Callable[[Tensor], Call], **plain: Any
) -> list[Probe]:
    """Return the probes of a norm over channels that look at rounding: a large offset, half precision, float64.

    ``call`` makes a call from x, its letters and further arguments: ``plain`` ones, and an affine step.
    """
    both = {"weight": True, "bias": True}

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


def _running(x: Tensor, letters: str, **others: Any) -> Call:
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


def _batch_norm_in_steps(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims = (0, *range(2, x.ndim))  # all but the channels
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if training:
        mean = z.mean(dims, keepdim=True)
        variance = (z - mean).square().mean(dims, keepdim=True)
    else:
        mean, variance = running_mean.reshape(column), running_var.reshape(column)
    if training and running_mean is not None:
        values = z.transpose(0, 1).flatten(1)  # (C, n)
        batch_mean, batch_var = values.mean(-1), values.var(-1)
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * batch_mean)
            running_var.copy_((1 - momentum) * running_var + momentum * batch_var)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def _batch_norm_probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)

    def probe(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _running(x, letters, training=True, **others), gradients)

    def output(name: str, stage: str, x: Tensor, letters: str, *, training: Any = True, **others: Any) -> Probe:
        return Probe(name, stage, _running(x, letters, training=training, **others), compares=("output",))

    def frozen(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _running(x, letters, **others), gradients)

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20)}
    transposed = numbers(2, 3, 4, 3, seed=7).permute(0, 3, 1, 2)
    half = _running(numbers(4, 3, seed=13).bfloat16(), "NC")
    fresh = {"running_mean": torch.zeros(1), "running_var": torch.ones(1)}
    worked = _running(torch.tensor([[1.0], [3.0]]), "NC", training=True, **fresh)
    return in_stages(
        [
            output("vectors", "statistics", numbers(8, 3, seed=1), "NC"),
            output("signals", "statistics", numbers(4, 3, 5, seed=2), "NCL"),
            output("signals as long as channels", "statistics", numbers(4, 5, 5, seed=3), "NCL"),
            output("images", "statistics", numbers(3, 2, 3, 4, seed=4), "NCHW"),
            output("one image", "statistics", numbers(1, 2, 3, 4, seed=5), "NCHW"),
            output("volumes", "statistics", numbers(2, 2, 2, 2, 3, seed=6), "NCDHW"),
            output("not contiguous", "statistics", transposed, "NCHW"),
            output("an affine step that changes nothing", "statistics", numbers(8, 3, seed=8), "NC", **ones),
            output("vectors, evaluation", "evaluation", numbers(4, 3, seed=10), "NC", training=False),
            output("one vector, evaluation", "evaluation", numbers(1, 3, seed=11), "NC", training=False),
            output("images, evaluation", "evaluation", numbers(2, 4, 3, 4, seed=12), "NCHW", training=False),
            frozen("evaluation, no step", "running statistics in evaluation", numbers(4, 3, seed=10), "NC"),
            Probe("the worked number", "running statistics", worked, tolerance=AS_PRINTED),
            probe("vectors, one step", "running statistics", numbers(4, 3, seed=14), "NC"),
            probe("two vectors, one step", "running statistics", numbers(2, 3, seed=15), "NC"),
            probe("images, one step", "running statistics", numbers(3, 2, 2, 3, seed=16), "NCHW"),
            probe("momentum=0.5", "running statistics", numbers(4, 3, seed=17), "NC", momentum=0.5),
            probe("running_mean=None", "no running statistics", numbers(4, 3, seed=18), "NC", running=False),
            output("values near 0.001", "epsilon", numbers(6, 3, seed=20, scale=2.0**-12), "NC"),
            output("values near 0.00001", "epsilon", numbers(6, 3, seed=21, scale=2.0**-18), "NC"),
            output("eps=0.5", "epsilon", numbers(6, 3, seed=22, scale=1.0), "NC", eps=0.5),
            output("channels of equal values", "epsilon", torch.full((4, 3), 4.0), "NC"),
            frozen("small running_var", "epsilon", numbers(4, 3, seed=24, scale=2.0**-10), "NC", **small),
            output("weight", "affine", numbers(4, 3, 5, seed=25), "NCL", weight=True),
            output("bias", "affine", numbers(4, 3, 5, seed=26), "NCL", bias=True),
            output("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", **both),
            output("vectors with weights", "affine", numbers(6, 3, seed=28), "NC", **both),
            frozen("weights in evaluation", "affine", numbers(2, 3, 4, seed=29), "NCL", **both),
            probe("gradient of x", "gradient", numbers(6, 3, seed=30, scale=1.0), "NC", ("x",)),
            probe("weights, gradients", "gradient", numbers(2, 3, 2, 2, seed=31, scale=1.0), "NCHW", tracked, **both),
            frozen("gradients in evaluation", "gradient", numbers(4, 3, seed=32), "NC", tracked, **both),
            *_precision_probes(
                _running,
                offset=_running(numbers(48, 64, seed=33, scale=0.25, offset=1e4), "NC", training=True),
                pair=lambda values: _running(values.t().contiguous(), "NC", training=True),
                training=True,
            ),
            Probe("bfloat16, evaluation", "half precision", half, compares=("output",), rough=True),
        ]
    )


def _has_three_values(call: Call) -> bool:
    x = call.arguments["x"]
    return x.numel() >= 3 * x.shape[1] or not call.arguments.get("training")


batch_norm = Check(
    "batch_norm",
    _batch_norm,
    _batch_norm_probes(),
    load("batch_norm", _batch_norm_in_steps),
    updates=("running_mean", "running_var"),
    is_possible=_has_three_values,
)


def _group_norm_in_steps(x, num_groups, weight=None, bias=None, eps=1e-5):
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    z = z.reshape(x.shape[0], num_groups, -1)
    dims = 2  # the channels of a group, and all positions
    mean = z.mean(dims, keepdim=True)
    variance = (z - mean).square().mean(dims, keepdim=True)
    std = torch.sqrt(variance + eps)
    y = ((z - mean) / std).reshape(x.shape)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, weight, bias, eps)


def _grouped(x: Tensor, letters: str, num_groups: int, **others: Any) -> Call:
    affine = parameters(x.shape[1], x.dtype, **others)
    return Call({"x": x, "num_groups": num_groups, **affine}, {"x": letters, "weight": "C", "bias": "C"})


def _group_norm_probes() -> list[Probe]:
    both = {"weight": True, "bias": True}

    def probe(name: str, stage: str, x: Tensor, letters: str, groups: int, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _grouped(x, letters, groups, **others), gradients)

    def statistics(name: str, x: Tensor, letters: str, groups: int, **others: Any) -> Probe:
        return probe(name, "statistics", x, letters, groups, **others)

    ones = {"weight": torch.ones(6), "bias": torch.zeros(6)}
    worked = torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])
    return in_stages(
        [
            Probe("the worked number, one group", "statistics", _grouped(worked, "NCL", 1), tolerance=AS_PRINTED),
            Probe("the worked number, two groups", "epsilon", _grouped(worked, "NCL", 2), tolerance=AS_PRINTED),
            statistics("images in two groups", numbers(2, 6, 2, 3, seed=1), "NCHW", 2),
            statistics("images in three groups", numbers(2, 6, 2, 3, seed=2), "NCHW", 3),
            statistics("images in one group", numbers(2, 4, 3, 3, seed=3), "NCHW", 1),
            statistics("images, every channel a group", numbers(2, 4, 3, 3, seed=4), "NCHW", 4),
            statistics("signals", numbers(3, 6, 5, seed=5), "NCL", 2),
            statistics("vectors", numbers(4, 6, seed=6), "NC", 2),
            statistics("volumes", numbers(2, 4, 2, 2, 3, seed=7), "NCDHW", 2),
            statistics("not contiguous", numbers(2, 2, 3, 6, seed=8).permute(0, 3, 1, 2), "NCHW", 2),
            statistics("an affine step that changes nothing", numbers(2, 6, 2, 3, seed=9), "NCHW", 2, **ones),
            probe("values near 0.001", "epsilon", numbers(2, 4, 3, seed=10, scale=2.0**-12), "NCL", 2),
            probe("values near 0.00001", "epsilon", numbers(2, 4, 3, seed=11, scale=2.0**-18), "NCL", 2),
            probe("eps=0.5", "epsilon", numbers(2, 4, 3, seed=12, scale=1.0), "NCL", 2, eps=0.5),
            probe("groups of equal values", "epsilon", torch.full((2, 4, 3), 4.0), "NCL", 2),
            probe("weight", "affine", numbers(2, 6, 2, 3, seed=13), "NCHW", 2, weight=True),
            probe("bias", "affine", numbers(2, 6, 2, 3, seed=14), "NCHW", 2, bias=True),
            probe("weight and bias", "affine", numbers(2, 6, 2, 3, seed=15), "NCHW", 3, **both),
            probe("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=16), "NCHW", 2, **both),
            probe("vectors with weights", "affine", numbers(4, 6, seed=17), "NC", 2, **both),
            probe("gradient of x", "gradient", numbers(2, 4, 3, seed=18, scale=1.0), "NCL", 2, ("x",)),
            probe("gradients with weights", "gradient",
                  numbers(2, 6, 2, 2, seed=19, scale=1.0), "NCHW", 2, ("x", *both), **both),
            *_precision_probes(
                lambda x, letters, **others: _grouped(x, letters, 2, **others),
                offset=_grouped(numbers(16, 8, 24, seed=20, scale=0.25, offset=1e4), "NCL", 4),
                pair=lambda values: _grouped(values.reshape(1, 4, 1), "NCL", 2),
            ),
        ]
    )  # fmt: skip


group_norm = Check(
    "group_norm",
    _group_norm,
    _group_norm_probes(),
    load("group_norm", _group_norm_in_steps),
    is_possible=lambda call: call.arguments["x"][0].numel() >= 3 * call.arguments["num_groups"],
)


def _instance_norm_in_steps(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    dims = tuple(range(2, x.ndim))  # the positions
    column = (1, -1, *[1] * (x.ndim - 2))  # what broadcasts along the channels
    weight, bias = (None if p is None else p.reshape(column) for p in (weight, bias))
    z = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if use_input_stats:
        mean = z.mean(dims, keepdim=True)
        variance = (z - mean).square().mean(dims, keepdim=True)
    else:
        mean, variance = running_mean.reshape(column), running_var.reshape(column)
    if use_input_stats and running_mean is not None:
        values = z.flatten(2)  # (N, C, n)
        batch_mean, batch_var = values.mean(-1).mean(0), values.var(-1).mean(0)
        with torch.no_grad():
            running_mean.copy_((1 - momentum) * running_mean + momentum * batch_mean)
            running_var.copy_((1 - momentum) * running_var + momentum * batch_var)
    std = torch.sqrt(variance + eps)
    y = (z - mean) / std
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


def _instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _without_buffers(x: Tensor, letters: str, **others: Any) -> Call:
    return _running(x, letters, running=False, **others).without("running_mean").without("running_var")


def _instance_norm_probes() -> list[Probe]:
    both = {"weight": True, "bias": True}
    tracked = ("x", *both)
    frozen = {"use_input_stats": False}

    def plain(name: str, stage: str, x: Tensor, letters: str, gradients=(), **others: Any) -> Probe:
        return Probe(name, stage, _without_buffers(x, letters, **others), gradients)

    def output_only(name: str, x: Tensor, letters: str, stage="statistics", **others: Any) -> Probe:
        return Probe(name, stage, _running(x, letters, **others), compares=("output",))

    def running(name: str, x: Tensor, letters: str, stage="running statistics", **others: Any) -> Probe:
        return Probe(name, stage, _running(x, letters, **others))

    ones = {"weight": torch.ones(3), "bias": torch.zeros(3)}
    images = numbers(3, 2, 2, 3, seed=16)
    small = {"running_mean": torch.zeros(3), "running_var": torch.full((3,), 2.0**-20), **frozen}
    fresh = {"running_mean": torch.zeros(1), "running_var": torch.ones(1)}
    worked = _running(torch.tensor([[[1.0, 3.0]]]), "NCL", **fresh)
    with_running = _running(numbers(2, 3, 5, seed=32, scale=1.0), "NCL", **both)
    return in_stages(
        [
            output_only("images", numbers(2, 3, 2, 4, seed=1), "NCHW"),
            output_only("signals", numbers(2, 3, 5, seed=2), "NCL"),
            output_only("signals as long as channels", numbers(2, 4, 4, seed=3), "NCL"),
            output_only("volumes", numbers(2, 2, 2, 2, 3, seed=4), "NCDHW"),
            output_only("not contiguous", numbers(2, 3, 4, 3, seed=5).permute(0, 3, 1, 2), "NCHW"),
            output_only("an affine step that changes nothing", numbers(2, 3, 4, seed=6), "NCL", **ones),
            output_only("images, evaluation", numbers(2, 4, 3, 4, seed=10), "NCHW", "evaluation", **frozen),
            output_only("signals, evaluation", numbers(2, 3, 4, seed=11), "NCL", "evaluation", **frozen),
            running("evaluation, no step", numbers(2, 3, 4, seed=11), "NCL", "running statistics in evaluation",
                    **frozen),
            Probe("the worked number", "running statistics", worked, tolerance=AS_PRINTED),
            running("images, one step", images, "NCHW"),
            running("signals of two, one step", numbers(3, 2, 2, seed=17), "NCL"),
            running("momentum=0.5", images, "NCHW", momentum=0.5),
            plain("no running statistics", "no running statistics", numbers(2, 3, 2, 4, seed=18), "NCHW"),
            plain("values near 0.001", "epsilon", numbers(2, 3, 4, seed=20, scale=2.0**-12), "NCL"),
            plain("values near 0.00001", "epsilon", numbers(2, 3, 4, seed=21, scale=2.0**-18), "NCL"),
            plain("eps=0.5", "epsilon", numbers(2, 3, 4, seed=22, scale=1.0), "NCL", eps=0.5),
            plain("instances of equal values", "epsilon", torch.full((2, 3, 4), 4.0), "NCL"),
            running("small running_var", numbers(2, 3, 4, seed=24, scale=2.0**-10), "NCL", "epsilon", **small),
            plain("weight", "affine", numbers(2, 3, 5, seed=25), "NCL", weight=True),
            plain("bias", "affine", numbers(2, 3, 5, seed=26), "NCL", bias=True),
            plain("as wide as channels", "affine", numbers(2, 4, 3, 4, seed=27), "NCHW", **both),
            plain("signals with weights", "affine", numbers(2, 3, 5, seed=28), "NCL", **both),
            running("weights in evaluation", numbers(2, 3, 4, seed=29), "NCL", "affine", **frozen, **both),
            plain("gradient of x", "gradient", numbers(2, 3, 5, seed=30, scale=1.0), "NCL", ("x",)),
            plain("weights, gradients", "gradient", numbers(2, 3, 2, 3, seed=31, scale=1.0), "NCHW", tracked, **both),
            Probe("gradients, running statistics", "gradient", with_running, tracked),
            # Without a float32 weight, torch's own keeps its statistics in half precision.
            *_precision_probes(
                _running,
                offset=_without_buffers(numbers(8, 8, 48, seed=33, scale=0.25, offset=1e4), "NCL"),
                pair=lambda values: _running(values[None], "NCL", weight=torch.ones(2), bias=torch.zeros(2)),
                weight=torch.ones(4),
                bias=torch.zeros(4),
            ),
        ]
    )  # fmt: skip


instance_norm = Check(
    "instance_norm",
    _instance_norm,
    _instance_norm_probes(),
    load("instance_norm", _instance_norm_in_steps),
    updates=("running_mean", "running_var"),
    is_possible=lambda call: call.arguments["x"][0, 0].numel() >= 3,
)
