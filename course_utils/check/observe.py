"""What one call shows, beside what is right: outputs, updated arguments and gradients, or a finding in their place."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from course_utils.check.probes import GRADIENTS, OUTPUTS, Call, Probe, Tolerance, error_ratio, largest_error, same
from course_utils.check.report import ProbeResult
from course_utils.check.sandbox import CALL_LIMIT_S, Outcome, TimeUp, trusted

__all__ = ["Compared", "Expected", "Finding", "Observation", "Observer", "upstream"]

_AS_BAD = 30.0  # a rough probe's error may be this many times the example's and still be the same mistake
_MESSAGE_LENGTH = 300  # of a learner's exception; the rest is cut


@dataclass(frozen=True)
class Finding:
    """Something that a comparison of numbers cannot say: an exception, a wrong shape, a changed input.

    Two findings are of one kind when ``kind`` and ``what`` are equal; ``message`` is for the learner. ``shown`` is a
    quantity, what it should be and what it is, where that can be shown.
    """

    kind: str
    what: str
    message: str
    shown: tuple[str, Tensor, Tensor] | None = None

    @property
    def ends_check(self) -> bool:
        """Whether it is no use to make further calls."""
        return self.kind == "stopped"


@dataclass
class Observation:
    """The quantities of one call by name (``output``, ``gradient of x``) in float64, and what stood in the way."""

    values: dict[str, Tensor] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    finding: Finding | None = None
    lines_printed: int = 0


@dataclass(frozen=True)
class Expected:
    """The right quantities in float64, and the dtype that each should come in (none for a plain number).

    Where a call is to be refused there are none, and ``refused`` says what it asks for.
    """

    values: Mapping[str, Tensor]
    dtypes: Mapping[str, torch.dtype]
    refused: str = ""


class _Found(Exception):
    """Carries a finding out of the middle of an examination."""

    def __init__(self, *finding: Any) -> None:
        self.finding = Finding(*finding)


def upstream(output: Tensor) -> Tensor:
    """Return the gradient that is sent back through ``output``: quarters from −5/4 to 5/4, exact in every dtype."""
    steps = (torch.arange(output.numel(), device=output.device) * 7 + 3) % 11 - 5
    return (steps / 4).reshape(output.shape).to(output.dtype)


@dataclass(frozen=True)
class Observer:
    """Knows what to look at: the names of what a function returns, and of the arguments that it may update."""

    required: Sequence[str]
    returns: Sequence[str]
    updates: Sequence[str]
    device: torch.device
    flatten: Callable[[Callable[..., Any]], Callable[..., Any]]

    def expect(self, oracle: Callable[..., Any], call: Call, spelled_out: Call, gradients: Sequence[str]) -> Expected:
        """Return what is right for ``call``: dtypes as ``oracle`` gives them, values as it gives them in float64.

        A call that the oracle does not take is a ``ValueError``. In ``spelled_out`` the defaults that depend on the
        dtype are filled in.
        """
        double = Call(spelled_out.fresh(double=True), call.axes)
        exact = replace(self, device=torch.device("cpu")).observe(oracle, double, gradients)
        plain = self.observe(oracle, call)
        if finding := exact.finding or plain.finding:
            raise ValueError(finding.message)
        gradient_dtypes = {f"gradient of {name}": call.arguments[name].dtype for name in gradients}
        return Expected(exact.values, plain.dtypes | gradient_dtypes)

    def observe(
        self,
        function: Callable[..., Any],
        call: Call,
        gradients: Sequence[str] = (),
        run: Callable[[Callable[[], Any]], Outcome] = trusted,
        expected: Expected | None = None,
    ) -> Observation:
        """Return what ``function`` shows on ``call``, forward and then, if asked for ``gradients``, backward.

        ``run`` makes the call: a sandbox's, or ``trusted``. Shapes, dtypes and devices are held against ``expected``;
        without it only values are taken.
        """
        seen = Observation()
        try:
            self._observe_forward(seen, function, call, run, expected)
            if gradients:
                self._observe_backward(seen, function, call, gradients, run)
        except _Found as found:
            seen.finding = found.finding
        return seen

    def _observe_forward(
        self, seen: Observation, function: Callable[..., Any], call: Call, run: Callable, expected: Expected | None
    ) -> None:
        arguments = call.fresh(self.device)
        originals = call.fresh(self.device)
        outcome = run(self._bind(function, arguments))
        if expected is not None and expected.refused:
            if not isinstance(outcome.error, Exception):  # any exception of its own is a refusal
                _value(outcome, seen)
                raise _Found("accepts", expected.refused, f"It takes {expected.refused} and raises no error.")
            return
        outputs = self._named(_value(outcome, seen), expected)
        for name, before in originals.items():
            if name not in self.updates:
                _require_unchanged(name, before, arguments[name])
        if expected is not None:
            for name, output in outputs.items():
                if isinstance(output, Tensor):
                    _hold_against(name, output, expected, self.device)
        outputs |= {name: arguments[name] for name, _ in call.tensors() if name in self.updates}
        seen.dtypes |= {name: output.dtype for name, output in outputs.items() if isinstance(output, Tensor)}
        seen.values |= {name: _as_double(output) for name, output in outputs.items()}

    def _observe_backward(
        self, seen: Observation, function: Callable[..., Any], call: Call, gradients: Sequence[str], run: Callable
    ) -> None:
        arguments = call.fresh(self.device, track=gradients)
        sources = [arguments[name] for name in gradients]
        called = self._bind(function, arguments)

        def forward_and_backward() -> Any:
            outputs = [output for output in self._named(called(), None).values() if isinstance(output, Tensor)]
            # A scalar to differentiate: autograd.grad with grad_outputs would import sympy first, for over a second.
            reached = [(output * upstream(output)).sum() for output in outputs if output.requires_grad]
            return torch.autograd.grad(torch.stack(reached).sum(), sources, allow_unused=True) if reached else None

        found = _value(run(forward_and_backward), seen)
        for name in self.updates:
            if isinstance(arguments.get(name), Tensor) and arguments[name].requires_grad:
                message = f"It leaves {name} attached to the graph of this step ({name}.requires_grad is True)."
                raise _Found("graph", name, message)
        if found is None:
            raise _Found("no gradient", "output", "No gradient flows back: the output is cut off from its inputs.")
        for name, gradient in zip(gradients, found, strict=True):
            if gradient is None:
                raise _Found("no gradient", name, f"No gradient reaches {name}: it is cut off from the output.")
            seen.values[f"gradient of {name}"] = _as_double(gradient)

    def _bind(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
        """Pass what is required by position, as F.layer_norm(x, (4,)) is called, and what is optional by keyword."""
        positional = [arguments[name] for name in self.required]
        keywords = {name: value for name, value in arguments.items() if name not in self.required}
        return lambda: self.flatten(function)(*positional, **keywords)

    def _named(self, value: Any, expected: Expected | None) -> dict[str, Tensor | Real]:
        """Name the parts of a returned value: tensors, and numbers where a quantity has no axes."""
        parts = (value,) if len(self.returns) == 1 else value
        if not isinstance(parts, tuple | list) or len(parts) != len(self.returns):
            wanted = " and ".join(self.returns)
            raise _Found("type", _type_name(value), f"It returns {_type_name(value)}; expected a tuple of {wanted}.")
        named: dict[str, Tensor | Real] = {}
        for name, part in zip(self.returns, parts, strict=True):
            wants_number = expected is not None and not expected.values[name].ndim
            is_number = isinstance(part, Real) and (expected is None or wants_number)  # numpy's numbers are Real too
            if not isinstance(part, Tensor) and not is_number:
                what = f"{_type_name(part)} for {name}" if len(self.returns) > 1 else _type_name(part)
                wanted, hint = "number" if wants_number else "tensor", _HINTS.get(what, "")
                raise _Found("type", what, f"It returns {what}; expected a {wanted}{hint}.")
            named[name] = part
        return named


@dataclass(frozen=True)
class Compared:
    """What a function showed on a probe, beside what is right."""

    probe: Probe
    expected: Expected
    seen: Observation

    def tolerance(self, name: str) -> Tolerance:
        """Return what is still right for a quantity: the probe's own tolerance, or its dtype's."""
        is_gradient = name.startswith("gradient")
        own, by_dtype = (None, GRADIENTS) if is_gradient else (self.probe.tolerance, OUTPUTS)
        return own or by_dtype.get(self.expected.dtypes.get(name, torch.float64), OUTPUTS[torch.float64])

    @cached_property
    def ratios(self) -> dict[str, float]:
        """The error of every quantity that there is, in units of what is allowed."""
        return {
            name: error_ratio(self.seen.values[name], self.expected.values[name], self.tolerance(name))
            for name in self.probe.compares or self.expected.values
            if name in self.seen.values
        }

    @cached_property
    def rounding(self) -> dict[str, Tensor]:
        """How far off another way of writing the same mistake may be in every quantity."""
        return {name: self.tolerance(name).between(values) for name, values in self.seen.values.items()}

    @property
    def worst(self) -> str:
        """The quantity that is most wrong, or nothing."""
        name = max(self.ratios, key=lambda name: self.ratios[name], default="")
        return name if name and self.ratios[name] > 1 else ""

    @property
    def passed(self) -> bool:
        """Whether everything compared is right."""
        return not self.seen.finding and not self.worst

    @property
    def deserves_remark(self) -> bool:
        """Whether what passed is less exact than the probe's remark is about."""
        stricter = replace(self.probe, tolerance=self.probe.remark_beyond)
        return bool(self.probe.remark and replace(self, probe=stricter).worst)

    def result(self) -> ProbeResult:
        """Return the line of a report about this probe."""
        error = largest_error(self.seen.values[self.worst], self.expected.values[self.worst]) if self.worst else 0.0
        finding = self.seen.finding.message if self.seen.finding else ""
        return ProbeResult(self.probe.name, self.probe.stage, self.passed, self.worst, error, finding, self.probe.rough)

    def agrees_with(self, example: "Compared") -> bool:
        """Return whether this is what the example of a mistake shows on the same probe."""
        mine, theirs = self.seen.finding, example.seen.finding
        if mine or theirs:
            return bool(mine and theirs and (mine.kind, mine.what) == (theirs.kind, theirs.what))
        return all(self._agrees_on(name, self.ratios[name], ratio, example) for name, ratio in example.ratios.items())

    def _agrees_on(self, name: str, ratio: float, example_ratio: float, example: "Compared") -> bool:
        if ratio <= 1 or example_ratio <= 1:
            return ratio <= 1 and example_ratio <= 1
        if self.probe.rough:
            return ratio <= _AS_BAD * example_ratio and math.isfinite(ratio) == math.isfinite(example_ratio)
        return same(self.seen.values[name], example.seen.values[name], example.rounding[name])


