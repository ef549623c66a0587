"""Every implementation of a case, held against float64 and then timed, in turns."""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from chapters.c10_where_the_time_goes.ladder.batch_norm import BATCH_NORM
from chapters.c10_where_the_time_goes.ladder.layer_norm import LAYER_NORM
from chapters.c10_where_the_time_goes.ladder.operation import Implementation, Inputs, Operation
from chapters.c10_where_the_time_goes.ladder.rms_norm import RMS_NORM
from chapters.c10_where_the_time_goes.ladder.rope import ROPE
from course_utils import kernels
from course_utils.session import generator
from course_utils.timing.timers import (
    Call,
    copy_of,
    forward_and_backward,
    keep_freed_memory,
    measure_in_turns,
)

OPERATIONS = {operation.name: operation for operation in (LAYER_NORM, RMS_NORM, BATCH_NORM, ROPE)}

# Largest relative error ‖result − truth‖ / ‖truth‖. Rounding alone makes 3e-8, 1.2e-3 and 1.5e-4;
# the rest is room for sums in any order.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}

_PART = 2**26  # numbers of which the truth is held at once: half a gigabyte in float64

# Results, and what was left out with the reason: an object an implementation each, as a record has
# them.
Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]]]


class CheckFailed(Exception):
    """An implementation gave a wrong result."""


@dataclass(frozen=True)
class Case:
    """One operation in one direction at one shape and dtype, to be measured in every way there
    is."""

    operation: str
    direction: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.operation} {self.shape} {self.dtype} {self.direction}"

    def fields(self) -> dict[str, Any]:
        """Return the case as a record has it."""
        return {**asdict(self), "shape": list(self.shape)}

    @property
    def with_backward(self) -> bool:
        """Whether the gradients are part of it."""
        return self.direction == "forward+backward"


def check_and_time(
    case: Case, device: str, seed: int, rounds: int, seconds: float, skip: tuple[str, ...] = ()
) -> Outcome:
    """Check and time every implementation of ``case`` on ``device``, "cpu" or "cuda". Chapter 10.

    Each is timed ``rounds`` times, and on a CPU for ``seconds``, at most; ``skip``: the first words
    of those left out. Returns the results, and what could not run, or was wrong beyond its
    tolerance, with the reason.
    """
    operation = OPERATIONS[case.operation]
    inputs = operation.inputs(case.shape, getattr(torch, case.dtype), device, seed)
    upstream: list[Tensor] = []
    if case.with_backward:  # the outputs have the shapes of the first inputs
        draw = partial(torch.randn, generator=generator(seed + 1, device), device=device)
        upstream = [draw(x.shape).to(x.dtype) for x in inputs[: len(operation.outputs)]]
    errors_of = _against_float64(operation, inputs, upstream)

    calls: dict[str, Call] = {}
    checks: dict[str, dict[str, Any]] = {}
    left_out = []
    for rung in operation.implementations(case.shape, device):
        if rung.name.startswith(skip):
            continue
        try:
            call = _call(operation, rung, inputs, upstream)
            needed = _peak_memory(device)
            checks[rung.name] = _checked(case, rung, errors_of(call()))
            if device == "cuda":
                # can its kernels be captured?
                _ask_for_memory(needed())
                measure_in_turns({rung.name: call}, device, rounds=1)
        # whatever a compiler or another library raises; the others are still measured
        except Exception as error:
            first_line = (str(error).strip().splitlines() or [""])[0]
            reason = f"{type(error).__name__}: {first_line}"[:300]
            left_out.append({"implementation": rung.name, "reason": reason})
            continue
        calls[rung.name] = call

    source = inputs[0]
    calls["copy"] = copy_of(source)
    calls["nothing"] = source.flatten()[:1].clone().zero_
    bytes_moved = operation.bytes_moved(inputs, case.with_backward)
    timings = measure_in_turns(
        calls, device, rounds=rounds, seconds=seconds, bytes_moved=bytes_moved
    )
    copy_gbps = 2 * source.nbytes / timings.pop("copy").median_ms / 1e6
    nothing_ms = timings.pop("nothing").median_ms  # what any call takes, or any replay of a graph
    results = []
    for name, timing in timings.items():
        extremes = [timing.median_ms, timing.median_ms]  # of one process
        times = {**asdict(timing), "range_ms": extremes, "copy_gbps": copy_gbps}
        times["nothing_ms"] = nothing_ms
        results.append({"implementation": name, **checks[name], **times})
    return results, left_out


def new_process(threads: int) -> ProcessPoolExecutor:
    """Return a process with so many threads, whose memory lies anew and in which Triton's
    interpreter is off."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (threads,))


def why_no_kernel() -> str:
    """Return why Triton cannot start a kernel on the GPU, in a line, or nothing where it can. For
    its launcher it wants a C compiler and Python's headers."""
    if not (runs := kernels.available("cuda")):
        return runs.reason
    try:
        kernels.layer_norm(torch.ones(2, 4, device="cuda"), (4,))
    except Exception as error:  # whatever the compiler raises
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    return ""


