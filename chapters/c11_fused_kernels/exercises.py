"""Chapter 11: three Triton kernels, graded in Triton's interpreter: a norm, its backward pass, RoPE
in place; and how many warps run a program, graded by what the compiler makes of it.

The references are plain functions, so that this module needs no Triton; a launch makes kernels of
them. Every tensor lies apart from the others in memory and is guarded: an address outside of all of
them is an IndexError.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chapters.c11_fused_kernels.compiled import WARPS, compiled
from chapters.c11_fused_kernels.traffic import remarks_on
from chapters.c11_fused_kernels.workbench import Requested, guarded, requested
from course_utils.check.catalogue import load
from course_utils.check.engine import examine
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, Probe, integers, read_probes
from course_utils.check.report import Report, format_tensor
from course_utils.check.sandbox import Sandbox
from course_utils.kernels import available

__all__ = ["norm_backward_kernel", "norm_kernel", "rope_kernel", "warps_for"]

# what the references are defined with; Triton's when they run
tl: Any = SimpleNamespace(constexpr="constexpr")
_MARGIN = 4096  # elements between two tensors: what goes astray by less lands in none of them
_BETWEEN = 1000.0  # what lies there, and between two rows


@dataclass(frozen=True)
class KernelCall:
    """One launch of a kernel: a program for each of ``grid``, and what is passed, in order."""

    grid: int
    tensors: Mapping[str, Tensor]
    sizes: Mapping[str, int]
    constants: Mapping[str, float]
    result: Callable[[], Any]
    written: tuple[str, ...] = ()  # the tensors that hold nothing yet
    note: str = ""  # what to know about the inputs

    def launch(self, kernel: Callable[..., Any]) -> None:
        """Run all programs."""
        arguments = (*self.tensors.values(), *self.sizes.values())
        _jitted(kernel)[(self.grid,)](*arguments, **self.constants)

    def run(self, kernel: Callable[..., Any]) -> Any:
        """Return the result of a launch in which nothing goes astray unseen."""
        from triton.runtime.errors import InterpreterError

        with guarded(**self.tensors):
            try:
                self.launch(kernel)
            except InterpreterError as error:
                cause: BaseException = error
                while (
                    isinstance(cause, InterpreterError) and cause.__cause__
                ):  # one for each function called
                    cause = cause.__cause__
                raise _with_advice(cause) from None  # at the learner's own line
        return self.result()

    def requested(self, kernel: Callable[..., Any]) -> dict[str, Requested]:
        """Return the bytes that a launch reads and writes, by tensor."""
        return requested(lambda: self.launch(kernel), **self.tensors)

    def lines(self, name: str) -> list[str]:
        """Return the launch and its inputs as a report shows them."""
        values = [f"{key}={value:g}" for key, value in {**self.sizes, **self.constants}.items()]
        inputs = [
            f"{key} = {format_tensor(t)}"
            for key, t in self.tensors.items()
            if key not in self.written
        ]
        notes = [self.note] if self.note else []
        return [f"{name}[({self.grid},)]({', '.join([*self.tensors, *values])})", *inputs, *notes]


@cache
def _jitted(function: Callable[..., Any]) -> Any:
    """Return a kernel of a plain function."""
    import triton

    fresh = FunctionType(
        function.__code__, function.__globals__ | {"tl": triton.language}, function.__name__
    )
    fresh.__annotations__ = function.__annotations__
    return triton.jit(fresh)


# what every beginner looks for in vain, and what there is
_IN_TRITON = {
    "mean": "tl.sum(x) / n",
    "var": "tl.sum(centred * centred) / n",
    "std": "the root of tl.sum(centred * centred) / n",
    "pow": "x * x",
}


def _with_advice(error: BaseException) -> BaseException:
    """Return an error that torch's names have led to, and say in it what Triton has."""
    name = error.name if isinstance(error, AttributeError) else None
    if name in _IN_TRITON:
        error.args = (f"{error}: Triton has no {name}, and here it is {_IN_TRITON[name]}",)
    return error


def _missing_interpreter() -> str:
    """Return why no kernel can run here, or nothing."""
    return available("cpu").reason


