"""One case: every implementation checked against float64, then all that ran timed in turns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.session import generator
from course_utils.timing.bench.ladder import OPERATIONS, TOLERANCES, Inputs, Operation, Rung
from course_utils.timing.bench.sweep import Case
from course_utils.timing.profiling import forward_and_backward, measure_in_turns
from course_utils.timing.stopwatch import Call

__all__ = ["CheckFailed", "Outcome", "attempt"]

# Results, and what was left out with the reason: each a list of objects as a record has them.
Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]]]


class CheckFailed(Exception):
    """An implementation gave a wrong result."""


def attempt(case: Case, device: str, seed: int, rounds: int, seconds: float) -> Outcome:
    """Check and time every implementation of ``case``.

    Args:
        case: what to measure.
        device: "cpu" or "cuda".
        seed: of the inputs and of the gradients of the outputs.
        rounds: how often each is timed, at most.
        seconds: for each, at most, on a CPU.

    Returns:
        The results, and what could not run, with the reason.

    Raises:
        CheckFailed: an error above its tolerance; NaN counts as one.
    """
    torch.compiler.reset()  # a new shape is compiled for itself, not for any shape
    operation = OPERATIONS[case.operation]
    inputs = operation.inputs(case.shape, getattr(torch, case.dtype), device, seed)
    upstream = _upstream(operation, inputs, seed) if case.with_backward else []
    truth = _truth(operation, inputs, upstream)

    calls: dict[str, Call] = {}
    checks: dict[str, dict[str, Any]] = {}
    left_out = []
    for rung in operation.rungs(case.shape, device):
        if case.with_backward and rung.in_place and rung.ours:
            continue  # autograd does not let a leaf be written over
        try:
            call = _call(operation, rung, inputs, upstream)
            errors = {name: _relative_error(found, truth[name]) for name, found in call().items()}
            if device == "cuda":
                measure_in_turns({rung.name: call}, device, rounds=1)  # can its kernels be captured?
        except Exception as error:  # whatever a compiler or another library raises; the others are still measured
            left_out.append({**case.fields(), "implementation": rung.name, "reason": _one_line(error)})
            continue
        checks[rung.name] = _checked(case, rung, errors)
        calls[rung.name] = call
    del truth
    return _times(case, calls, checks, inputs, device, rounds, seconds), left_out


def _call(operation: Operation, rung: Rung, inputs: Inputs, upstream: Sequence[Tensor]) -> Call:
    """Return a call that gives the rung's results by name: its outputs, or with ``upstream`` its gradients."""
    if rung.in_place:
        inputs, upstream = tuple(tensor.clone() for tensor in inputs), [tensor.clone() for tensor in upstream]
    inputs = rung.arrange(*inputs) if rung.arrange else inputs
    if not upstream:
        return lambda: _without_gradients(rung.fn, operation.outputs, inputs)
    count = len(operation.differentiated)
    leaves = [tensor.detach().requires_grad_() for tensor in inputs[:count]]
    gradients = forward_and_backward(rung.fn, *leaves, *inputs[count:], upstream=upstream)
    names = [f"d{name}" for name in operation.differentiated]
    return lambda: dict(zip(names, gradients(), strict=True))


@torch.no_grad()
def _without_gradients(fn: Callable[..., Any], names: Sequence[str], inputs: Inputs) -> dict[str, Tensor]:
    results = fn(*inputs)
    return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))


def _upstream(operation: Operation, inputs: Inputs, seed: int) -> list[Tensor]:
    """Draw the gradients of the outputs, which have the shapes of the first inputs."""
    source = generator(seed + 1, inputs[0].device)
    like = inputs[: len(operation.outputs)]
    return [torch.randn(x.shape, generator=source, device=x.device).to(x.dtype) for x in like]


def _truth(operation: Operation, inputs: Inputs, upstream: Sequence[Tensor]) -> dict[str, Tensor]:
    reference = Rung("truth", operation.truth)
    exact = tuple(tensor.double() for tensor in inputs)
    return _call(operation, reference, exact, [tensor.double() for tensor in upstream])()


def _relative_error(found: Tensor, truth: Tensor) -> float:
    return float((found.double() - truth).norm() / truth.norm())


def _checked(case: Case, rung: Rung, errors: Mapping[str, float]) -> dict[str, Any]:
    """Return errors and tolerances as a record has them, or raise."""
    tolerances = {name: _tolerance(rung, name, case.dtype) for name in errors}
    for name, error in errors.items():
        if not error <= tolerances[name]:  # so that NaN is refused
            raise CheckFailed(
                f"{rung.name}, {case}: relative error of {name} against float64 is {error:.2g}, "
                f"allowed are {tolerances[name]:g}"
            )
    return {"errors": dict(errors), "tolerances": tolerances}


def _tolerance(rung: Rung, name: str, dtype: str) -> float:
    if rung.ours or dtype == "float32":
        return TOLERANCES[dtype]
    # Other people's half precision: sums of a parameter's gradient in it may be tens of percent off, as PyTorch's are
    # on a CPU; cosines rounded to it cost some units more. That is recorded, not refused.
    return 0.5 if name in ("dweight", "dbias") else 4 * TOLERANCES[dtype]


def _times(
    case: Case,
    calls: Mapping[str, Call],
    checks: Mapping[str, dict[str, Any]],
    inputs: Inputs,
    device: str,
    rounds: int,
    seconds: float,
) -> list[dict[str, Any]]:
    """Time the calls in turns with a copy of the first input, and return the results as a record has them."""
    source = inputs[0]
    destination = torch.empty_like(source)
    with_copy = {**calls, "copy": lambda: destination.copy_(source)}
    timings = measure_in_turns(with_copy, device, rounds=rounds, seconds=seconds)
    copied = 2 * source.nbytes / timings["copy"].median_ms / 1e6
    bytes_moved = OPERATIONS[case.operation].bytes_moved(inputs, case.with_backward)
    return [
        {
            **case.fields(),
            "implementation": name,
            **checks[name],
            "bytes_moved": bytes_moved,
            "median_ms": timings[name].median_ms,
            "p10_ms": timings[name].p10_ms,
            "runs": timings[name].runs,
            "launch_ms": timings[name].launch_ms,
            "copy_gbps": copied,
        }
        for name in calls
    ]


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