def _begin(threads: int) -> None:
    os.environ["TRITON_INTERPRET"] = "0"
    torch.set_num_threads(threads)
    keep_freed_memory()


def _truth(operation: Operation, inputs: Inputs, upstream: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the results in float64 by name."""
    exact_inputs = tuple(tensor.double() for tensor in inputs)
    exact_upstream = [tensor.double() for tensor in upstream]
    return _call(
        operation, Implementation("truth", operation.truth), exact_inputs, exact_upstream
    )()


def _call(
    operation: Operation, rung: Implementation, inputs: Inputs, upstream: Sequence[Tensor]
) -> Call:
    """Return a call that gives the results by name: the outputs, or with ``upstream`` the
    gradients."""
    fn = rung.fn
    if rung.compiled:
        torch.compiler.reset()  # it gives up after eight shapes of one function
        fn = torch.compile(fn, dynamic=False)
    if rung.in_place:
        inputs, upstream = (
            tuple(tensor.clone() for tensor in inputs),
            [tensor.clone() for tensor in upstream],
        )
    inputs = rung.arrange(*inputs) if rung.arrange else inputs
    if upstream:
        count = len(operation.differentiated)
        leaves = [tensor.detach().requires_grad_() for tensor in inputs[:count]]
        gradients = forward_and_backward(fn, *leaves, *inputs[count:], upstream=upstream)
        names = [f"d{name}" for name in operation.differentiated]
        return lambda: dict(zip(names, gradients(), strict=True))

    def outputs() -> dict[str, Tensor]:
        with torch.no_grad():
            results = fn(*inputs)
        return dict(
            zip(
                operation.outputs,
                results if isinstance(results, tuple) else (results,),
                strict=True,
            )
        )

    return outputs


def _against_float64(
    operation: Operation, inputs: Inputs, upstream: Sequence[Tensor]
) -> Callable[[Mapping[str, Tensor]], dict[str, float]]:
    """Return what gives ‖result − truth‖ / ‖truth‖ of each result by name.

    Where rows stand for themselves the truth is computed for some of them at a time: of 2³⁰ numbers
    it would take 8 GB for each tensor. Gradients of the weights are sums over the parts.
    """
    count = len(inputs[0])
    rows = max(_PART * count // inputs[0].numel(), 1) if operation.by_rows else count
    parts = [slice(first, first + rows) for first in range(0, count, rows)]

    @lru_cache(1)  # where there is one part, computed once
    def truth(number: int) -> dict[str, Tensor]:
        part = parts[number]
        some = (inputs[0][part], *inputs[1:]) if operation.by_rows else inputs
        return _truth(operation, some, [dy[part] for dy in upstream])

    def errors(results: Mapping[str, Tensor]) -> dict[str, float]:
        sums: dict[str, Tensor] = {}
        squares = {name: torch.zeros(2, dtype=torch.float64) for name in results}  # off, all
        for number, part in enumerate(parts):
            for name, exact in truth(number).items():
                if name in ("dweight", "dbias"):
                    sums[name] = exact + sums.get(name, 0)
                else:
                    squares[name] += _squares(results[name][part], exact)
        for name, exact in sums.items():
            squares[name] += _squares(results[name], exact)
        return {name: float((off / total).sqrt()) for name, (off, total) in squares.items()}

    return errors


def _squares(result: Tensor, exact: Tensor) -> Tensor:
    return torch.stack([(result.double() - exact).square().sum(), exact.square().sum()]).cpu()


def _peak_memory(device: str) -> Callable[[], int]:
    """Return what says, later, how many bytes were in use at most from now on, beside those in use
    now."""
    if device != "cuda":
        return lambda: 0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    return lambda: torch.cuda.max_memory_allocated() - before


def _ask_for_memory(needed: int) -> None:
    """Raise where a graph would not fit: an allocation that fails within a capture spoils what
    comes after it. A warm-up on another stream and the graph each keep blocks of their own."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    if free < 2 * needed:
        raise MemoryError(f"wants {2 * needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free")


def _checked(case: Case, rung: Implementation, errors: Mapping[str, float]) -> dict[str, Any]:
    """Return errors and tolerances as a record has them, or raise."""
    allowed = TOLERANCES[case.dtype]
    tolerances = dict.fromkeys(errors, allowed)
    if not rung.ours and case.dtype != "float32":
        # Other people's half precision: sums of a parameter's gradient in it may be tens of percent
        # off, as PyTorch's are on a CPU; cosines rounded to it cost some units more. That is
        # recorded, not refused.
        tolerances = {name: 0.5 if name in ("dweight", "dbias") else 4 * allowed for name in errors}
    for name, error in errors.items():
        if not error <= tolerances[name]:  # so that NaN is refused
            raise CheckFailed(
                f"{rung.name}, {case}: relative error of {name} against float64 is {error:.2g}, "
                f"allowed are {tolerances[name]:g}"
            )
    return {"errors": dict(errors), "tolerances": tolerances}
