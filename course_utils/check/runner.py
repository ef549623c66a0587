"""Runs a function on the probes of an exercise, and looks at what comes of each call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.check.comparison import Comparison, Expected, Finding, Observation
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe
from course_utils.check.sandbox import CALL_LIMIT_S, Outcome, TimeUp, describe_error, trusted

__all__ = ["Caller", "Runner", "Trial", "run_by_nearest_convention", "upstream"]

_FAR_LESS = (
    10.0  # times: a wrong result so much nearer to another convention was meant to follow that one
)

Caller = Callable[[Callable[[], Any]], Outcome]  # makes a call: a sandbox's, or ``trusted``


def upstream(output: Tensor) -> Tensor:
    """Return the gradient that is sent back through ``output``: quarters from −5/4 to 5/4, exact in
    every dtype."""
    steps = (torch.arange(output.numel(), device=output.device) * 7 + 3) % 11 - 5
    return (steps / 4).reshape(output.shape).to(output.dtype)


@dataclass(frozen=True)
class Runner:
    """Runs functions on the probes of ``exercise``, the inputs on ``device``."""

    exercise: Exercise
    device: torch.device

    def run(self, function: Callable[..., Any], caller: Caller = trusted) -> list[Comparison]:
        """Return what ``function`` shows on every probe, up to one where it had to be stopped."""
        comparisons = []
        for probe in self.exercise.probes:
            comparison = self.compare(function, probe, caller)
            comparisons.append(comparison)
            finding = comparison.observed.finding
            if finding and finding.ends_check:
                break
        return comparisons

    def compare(
        self,
        function: Callable[..., Any],
        probe: Probe,
        caller: Caller = trusted,
        expected: Expected | None = None,
    ) -> Comparison:
        """Return what ``function`` shows on ``probe``, beside what is right: ``expected``, where
        that is known."""
        expected = expected or _expected(self, probe)
        return Comparison(probe, expected, self.observe(function, probe, caller, expected))

    def expect(self, probe: Probe) -> Expected:
        """Return what is right: dtypes as the oracle gives them, values as it gives them in
        float64.

        Raises:
            ValueError: the oracle does not take this call.
        """
        if probe.is_refused:
            return Expected({}, {}, refused=probe.name)
        oracle, call = self.exercise.oracle, probe.call
        double = Call(self.exercise.fill_defaults(call).fresh(double=True))
        exact = replace(self, device=torch.device("cpu")).observe(
            oracle, replace(probe, call=double)
        )
        plain = self.observe(oracle, replace(probe, gradients=()))
        if finding := exact.finding or plain.finding:
            raise ValueError(finding.message)
        if self.exercise.any_dtype:
            return Expected(exact.values, {})
        gradient_dtypes = {
            f"gradient of {name}": call.arguments[name].dtype for name in probe.gradients
        }
        return Expected(exact.values, plain.dtypes | gradient_dtypes)

    def observe(
        self,
        function: Callable[..., Any],
        probe: Probe,
        caller: Caller = trusted,
        expected: Expected | None = None,
    ) -> Observation:
        """Return what ``function`` shows on ``probe``, forward and then, if it asks for gradients,
        backward.

        Shapes, dtypes and devices are held against ``expected``; without it only values are taken.
        """
        observation = Observation()
        try:
            self._observe_forward(observation, function, probe, caller, expected)
            if probe.gradients:
                self._observe_backward(observation, function, probe, caller)
        except _Found as found:
            observation.finding = found.finding
        return observation

    def _observe_forward(
        self,
        observation: Observation,
        function: Callable[..., Any],
        probe: Probe,
        caller: Caller,
        expected: Expected | None,
    ) -> None:
        call = probe.call
        arguments = call.fresh(self.device)
        is_here = self.device.type == "cpu"
        originals = call.arguments if is_here else call.fresh(self.device)
        outcome = caller(self._bind(function, arguments))
        if expected is not None and expected.refused:
            if not isinstance(outcome.error, Exception):  # any exception of its own is a refusal
                _value(outcome, observation)
                message = f"It takes {expected.refused} and raises no error."
                raise _Found("accepts", expected.refused, message, "", "an error", "a result")
            return
        outputs = self._name_parts(_value(outcome, observation), expected)
        tensors = {name: part for name, part in outputs.items() if isinstance(part, Tensor)}
        if expected is not None:
            for name, output in tensors.items():
                _require_device(name, output, self.device)
                if name in (probe.compares or tensors):  # where a part is looked at by itself
                    _require_shape(name, output, expected.values[name])
        updated = [name for name, _ in call.tensors() if name in self.exercise.updates]
        outputs |= {name: arguments[name] for name in updated}
        observation.values |= {name: _as_double(output) for name, output in outputs.items()}
        observation.dtypes |= {
            name: output.dtype for name, output in outputs.items() if isinstance(output, Tensor)
        }
        for name, original in originals.items():
            if name not in self.exercise.updates:
                _require_unchanged(name, original, arguments[name])
        if expected is not None:
            for name, output in tensors.items():
                _require_dtype(name, output, expected)
        if outcome.state_changed:
            changed = " and ".join(outcome.state_changed)
            raise _Found(
                "state",
                changed,
                f"It changes {changed}, which belongs to the whole program; it was put back.",
            )

    def _observe_backward(
        self,
        observation: Observation,
        function: Callable[..., Any],
        probe: Probe,
        caller: Caller,
    ) -> None:
        arguments = probe.call.fresh(self.device, track=probe.gradients)
        sources = [arguments[name] for name in probe.gradients]
        bound = self._bind(function, arguments)

        def forward_and_backward() -> Any:
            outputs = [
                output
                for output in self._name_parts(bound(), None).values()
                if isinstance(output, Tensor)
            ]
            # A scalar to differentiate: autograd.grad with grad_outputs would import sympy first,
            # for over a second.
            sums = [(output * upstream(output)).sum() for output in outputs if output.requires_grad]
            return (
                torch.autograd.grad(torch.stack(sums).sum(), sources, allow_unused=True)
                if sums
                else None
            )

        values = _value(caller(forward_and_backward), observation)
        for name in self.exercise.updates:
            if isinstance(arguments.get(name), Tensor) and arguments[name].requires_grad:
                message = (
                    f"It leaves {name} attached to the graph of this step "
                    f"({name}.requires_grad is True)."
                )
                attached = f"{name}.requires_grad", "False", "True"
                raise _Found("graph", name, message, *attached)
        if values is None:
            message = "No gradient flows back: the output is cut off from its inputs."
            cut_off = "output.requires_grad", "True", "False"
            raise _Found("no gradient", "output", message, *cut_off)
        for name, gradient in zip(probe.gradients, values, strict=True):
            if gradient is None:
                message = f"No gradient reaches {name}: it is cut off from the output."
                raise _Found(
                    "no gradient", name, message, f"gradient of {name}", "a tensor", "None"
                )
            observation.values[f"gradient of {name}"] = _as_double(gradient)

    def _bind(
        self, function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> Callable[[], Any]:
        """Pass what is required by position, as F.layer_norm(x, (4,)) is called, and what is
        optional by keyword."""
        required, _ = self.exercise.arguments
        positional = [arguments[name] for name in required]
        keywords = {name: value for name, value in arguments.items() if name not in required}
        return lambda: self.exercise.adapt(function)(*positional, **keywords)

    def _name_parts(self, value: Any, expected: Expected | None) -> dict[str, Tensor | Real]:
        """Name the parts of a returned value: tensors, and numbers where a quantity has no axes."""
        returns = self.exercise.returns
        parts = (value,) if len(returns) == 1 else value
        if not isinstance(parts, tuple | list) or len(parts) != len(returns):
            wanted, came = f"a tuple of {len(returns)}: {', '.join(returns)}", _type_name(value)
            if isinstance(parts, tuple | list):
                came += f" of {len(parts)}"
            raise _Found("type", came, f"It returns {came}; expected {wanted}.", "", wanted, came)
        named: dict[str, Tensor | Real] = {}
        for name, part in zip(returns, parts, strict=True):
            wants_number = expected is not None and not expected.values[name].ndim
            # numpy's numbers are Real too
            is_number = isinstance(part, Real) and (expected is None or wants_number)
            if not isinstance(part, Tensor) and not is_number:
                what = f"{_type_name(part)} for {name}" if len(returns) > 1 else _type_name(part)
                wanted, hint = f"a {'number' if wants_number else 'tensor'}", _HINTS.get(what, ".")
                message = f"It returns {what}; expected {wanted}{hint}"
                raise _Found("type", what, message, name, wanted, _type_name(part))
            named[name] = part
        return named


@cache
def _expected(runner: Runner, probe: Probe) -> Expected:
    return runner.expect(probe)


class Trial(NamedTuple):
    """What a function shows on every probe, held against one of the conventions that an exercise
    accepts."""

    runner: Runner
    convention: str
    comparisons: Sequence[Comparison]

    @property
    def right(self) -> int:
        """How many probes are right before the first that is not."""
        return sum(1 for _ in takewhile(lambda comparison: comparison.passed, self.comparisons))

    @property
    def passed(self) -> bool:
        """Whether all are."""
        return self.right == len(self.comparisons)

    def is_nearer_than(self, other: "Trial") -> bool:
        """Return whether the function, which fails in the other trial, fails later in this one, or
        by far less."""
        if self.right != other.right:
            return self.right > other.right
        error, other_error = (
            trial.comparisons[trial.right].result().error for trial in (self, other)
        )
        return _FAR_LESS * error < other_error


def run_by_nearest_convention(
    runner: Runner, function: Callable[..., Any], caller: Caller = trusted
) -> Trial:
    """Return what ``function`` shows beside the convention that it follows, or comes nearest to."""
    nearest = Trial(runner, "", runner.run(function, caller))
    for convention, exercise in runner.exercise.by_convention.items():
        if nearest.passed:
            break
        other = replace(runner, exercise=exercise)
        trial = Trial(other, convention, other.run(function, caller))
        if trial.is_nearer_than(nearest):
            nearest = trial
    return nearest


class _Found(Exception):
    """Carries a finding out of the middle of an examination."""

    def __init__(self, *finding: Any) -> None:
        self.finding = Finding(*finding)


# What a learner most likely meant who returned no tensor, by the name of what came.
_HINTS = {
    "None": ". Is a return missing?",
    "an ellipsis": ": a ... is still to be filled in.",
    "a generator": ": a yield makes the function a generator.",
    "a coroutine": ": an async function returns a coroutine.",
}


def _type_name(value: Any) -> str:
    name = type(value).__name__
    vowel_sound = name[0] in "aeiou" or name == "ndarray"
    return "None" if value is None else f"{'an' if vowel_sound else 'a'} {name}"


def _value(outcome: Outcome, observation: Observation) -> Any:
    """Return the value of a call, or raise the finding that there is none."""
    error = outcome.error
    if not isinstance(error, TimeUp):
        observation.printed += outcome.printed
    place = f" ({outcome.place})" if outcome.place else ""
    if isinstance(error, _Found):
        raise error
    if isinstance(error, TimeUp):
        raise _Found(
            "stopped", "time", f"It was still running after {CALL_LIMIT_S:g} s and was stopped."
        )
    if isinstance(error, SystemExit):
        raise _Found("stopped", "exit", f"It ends the program (SystemExit){place}.")
    if error is not None and outcome.is_ours:
        message = (
            f"The check itself failed here, and that is the course's mistake, not yours: "
            f"{describe_error(error)}{place}."
        )
        raise _Found("check failed", type(error).__name__, message)
    if error is not None:
        said = describe_error(error)
        message = f"It raises {said}{place}."
        raise _Found("raises", type(error).__name__, message, "", "a result", said)
    return outcome.value


def _as_double(value: Tensor | Real) -> Tensor:
    if isinstance(value, Tensor):
        real = value.real if value.is_complex() else value
        return real.detach().to("cpu", torch.float64)
    return torch.tensor(float(value), dtype=torch.float64, device="cpu")


def _require_unchanged(name: str, before: Any, after: Any) -> None:
    message = f"It changes its input {name} in place; the caller still needs it."
    if isinstance(before, Tensor):
        if before.shape != after.shape:
            shapes = str(tuple(before.shape)), str(tuple(after.shape))
            raise _Found("changes", name, message, f"shape of {name} after the call", *shapes)
        is_same = torch.equal(before, after)  # fast, but for NaN
        if not (is_same or ((before == after) | (before.isnan() & after.isnan())).all()):
            values = _as_double(before), _as_double(after)
            raise _Found("changes", name, message, f"{name} after the call", *values)
    elif before != after:
        message = f"It changes the dictionary {name}; the caller still needs it as it was."
        raise _Found("changes", name, message, f"{name} after the call", str(before), str(after))


def _require_shape(name: str, output: Tensor, right: Tensor) -> None:
    came, due = tuple(output.shape), tuple(right.shape)
    if came != due:
        message = f"The {name} has the shape {came}; expected {due}.{_other_shape(output, right)}"
        raise _Found("shape", str(came), message, f"shape of {name}", str(due), str(came))


def _other_shape(output: Tensor, right: Tensor) -> str:
    """Return what is right about a result of a wrong shape, or nothing."""
    output, extra = _as_double(output), output.ndim - right.ndim
    if output.numel() == right.numel() and _near(output.reshape(right.shape), right):
        return " Its numbers are right."
    if extra > 0 and output.shape[extra:] == right.shape:
        dims = tuple(range(extra))
        if _near(output.sum(dims), right):
            return f" Summed over its first {extra} dimensions it would be right: a sum is missing."
    return ""


def _near(values: Tensor, right: Tensor) -> bool:
    error = (values - right).abs()
    return bool((error <= 1e-3 * right.abs().max()).all() and right.any())


def _require_device(name: str, output: Tensor, device: torch.device) -> None:
    if output.device.type != device.type:
        message = f"The {name} is on {output.device}; the input was on {device}."
        places = f"device of {name}", str(device), str(output.device)
        raise _Found("device", output.device.type, message, *places)


def _require_dtype(name: str, output: Tensor, expected: Expected) -> None:
    dtype = expected.dtypes.get(name)
    if dtype is not None and output.dtype != dtype:
        came, due = (str(each).removeprefix("torch.") for each in (output.dtype, dtype))
        message = f"The {name} is {came}; expected {due}, as the input."
        raise _Found("dtype", came, message, f"dtype of {name}", due, came)
    if output.is_complex():
        message = f"The {name} is complex: somewhere a negative number is raised to a power."
        raise _Found("dtype", "complex", message, f"dtype of {name}", "real", "complex")