def _kernel_exercise(
    name: str,
    reference: Any,
    truth: Callable[..., Any],
    plan: Callable[..., KernelCall],
    probes: list[Probe],
    counted: Call,
    **how: Any,
) -> Exercise:
    """Return the exercise of a kernel: ``plan`` makes a launch of a probe's arguments, ``truth``
    what is right, and on ``counted`` the bytes are counted."""

    def adapt(function: Callable[..., Any]) -> Callable[..., Any]:
        if function is reference:
            return truth
        return lambda *arguments, **keywords: plan(*arguments, **keywords).run(function)

    exercise = Exercise(
        name,
        reference,
        probes,
        load(name, reference),
        adapt=adapt,
        format_call=lambda call: plan(**call.arguments).lines(name),
        interpreter=_missing_interpreter,
        **how,
    )

    def judge(function: Callable[..., Any], sandbox: Sandbox) -> Report:
        report = examine(exercise, function, torch.device("cpu"))
        if not report.passed:
            return report
        outcome = sandbox.call(lambda: plan(**counted.fresh()).requested(function))
        least = plan(**counted.fresh()).requested(reference)
        remarks = remarks_on(outcome.value, least) if outcome.value else []
        return replace(report, remarks=(*report.remarks, *remarks))

    return replace(exercise, judge=judge)


def _placed(x: Tensor, gap: int = 0) -> Tensor:
    """Return a copy of ``x`` (C,) or (R, C) with room around it, its rows ``gap`` elements
    apart."""
    stride = x.shape[-1] + gap
    room = x.new_full((2 * _MARGIN + x[..., 0].numel() * stride,), _BETWEEN)
    return room.as_strided(x.shape, (stride, 1)[-x.ndim :], _MARGIN).copy_(x)


