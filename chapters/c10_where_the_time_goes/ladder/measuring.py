"""Every implementation of a case, held against float64 and then timed, in turns."""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from chapters.c10_where_the_time_goes.ladder.batch_norm import BATCH_NORM
from chapters.c10_where_the_time_goes.ladder.layer_norm import LAYER_NORM
from chapters.c10_where_the_time_goes.ladder.operation import Implementation, Inputs, Operation
from chapters.c10_where_the_time_goes.ladder.rms_norm import RMS_NORM
from chapters.c10_where_the_time_goes.ladder.rope import ROPE
from course_utils.session import generator
from course_utils.timing.timers import (
    Call,
    forward_and_backward,
    keep_freed_memory,
    measure_in_turns,
)

OPERATIONS = {operation.name: operation for operation in (LAYER_NORM, RMS_NORM, BATCH_NORM, ROPE)}

# Largest relative error ‖result − truth‖ / ‖truth‖. Rounding alone makes 3e-8, 1.2e-3 and 1.5e-4;
# the rest is room for sums in any order.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}

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
    of those left out. Returns the results, and what could not run, with the reason. An error above
    its tolerance is a ``CheckFailed``.
    """
    operation = OPERATIONS[case.operation]
    inputs = operation.inputs(case.shape, getattr(torch, case.dtype), device, seed)
    upstream: list[Tensor] = []
    if case.with_backward:  # the outputs have the shapes of the first inputs
        draw = partial(torch.randn, generator=generator(seed + 1, device), device=device)
        upstream = [draw(x.shape).to(x.dtype) for x in inputs[: len(operation.outputs)]]
    truth = _truth(operation, inputs, upstream)

    calls: dict[str, Call] = {}
    checks: dict[str, dict[str, Any]] = {}
    left_out = []
    for rung in operation.implementations(case.shape, device):
        if rung.name.startswith(skip):
            continue
        try:
            call = _call(operation, rung, inputs, upstream)
            errors = {name: _relative_error(result, truth[name]) for name, result in call().items()}
            if device == "cuda":
                # can its kernels be captured?
                measure_in_turns({rung.name: call}, device, rounds=1)
        except (
            Exception
        ) as error:  # whatever a compiler or another library raises; the others are still measured
            first_line = (str(error).strip().splitlines() or [""])[0]
            reason = f"{type(error).__name__}: {first_line}"[:300]
            left_out.append({"implementation": rung.name, "reason": reason})
            continue
        checks[rung.name] = _checked(case, rung, errors)
        calls[rung.name] = call
    del truth

    source, destination = inputs[0], torch.empty_like(inputs[0])
    calls["copy"] = lambda: destination.copy_(source)
    bytes_moved = operation.bytes_moved(inputs, case.with_backward)
    timings = measure_in_turns(
        calls, device, rounds=rounds, seconds=seconds, bytes_moved=bytes_moved
    )
    copy_gbps = 2 * source.nbytes / timings.pop("copy").median_ms / 1e6
    results = []
    for name, timing in timings.items():
        extremes = [timing.median_ms, timing.median_ms]  # of one process
        times = {**asdict(timing), "range_ms": extremes, "copy_gbps": copy_gbps}
        results.append({"implementation": name, **checks[name], **times})
    return results, left_out


def new_process(threads: int) -> ProcessPoolExecutor:
    """Return a process with so many threads, whose memory lies anew and in which Triton's
    interpreter is off."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (threads,))


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


def _relative_error(result: Tensor, truth: Tensor) -> float:
    return float((result.double() - truth).norm() / truth.norm())


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
