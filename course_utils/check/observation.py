"""What one call shows: outputs, updated arguments and gradients as float64, or the finding that stands in their way."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from course_utils.check.calls import Call
from course_utils.check.sandbox import PRINT_LIMIT, Outcome, TimeUp, TooMuchOutput

__all__ = ["Expected", "Finding", "Observation", "Observer", "trusted", "upstream"]

_MESSAGE_LENGTH = 300  # of a learner's exception; the rest is cut


@dataclass(frozen=True)
class Finding:
    """Something that a comparison of numbers cannot say: an exception, a wrong shape, a changed input.

    Two findings are of one kind when ``kind`` and ``what`` are equal; ``message`` is for the learner.
    """

    kind: str
    what: str
    message: str

    @property
    def ends_check(self) -> bool:
        """Whether it is no use to make further calls."""
        return self.kind == "stopped"


@dataclass
class Observation:
    """The quantities of one call by name (``output``, ``gradient of x``), and what stood in the way."""

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

    def __init__(self, kind: str, what: str, message: str) -> None:
        super().__init__(message)
        self.finding = Finding(kind, what, message)


def trusted(function: Callable[[], Any]) -> Outcome:
    """Call a function of the course's own, without a sandbox; its exceptions are part of what it shows."""
    outcome = Outcome()
    try:
        with torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome.value = function()
    except Exception as error:
        outcome.error = error
    return outcome


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

        Args:
            spelled_out: the same call with the defaults that depend on the dtype filled in.

        Raises:
            ValueError: the oracle does not take this call.
        """
        double = Call(spelled_out.fresh(double=True), call.axes)
        exact = self.observe(oracle, double, gradients, trusted, device=torch.device("cpu"))
        plain = self.observe(oracle, call, (), trusted)
        for finding in (exact.finding, plain.finding):
            if finding:
                raise ValueError(finding.message)
        gradient_dtypes = {f"gradient of {name}": call.arguments[name].dtype for name in gradients}
        return Expected(exact.values, plain.dtypes | gradient_dtypes)

    def expect_refusal(self, oracle: Callable[..., Any], call: Call, asks_for: str) -> Expected:
        """Return that it takes an error to be right on ``call``.

        Args:
            asks_for: what the call asks for, as a noun phrase.

        Raises:
            ValueError: the oracle takes this call.
        """
        expected = Expected({}, {}, refused=asks_for)
        if finding := self.observe(oracle, call, (), trusted, expected).finding:
            raise ValueError(finding.message)
        return expected

    def observe(
        self,
        function: Callable[..., Any],
        call: Call,
        gradients: Sequence[str],
        run: Callable[[Callable[[], Any]], Outcome],
        expected: Expected | None = None,
        device: torch.device | None = None,
    ) -> Observation:
        """Return what ``function`` shows on ``call``, forward and then, if asked for ``gradients``, backward.

        Args:
            run: makes the call: a sandbox's, or ``trusted``.
            expected: what to hold shapes, dtypes and devices against; without it only values are taken.
        """
        seen = Observation()
        try:
            self._observe_forward(seen, function, call, run, expected, device or self.device)
            if gradients:
                self._observe_backward(seen, function, call, gradients, run, device or self.device)
        except _Found as found:
            seen.finding = found.finding
        return seen

    def _observe_forward(
        self,
        seen: Observation,
        function: Callable[..., Any],
        call: Call,
        run: Callable[[Callable[[], Any]], Outcome],
        expected: Expected | None,
        device: torch.device,
    ) -> None:
        arguments = call.fresh(device)
        originals = {name: value.clone() for name, value in arguments.items() if isinstance(value, Tensor)}
        dictionaries = {name: value for name, value in call.arguments.items() if isinstance(value, dict)}
        outcome = run(self._bind(function, arguments))
        if expected is not None and expected.refused:
            self._require_refusal(outcome, seen, expected.refused)
            return
        outputs = self._named(self._value(outcome, seen), expected)
        for name, original in originals.items():
            if name not in self.updates and not _equal(arguments[name], original):
                raise _Found("changes", name, f"It changes its input {name} in place; the caller still needs it.")
        for name, dictionary in dictionaries.items():
            if arguments[name] != dictionary:
                raise _Found("changes", name, f"It changes the dictionary {name}; the caller still needs it as it was.")
        if expected is not None:
            for name, output in outputs.items():
                if isinstance(output, Tensor):
                    _hold_against(name, output, expected, device)
        outputs |= {name: arguments[name] for name in originals if name in self.updates}
        seen.dtypes |= {name: output.dtype for name, output in outputs.items() if isinstance(output, Tensor)}
        seen.values |= {name: _as_double(output) for name, output in outputs.items()}

    def _observe_backward(
        self,
        seen: Observation,
        function: Callable[..., Any],
        call: Call,
        gradients: Sequence[str],
        run: Callable[[Callable[[], Any]], Outcome],
        device: torch.device,
    ) -> None:
        arguments = call.fresh(device, track=gradients)
        sources = [arguments[name] for name in gradients]
        called = self._bind(function, arguments)

        def forward_and_backward() -> Any:
            outputs = [output for output in self._named(called(), None).values() if isinstance(output, Tensor)]
            if not any(output.requires_grad for output in outputs):
                return None
            # A scalar to differentiate: autograd.grad with grad_outputs would import sympy first, for over a second.
            reached = [(output * upstream(output)).sum() for output in outputs if output.requires_grad]
            total = torch.stack(reached).sum()
            return torch.autograd.grad(total, sources, allow_unused=True)

        found = self._value(run(forward_and_backward), seen)
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

    def _require_refusal(self, outcome: Outcome, seen: Observation, asks_for: str) -> None:
        """Raise the finding that a call was taken, or that it was stopped; any exception of its own is a refusal."""
        if isinstance(outcome.error, Exception):
            seen.lines_printed += outcome.lines_printed
            return
        self._value(outcome, seen)
        raise _Found("accepts", asks_for, f"It takes {asks_for} and raises no error.")

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
                raise _Found("type", _type_name(part), _type_message(part, "number" if wants_number else "tensor"))
            named[name] = part
        return named

    def _value(self, outcome: Outcome, seen: Observation) -> Any:
        """Return the value of a call, or raise the finding that there is none."""
        seen.lines_printed += outcome.lines_printed
        error = outcome.error
        if isinstance(error, _Found):
            raise error
        if isinstance(error, TimeUp):
            raise _Found("stopped", "time", f"It was still running after {outcome.time_allowed} and was stopped.")
        if isinstance(error, TooMuchOutput):
            raise _Found(
                "stopped", "output", f"It printed more than {PRINT_LIMIT:,} lines in one call and was stopped."
            )
        if isinstance(error, SystemExit):
            raise _Found("stopped", "exit", f"It ends the program (SystemExit){_at(outcome)}.")
        if error is not None:
            raise _Found("raises", type(error).__name__, f"It raises {_error_text(error)}{_at(outcome)}.")
        if outcome.state_changed:
            changed = " and ".join(outcome.state_changed)
            raise _Found(
                "state", changed, f"It changes {changed}, which belongs to the whole program; it was put back."
            )
        return outcome.value


def _as_double(value: Tensor | Real) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().to("cpu").double()
    try:
        number = float(value)
    except OverflowError:  # a whole number that is larger than any float64
        number = -math.inf if value < 0 else math.inf
    return torch.tensor(number, dtype=torch.float64, device="cpu")


def _equal(tensor: Tensor, original: Tensor) -> bool:
    return tensor.shape == original.shape and bool(((tensor == original) | (tensor.isnan() & original.isnan())).all())


def _hold_against(name: str, output: Tensor, expected: Expected, device: torch.device) -> None:
    wanted = expected.values[name]
    if output.shape != wanted.shape:
        shapes = f"{tuple(output.shape)}; expected {tuple(wanted.shape)}"
        raise _Found("shape", str(tuple(output.shape)), f"The {name} has the shape {shapes}.")
    dtype = expected.dtypes.get(name)
    if dtype is not None and output.dtype != dtype:
        dtypes = f"{_dtype_name(output.dtype)}; expected {_dtype_name(dtype)}, as the input"
        raise _Found("dtype", _dtype_name(output.dtype), f"The {name} is {dtypes}.")
    if output.is_complex() and not wanted.is_complex():
        raise _Found("dtype", "complex", f"The {name} is complex: somewhere a negative number is raised to a power.")
    if output.device.type != device.type:
        raise _Found("device", output.device.type, f"The {name} is on {output.device}; the input was on {device}.")


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _type_name(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _type_message(value: Any, wanted: str) -> str:
    hints = {
        "NoneType": "; is a return missing?",
        "ellipsis": "; a `...` is still to be filled in",
        "generator": "; a yield makes the function a generator",
        "coroutine": "; an async function returns a coroutine",
    }
    return f"It returns {_type_name(value)}; expected a {wanted}{hints.get(type(value).__name__, '')}."


def _error_text(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = "(its message cannot be shown)"
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    text = text[:_MESSAGE_LENGTH] + ("…" if len(text) > _MESSAGE_LENGTH else "")
    return type(error).__name__ + (f": {text.rstrip('.')}" if text else "")


def _at(outcome: Outcome) -> str:
    return f" ({outcome.place})" if outcome.place else ""