def _nothing(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return _placed(torch.full(shape, torch.nan, dtype=dtype))


def _block(size: int, least: int = 1) -> int:
    return 1 << (max(size, least) - 1).bit_length()


def _norm_kernel(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    slots = tl.arange(0, BLOCK)
    inside = slots < n_cols
    x = tl.load(x_ptr + row * stride + slots, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x) / n_cols
    centred = tl.where(inside, x - mean, 0.0)
    squares = tl.sum(centred * centred)
    variance = squares / n_cols
    y = centred / tl.sqrt(variance + EPS)
    tl.store(y_ptr + row * n_cols + slots, y, mask=inside)


def _norm(x, gap=0, eps=1e-5, slots=1):
    return F.layer_norm(x, x.shape[1:], eps=eps)


def _norm_launch(x: Tensor, gap: int = 0, eps: float = 1e-5, slots: int = 1) -> KernelCall:
    y, sizes = _nothing(*x.shape, dtype=x.dtype), {"stride": x.shape[1] + gap, "n_cols": x.shape[1]}
    constants = {"EPS": eps, "BLOCK": _block(x.shape[1], slots)}
    return KernelCall(len(x), {"x": _placed(x, gap), "y": y}, sizes, constants, lambda: y, ("y",))


def _rows(x: Tensor, **others: Any) -> Call:
    return Call({"x": x, **others}, {"x": "RC"})


norm_kernel = _kernel_exercise(
    "norm_kernel",
    _norm_kernel,
    _norm,
    _norm_launch,
    read_probes(__file__, "norm_kernel", _rows),
    _rows(integers(4, 64, seed=211)),
    may_shrink_to=lambda call: call.arguments["x"].shape[1] >= 3,
)


def _norm_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    sums_ptr,
    n_rows,
    n_cols,
    BLOCK: tl.constexpr,
):
    slots = tl.arange(0, BLOCK)
    inside = slots < n_cols
    weight = tl.load(weight_ptr + slots, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        here = row * n_cols + slots
        dy = tl.load(dy_ptr + here, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + here, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = (x - tl.load(mean_ptr + row)) * rstd
        g = dy * weight
        mean_g = tl.sum(g) / n_cols
        centred = g - mean_g
        slope = tl.sum(g * x_hat) / n_cols
        projected = centred - x_hat * slope
        dx = projected * rstd
        tl.store(dx_ptr + here, dx, mask=inside)
        term = dy * x_hat
        dweight += term
    tl.store(sums_ptr + tl.program_id(0) * n_cols + slots, dweight, mask=inside)


def _norm_backward(dy, x, weight, programs=2, slots=1, spare=0):
    # the sums for the weight are never rounded to half precision
    wide = torch.promote_types(x.dtype, torch.float32)
    rows, weight = (t.detach().to(wide).requires_grad_() for t in (x[: len(x) - spare], weight))
    y, upstream = F.layer_norm(rows, x.shape[1:], weight), dy[: len(rows)].to(wide)
    gradients = torch.autograd.grad(y, (rows, weight), upstream)
    # what is 0 but for the rounding of float64 is shown as 0
    dx, dweight = (g.masked_fill(g.abs() < 1e-12 * g.abs().max(), 0.0) for g in gradients)
    return dx.to(x.dtype), dweight


def _norm_backward_launch(
    dy: Tensor, x: Tensor, weight: Tensor, programs: int = 2, slots: int = 1, spare: int = 0
) -> KernelCall:
    n_rows, n_cols, wide = len(x) - spare, x.shape[1], x.double()
    rstd = torch.rsqrt(wide.var(1, correction=0) + 1e-5).float()
    inputs = {"dy": dy, "x": x, "weight": weight, "mean": wide.mean(1).float(), "rstd": rstd}
    dx, sums = _nothing(*x.shape, dtype=x.dtype), _nothing(programs + spare, n_cols)
    tensors = {name: _placed(tensor) for name, tensor in inputs.items()} | {"dx": dx, "sums": sums}
    sizes, constants = {"n_rows": n_rows, "n_cols": n_cols}, {"BLOCK": _block(n_cols, slots)}
    return KernelCall(
        programs,
        tensors,
        sizes,
        constants,
        lambda: (dx[:n_rows], sums[:programs].sum(0)),
        ("dx", "sums"),
        "rows from n_rows on are nobody's" if spare else "",
    )


def _pass_back(
    rows: int = 0, columns: int = 0, unit_weight: bool = False, half: bool = False, **others: Any
) -> Call:
    """Return a call on matrices of a size, or without one on those that are among the others."""
    if not rows:
        return Call(others)
    x = integers(rows, columns, seed=220 + columns, offset=3.0)
    dy = integers(rows, columns, seed=221, offset=2.0)
    weight = torch.ones(columns)
    if not unit_weight:
        weight = integers(columns, seed=222, offset=12.0) / 4
    if half:  # squares and products beyond 65,504, and a sum that needs more than eleven bits
        x, dy, weight = (64 * x).half(), (32 * dy).half(), (weight / 7).half()
    axes = {"dy": "RC", "x": "RC", "weight": "C"}
    return Call({"dy": dy, "x": x, "weight": weight, **others}, axes)


norm_backward_kernel = _kernel_exercise(
    "norm_backward_kernel",
    _norm_backward_kernel,
    _norm_backward,
    _norm_backward_launch,
    read_probes(__file__, "norm_backward_kernel", _pass_back),
    _pass_back(12, 16),
    returns=("dx", "dweight"),
    may_shrink_to=lambda call: call.arguments["x"].shape[1] >= 3,
)


def _rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    stride,
    n_positions,
    n_pairs,
    POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    position = tl.program_id(0) * POSITIONS + tl.arange(0, POSITIONS)[:, None]
    pair = tl.arange(0, PAIRS)[None, :]
    inside = (position < n_positions) & (pair < n_pairs)
    angle = position * n_pairs + pair
    cos = tl.load(cos_ptr + angle, mask=inside)
    sin = tl.load(sin_ptr + angle, mask=inside)
    first_ptr = x_ptr + position * stride + pair
    second_ptr = first_ptr + n_pairs
    first = tl.load(first_ptr, mask=inside).to(tl.float32)
    second = tl.load(second_ptr, mask=inside).to(tl.float32)
    new_first = first * cos - second * sin
    tl.store(first_ptr, new_first, mask=inside)
    new_second = second * cos + first * sin
    tl.store(second_ptr, new_second, mask=inside)


def _rope(x, cos, sin, spare=0, tile=2):
    tokens, pairs = len(x) - spare, cos.shape[1]
    if tokens < 1 or x.shape[1] < 2 * pairs:
        raise ValueError("there must be a position, and its row must hold its pairs")
    wide = torch.promote_types(x.dtype, torch.float32)
    turn = torch.complex(cos.to(wide), sin.to(wide))[:tokens]
    turned = torch.complex(*x[:tokens, : 2 * pairs].to(wide).chunk(2, -1)) * turn
    result = x.to(wide, copy=True)
    result[:tokens, : 2 * pairs] = torch.cat([turned.real, turned.imag], -1)
    return result.to(x.dtype)


def _rope_launch(x: Tensor, cos: Tensor, sin: Tensor, spare: int = 0, tile: int = 2) -> KernelCall:
    tokens, pairs = len(x) - spare, cos.shape[1]
    tensors = {"x": _placed(x), "cos": _placed(cos), "sin": _placed(sin)}
    sizes = {"stride": x.shape[1], "n_positions": tokens, "n_pairs": pairs}
    constants = {"POSITIONS": tile, "PAIRS": _block(pairs)}
    note = "rows from n_positions on are nobody's" if spare else ""
    return KernelCall(
        -(-tokens // tile), tensors, sizes, constants, lambda: tensors["x"], note=note
    )


def _turned(
    tokens: int = 0, pairs: int = 0, rest: int = 0, half: bool = False, **others: Any
) -> Call:
    """Return a call on rows of so many pairs and the rest, or without a size on what is among the
    others."""
    if not tokens:
        return Call(others)
    x = integers(tokens, 2 * pairs + rest, seed=230 + pairs)
    angles = torch.arange(1.0, tokens + 1)[:, None] * 0.7 ** torch.arange(pairs)
    arguments = {"x": x.half() if half else x, "cos": angles.cos(), "sin": angles.sin(), **others}
    return Call(arguments, {"x": "TS", "cos": "TP", "sin": "TP"})


rope_kernel = _kernel_exercise(
    "rope_kernel",
    _rope_kernel,
    _rope,
    _rope_launch,
    read_probes(__file__, "rope_kernel", _turned),
    _turned(8, 16),
    simplest={
        "cos": lambda shape, dtype: torch.zeros(*shape),
        "sin": lambda shape, dtype: torch.ones(*shape),
    },
)


_DTYPES = {2: torch.bfloat16, 4: torch.float32}  # by bytes a number


def norm_compiled(n_cols: int, itemsize: int, num_warps: int) -> tuple[int, int]:
    """Compile ``norm_kernel`` for sm_90; return the bytes that a lane spills and those of its
    narrowest load."""
    arguments = [_DTYPES[itemsize]] * 2 + [n_cols] * 2
    block, kernel = _block(n_cols), _jitted(_norm_kernel)
    code = compiled(kernel, *arguments, num_warps=num_warps, EPS=1e-5, BLOCK=block)
    return code.spilled, min(code.loads)


@cache
def _known() -> dict[str, list[list[int]]]:
    """Return what `norm_compiled` gave for each of WARPS: with this no check has to wait."""
    return json.loads(Path(__file__).with_name("warps.json").read_text())  # type: ignore[no-any-return]


def _warps_for(n_cols, itemsize):
    slots = 1 << (n_cols - 1).bit_length()
    warps = slots * itemsize // 2048
    warps = max(warps, 1)
    return min(warps, 32)


class NotWhole(TypeError):
    """A number of warps that is a float."""


def _made_with(choose: Callable[[int, int], int]) -> Callable[[int, int], tuple[int, ...]]:
    """Return what the compiler makes of the kernel with as many warps as ``choose`` returns, or
    the nearest that it can have; and how many they are, or 1 where it can have them."""
    if choose is _warps_for:
        return lambda n_cols, itemsize: (0, 16, 1)

    def made(n_cols, itemsize):
        warps = choose(n_cols, itemsize)
        if not isinstance(warps, int):
            error = NotWhole if isinstance(warps, float) else TypeError
            raise error(f"num_warps must be a whole number: got {warps!r}")
        possible = max((each for each in WARPS if each <= warps), default=1)
        made = _known()[f"{n_cols} x {itemsize}"][WARPS.index(possible)]
        return (*made, 1 if warps == possible else warps)

    return made


warps_for = Exercise(
    "warps_for",
    _warps_for,
    read_probes(__file__, "warps_for", tolerance=COUNTED),
    load("warps_for", _warps_for),
    returns=(
        "bytes spilled",
        "bytes of the narrowest load",
        "number of warps (2, 4, 8, 16 and 32 count as 1)",
    ),
    adapt=_made_with,
    may_shrink_to=lambda call: False,  # the compiler was asked about no other
)