# What a learner most likely meant who returned no tensor, by the name of what came.
_HINTS = {
    "None": "; is a return missing?",
    "an ellipsis": "; a `...` is still to be filled in",
    "a generator": "; a yield makes the function a generator",
    "a coroutine": "; an async function returns a coroutine",
}


def _type_name(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _value(outcome: Outcome, seen: Observation) -> Any:
    """Return the value of a call, or raise the finding that there is none."""
    seen.lines_printed += outcome.lines_printed
    error, at = outcome.error, f" ({outcome.place})" if outcome.place else ""
    if isinstance(error, _Found):
        raise error
    if isinstance(error, TimeUp):
        raise _Found("stopped", "time", f"It was still running after {CALL_LIMIT_S:g} s and was stopped.")
    if isinstance(error, SystemExit):
        raise _Found("stopped", "exit", f"It ends the program (SystemExit){at}.")
    if error is not None:
        raise _Found("raises", type(error).__name__, f"It raises {_error_text(error)}{at}.")
    if outcome.state_changed:
        changed = " and ".join(outcome.state_changed)
        raise _Found("state", changed, f"It changes {changed}, which belongs to the whole program; it was put back.")
    return outcome.value


def _error_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    text = text[:_MESSAGE_LENGTH] + ("…" if len(text) > _MESSAGE_LENGTH else "")
    return type(error).__name__ + (f": {text.rstrip('.')}" if text else "")


def _as_double(value: Tensor | Real) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", torch.float64)
    return torch.tensor(float(value), dtype=torch.float64, device="cpu")


def _require_unchanged(name: str, before: Any, after: Any) -> None:
    if isinstance(before, Tensor):
        if before.shape != after.shape or not ((before == after) | (before.isnan() & after.isnan())).all():
            shown = (f"{name} after the call", _as_double(before), _as_double(after))
            raise _Found("changes", name, f"It changes its input {name} in place; the caller still needs it.", shown)
    elif before != after:
        raise _Found("changes", name, f"It changes the dictionary {name}; the caller still needs it as it was.")


def _hold_against(name: str, output: Tensor, expected: Expected, device: torch.device) -> None:
    wanted, dtype = expected.values[name], expected.dtypes.get(name)
    came, due = (str(one).removeprefix("torch.") for one in (output.dtype, dtype))
    if output.shape != wanted.shape:
        shapes = f"{tuple(output.shape)}; expected {tuple(wanted.shape)}"
        raise _Found("shape", str(tuple(output.shape)), f"The {name} has the shape {shapes}.")
    if dtype is not None and output.dtype != dtype:
        raise _Found("dtype", came, f"The {name} is {came}; expected {due}, as the input.")
    if output.is_complex() and not wanted.is_complex():
        raise _Found("dtype", "complex", f"The {name} is complex: somewhere a negative number is raised to a power.")
    if output.device.type != device.type:
        raise _Found("device", output.device.type, f"The {name} is on {output.device}; the input was on {device}.")
