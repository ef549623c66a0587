"""Mine against reference, both held against float64.

Agreeing with a built-in is not the same as being right: in half precision, or far from zero, the
built-in errs too. So every comparison here runs three times: yours, the reference, and the
reference in float64, which is the truth.
"""

import contextlib
import copy
import functools
import inspect
import math
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_utils.session import generator
from course_utils.table import Table
from course_utils.verify.adapter import Adapted, adapt
from course_utils.verify.cases import Case, cases_for, name_of
from course_utils.verify.diagnosis import diagnose
from course_utils.verify.subject import cast, drawn, normal, said

__all__ = ["Comparison", "Line", "assert_close", "compare", "max_error"]

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Line:
    """The worst case of one quantity in one dtype: both errors against float64 and what was
    allowed."""

    quantity: str
    dtype: str
    case: str
    mine: float = 0.0
    reference: float = 0.0
    allowed: float = 0.0
    note: str = ""
    remark: str = ""  # a convention, no difference
    # by mine, where the reference raised nothing like it
    raised: Exception | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Whether mine is within what is allowed; a NaN never is."""
        return not self.note and self.mine <= self.allowed

    @property
    def verdict(self) -> str:
        """A few words for the table."""
        if not self.ok:
            return self.note or "differs"
        if self.remark:
            return f"ok, {self.remark}"
        closer = self.reference > max(2 * self.mine, self.allowed / 4)
        return "ok, closer than the reference" if closer else "ok"


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found, a line a quantity and dtype; a table in a notebook and in a
    terminal."""

    mine: str
    reference: str
    lines: Sequence[Line]
    cases: int
    why: Sequence[str] = ()  # what kind of difference it is, by the probes of ``diagnose``
    not_compared: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether every line is."""
        return all(line.ok for line in self.lines)

    def require(self) -> None:
        """Raise ``AssertionError`` with the lines that failed, if any did, from the exception of
        mine."""
        failed = [line for line in self.lines if not line.ok]
        if failed:
            cause = next((line.raised for line in failed if line.raised is not None), None)
            raise AssertionError(
                f"{self.mine} differs from {self.reference}:\n{self._table(failed)!r}{self._more()}"
            ) from cause

    def _table(self, lines: Sequence[Line], folded: bool = False) -> Table:
        rows = [
            (line.quantity, line.dtype, line.case, line.mine, line.reference, line.verdict)
            for line in lines
        ]
        columns = ("quantity", "dtype", "worst case", self.mine, self.reference, "verdict")
        caption = (
            self.summary() if folded else f"Largest error against float64 over {self.cases} cases"
        )
        return Table(columns, rows, caption, folded)

    def summary(self) -> str:
        """Return one line without raw floats, the same on every machine."""
        failed = [f"{ln.quantity} ({ln.dtype}, {ln.case})" for ln in self.lines if not ln.ok]
        outcome = f"differs in {', '.join(failed)}" if failed else "all agree"
        return (
            f"{self.mine} against {self.reference}: {len(self.lines)} quantities over "
            f"{self.cases} cases, {outcome}"
        )

    def _more(self) -> str:
        missing = [f"not compared: {what}" for what in self.not_compared]
        return "".join(f"\n{line}" for line in [*self.why, *missing])

    def __repr__(self) -> str:
        return (self.summary() if self.ok else repr(self._table(self.lines))) + self._more()

    def _repr_html_(self) -> str:
        more = "".join(f"<p>{escape(line)}</p>" for line in self._more().splitlines() if line)
        return self._table(self.lines, folded=self.ok)._repr_html_() + more


def compare(
    mine: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    cases: Sequence[Case] | None = None,
    *,
    truth: Callable[..., Tensor] | None = None,
    dtypes: Sequence[torch.dtype] = DTYPES,
    names: Mapping[str, str] | None = None,
    axes: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two functions or two modules: outputs, gradients, buffers, train and eval,
    ``state_dict``, dtypes.

    A line passes when the error of ``mine`` against float64 is at most twice the reference's, or
    within what rounding alone explains: how far the truth itself moves when every input moves by a
    few units in the last place of the arithmetic (float32 for half-precision inputs), plus one
    rounding of the result. Where ``mine`` reads no more of a float64 input than float32 holds, its
    arithmetic is float32, and the line says so. One object is also called twice: after another
    dtype, after each other length among the cases, and, where a case has an option ``positions``
    (T,), on the last of them alone, which must be the end of the whole.

    Args:
        mine: a function ``fn(x, **options)`` or an ``nn.Module``, with any names of parameters.
        reference: what it should equal, of the same kind.
        cases: the calls to make, by default ``cases_for(reference)``. ``mine`` must refuse those
            that the reference refuses; where both refuse a call of yours, nothing has been
            compared, and that is a line that differs.
        truth: a function to run in float64 instead of ``reference``.
        dtypes: the dtypes to try.
        names: which parameter of ``mine`` is which of the reference, ``{"gain": "weight"}``; by
            default those that do the same, found by setting them.
        axes: the order of the axes that each takes, such as ``("NHWC", "NCHW")``; by default the
            same.
    """
    may_refuse = cases is None
    cases = cases_for(reference) if cases is None else cases
    if not cases or not dtypes:
        raise ValueError(f"cases and dtypes must not be empty: got {cases!r} and {dtypes!r}")
    adapted = adapt(mine, reference, cases[0].x, names, axes)
    first = _with_state(_cast(cases[0], torch.float64), reference)
    reads_float32 = (_reads_float32(fn, first) for fn in (reference, adapted))
    in_float32 = torch.float64 in dtypes and [*reads_float32] == [False, True]
    worst: dict[tuple[str, str], Line] = {}
    for dtype in dtypes:
        for case in cases:
            exact = truth or reference
            for line in _lines(adapted, reference, exact, case, dtype, may_refuse, in_float32):
                key = (line.quantity, line.dtype)
                worst[key] = max(worst.get(key, line), line, key=_severity)
    lines = [*worst.values(), *_twice(adapted, reference, cases)]
    not_compared: list[str] = []
    if isinstance(mine, nn.Module) and isinstance(reference, nn.Module):
        if isinstance(adapted, Adapted) and adapted.names:
            others = [f"{own} for {name}" for own, name in adapted.names.items() if own != name]
            remark = f"under other names: {', '.join(others)}" if others else ""
            lines.append(Line("state_dict both ways", "any", "strict", remark=remark))
            not_compared = adapted.left
        else:
            lines.append(_state_dict_line(mine, reference))
    built_in = " (built-in)" if _is_torchs(reference) else ""
    comparison = Comparison(
        name_of(mine, "mine"), f"{name_of(reference, 'reference')}{built_in}", lines, len(cases)
    )
    longest = max(cases, key=lambda case: case.x.numel())
    why = [] if comparison.ok else _why(adapted, reference, longest)
    return replace(comparison, why=why, not_compared=not_compared)


def _why(mine: Any, reference: Any, case: Case) -> list[str]:
    """What ``diagnose`` answers otherwise for the two, in words; nothing where it cannot be
    asked."""
    answers = []
    for fn in (mine, reference):
        call = fn
        if not isinstance(fn, nn.Module):
            plain = {k: v for k, v in case.options.items() if k not in ("weight", "bias")}
            call = functools.partial(fn, **plain)
        try:
            found = diagnose(call, case.x.clone())
            weights = [p.form for p in found.parameters if p.role == "γ"]
            answers.append({**found.answers, "weight": ", ".join(weights) or "none"})
        except Exception:
            return []
    own, others = answers
    both = [question for question in own if question in others and question != "parameters"]
    return [f"{q}: {own[q]}, not {others[q]}" for q in both if own[q] != others[q]]


def _twice(mine: Any, reference: Any, cases: Sequence[Case]) -> Iterator[Line]:
    """A line where mine, and not the reference, answers otherwise after a call in another dtype or
    of another length, or makes of the last of ``positions`` alone what is not the last of all."""
    longest = _cast(max(cases, key=lambda case: case.x.numel()), torch.float32)
    calls = [(longest, _cast(longest, dtype), longest) for dtype in DTYPES[2:]]
    for other in {case.x.shape: _cast(case, torch.float32) for case in reversed(cases)}.values():
        calls += [(longest, other, longest), (other, longest, other)]
    positions = longest.options.get("positions")
    if isinstance(positions, Tensor) and positions.dim() == 1:
        last = longest.x.narrow(longest.x.shape.index(len(positions)), -1, 1)
        options = {**longest.options, "positions": positions[-1:]}
        calls.append((longest, longest, Case("the last position alone", last, options)))
    for whole, before, case in calls:
        own, others = (_after(fn, whole, before, case) for fn in (mine, reference))
        if own > others + 1e-6 * (whole is before):  # a shorter call may round otherwise
            after = f"{case.name} after {before.name}"
            if before.x.dtype != torch.float32:
                after = f"float32 after {_short(before.x.dtype)}"
            note = f"{after} is off by {own:.2g}: something is kept"
            yield Line("called twice", "float32", case.name, own, others, 0.0, note)
            return


@torch.no_grad()
def _after(fn: Any, whole: Case, before: Case, case: Case) -> float:
    """How far an object that has made another call is from the end of what a fresh one makes of
    the whole; NaN where one raises, which has a line of its own. A function is one object: what it
    has kept by now, it has kept."""

    def call(layer: Any, case: Case) -> Tensor:
        return layer(case.x, **copy.deepcopy(dict(case.options)))

    is_module = isinstance(fn, nn.Module)
    fresh, used = (copy.deepcopy(fn).eval() if is_module else fn for _ in range(2))
    try:
        expected = call(fresh, whole).double()
        # it may refuse the dtype, or warn of the mix of dtypes that is asked for here
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(used, before)
        y = call(used, case)
    except Exception:
        return math.nan
    return _distance(y, expected[tuple(slice(-n, None) for n in y.shape)])


def max_error(
    fn: Callable[..., Tensor],
    x: Tensor,
    *,
    truth: Callable[..., Tensor] | None = None,
    **options: Any,
) -> float:
    """Return the largest absolute error of ``fn(x)`` against ``truth(x)`` in float64 (NaN if there
    is one).

    ``truth`` is run in float64; by default it is ``fn`` itself, which shows rounding alone. Both
    get ``options``.
    """
    exact = {name: cast(value, torch.float64) for name, value in options.items()}
    expected = (truth or fn)(x.double(), **exact)
    return (fn(x, **options).double() - expected).abs().max().item()


def assert_close(name: str, mine: Tensor, expected: Tensor, within: float) -> None:
    """Assert that two tensors differ by at most ``within`` (absolute) and in no shape, and print so
    in one line."""
    if mine.shape != expected.shape:
        raise AssertionError(f"{name}: shape {tuple(mine.shape)}, expected {tuple(expected.shape)}")
    if not mine.numel():
        raise ValueError(
            f"mine and expected must hold at least one number: got shape {tuple(mine.shape)}"
        )
    difference = (mine.to(torch.complex128) - expected).abs()
    difference = difference.nan_to_num(nan=math.inf, posinf=math.inf)
    difference = difference.masked_fill(mine == expected, 0.0)  # the same infinity on both sides
    largest = difference.max().item()
    if largest > within:
        at = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
        raise AssertionError(f"{name}: off by {largest:.3g} at {at}, expected within {within:g}")
    print(f"✓ {name}: equal within {within:g}" if within else f"✓ {name}: equal")


@dataclass(frozen=True)
class Observation:
    """What a call produced, by name: output, gradients, buffers; or the exception that it
    raised."""

    values: Mapping[str, Tensor] = field(default_factory=dict)
    error: Exception | None = None
    keeps_upstream: bool = True  # the gradient that its backward was handed

    @property
    def kind(self) -> str:
        """The type of the exception, "nothing" where there is none."""
        return "nothing" if self.error is None else type(self.error).__name__


def _lines(
    mine: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    truth: Callable[..., Tensor],
    case: Case,
    dtype: torch.dtype,
    may_refuse: bool,
    in_float32: bool,
) -> Iterator[Line]:
    """Yield a line for every quantity that one call of each produces."""
    case = _with_state(_cast(case, dtype), reference)
    name = _short(dtype)
    by_mine, by_reference = (_observe(fn, case, dtype) for fn in (mine, reference))
    if by_mine.error or by_reference.error:
        note = _about_errors(mine, by_mine, by_reference, may_refuse)
        yield Line("error raised", name, case.name, note=note, raised=by_mine.error)
        return
    if by_reference.keeps_upstream and not by_mine.keeps_upstream:
        note = "overwritten: a residual needs it still"
        yield Line("gradient that it was handed", name, case.name, math.nan, note=note)
    # Rounding alone may move a value by four units in the last place of the arithmetic: a mean
    # carries the rounding of every addition. In float64 the truth is the reference itself, so its
    # own rounding is not measured apart; a sum of n numbers drifts by about √n units.
    units, remark, unit = 4 * torch.finfo(torch.float32).eps, "", torch.finfo(dtype).eps
    if dtype == torch.float64 and in_float32:
        remark, unit = "computes in float32 inside", torch.finfo(torch.float32).eps
    elif dtype == torch.float64:
        units = 4 * unit * case.x.numel() ** 0.5
    exact, moved = (_observe(truth, case, torch.float64, step) for step in (0.0, units))
    if exact.error or moved.error:
        raise exact.error or moved.error  # type: ignore[misc]
    for quantity, expected in by_reference.values.items():
        got, true = by_mine.values.get(quantity), exact.values[quantity]
        note = _structure(got, expected)
        if got is None or note:
            yield Line(quantity, name, case.name, math.nan, note=note)
            continue
        reference_error, rounding = (
            _distance(expected, true),
            _distance(moved.values[quantity], true),
        )
        size = true.abs().nan_to_num().amax().item() if true.numel() else 0.0
        allowed = max(2 * reference_error, 2 * rounding + unit * size)
        errors = (_distance(got, true), reference_error, allowed)
        yield Line(quantity, name, case.name, *errors, remark=remark)


def _reads_float32(fn: Any, case: Case) -> bool:
    """Whether ``fn`` makes bit for bit the same of x and of x rounded to float32."""
    rounded = replace(case, x=case.x.float().double())
    a, b = (_observe(fn, c, torch.float64).values.get("output") for c in (case, rounded))
    return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)


def _about_errors(
    mine: Any, by_mine: Observation, by_reference: Observation, may_refuse: bool
) -> str:
    """What is wrong where at least one of the two raised; nothing if ``mine`` refuses what the
    reference refuses."""
    if by_mine.kind != by_reference.kind:
        instead = f", not {by_reference.kind}" if by_reference.error or not by_mine.error else ""
        return f"raises {_said(by_mine, mine)}{instead}"
    # the mistake may be in the case itself
    return "" if may_refuse else f"both raise {_said(by_reference)}"


def _said(observation: Observation, fn: Any = None) -> str:
    """The exception with its message and, where it left ``fn``, the line of the file or cell that
    has ``fn``."""
    if observation.error is None:
        return "nothing"
    function = type(fn).forward if isinstance(fn, nn.Module) else inspect.unwrap(fn) if fn else None
    code = getattr(function, "__code__", None)
    frames = traceback.extract_tb(observation.error.__traceback__)
    lines = [frame.lineno for frame in frames if code and frame.filename == code.co_filename]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{said(observation.error, 200)}{place}"


def _state_dict_line(mine: nn.Module, reference: nn.Module) -> Line:
    keys, expected = list(mine.state_dict()), list(reference.state_dict())
    note = "" if keys == expected else f"keys {keys}, not {expected}"
    try:
        # same names and shapes: the way back works, too
        copy.deepcopy(mine).load_state_dict(reference.state_dict())
    except RuntimeError as raised:
        note = str(raised).splitlines()[-1].strip()
    return Line("state_dict both ways", "any", "strict", note=note)


def _structure(got: Any, expected: Tensor) -> str:
    if not isinstance(got, Tensor):
        return "missing" if got is None else f"returns {type(got).__name__}, not a tensor"
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)}, not {tuple(expected.shape)}"
    return "" if got.dtype == expected.dtype else f"dtype {got.dtype}, not {expected.dtype}"


def _distance(got: Tensor, exact: Tensor) -> float:
    """Return the largest absolute difference; a NaN where the truth has one is no difference,
    elsewhere infinite."""
    difference = (got.detach().double() - exact.detach()).abs()
    same = (got.isnan() & exact.isnan()) | (got == exact)
    difference = torch.where(same, 0.0, difference.nan_to_num(nan=math.inf))
    return difference.max().item() if difference.numel() else 0.0


def _severity(line: Line) -> float:
    """Rank lines of one quantity: a structural note first, then the error as a share of what is
    allowed."""
    if line.note:
        return math.inf
    # where the reference is no better, inf / inf would be a NaN
    if line.mine == 0 or line.allowed == math.inf:
        return 0.0
    return line.mine / line.allowed if line.allowed else math.inf


def _is_torchs(fn: Any) -> bool:
    owner = type(fn) if isinstance(fn, nn.Module) else fn
    return f"{getattr(owner, '__module__', '')}.".startswith("torch.")


# -- one call, and everything that it produces by name: outputs, gradients, buffers


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _cast(case: Case, dtype: torch.dtype) -> Case:
    options = {name: cast(value, dtype) for name, value in case.options.items()}
    return Case(case.name, case.x.to(dtype), options)


def _with_state(case: Case, reference: Any) -> Case:
    """For a module, a case whose options are a state that no default can imitate, of the dtype of
    x: a module is run as the function of its state that it is."""
    if not isinstance(reference, nn.Module):
        return case
    state = reference.state_dict()
    for seed, (name, value) in enumerate(state.items()):
        if value.is_floating_point():  # a variance stays positive
            state[name] = drawn(value.shape, seed).to(case.x.dtype)
    return replace(case, options=state)


def _observe(
    fn: Callable[..., Tensor], case: Case, dtype: torch.dtype, step: float = 0.0
) -> Observation:
    """Run ``fn`` in ``dtype`` on fresh copies and return every quantity to compare by name, or the
    exception that it raised. ``step`` moves every value of the case by this share of its size."""

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        value = cast(value, dtype).detach().clone(memory_format=torch.preserve_format)
        if not step or not value.is_floating_point():
            return value
        sign = torch.randint(0, 2, value.shape, generator=generator(5)).double() * 2 - 1
        return value * (1 + step * sign)

    module = copy.deepcopy(fn).to(dtype).train() if isinstance(fn, nn.Module) else None
    x, options = moved(case.x).requires_grad_(), {k: moved(v) for k, v in case.options.items()}
    handed = moved(normal(x.shape, 6).to(case.x.dtype))
    kept = handed.clone()
    # are changed in place
    buffers = dict(module.named_buffers()) if module else ("running_mean", "running_var")
    floats = {k: v for k, v in options.items() if isinstance(v, Tensor) and v.is_floating_point()}
    leaves = {"x": x} | {k: v.requires_grad_() for k, v in floats.items() if k not in buffers}
    try:
        y = functional_call(module, options, x, strict=True) if module else fn(x, **options)
        # What y does not depend on has a gradient of zero, and that is what the reference's is held
        # against.
        gradients = torch.autograd.grad(
            y, [*leaves.values()], handed, allow_unused=True, materialize_grads=True
        )
        names = (f"gradient of {name}" for name in leaves)
        values = {"output": y, **dict(zip(names, gradients, strict=True))}
        if module:
            with torch.no_grad():
                values["output in eval"] = functional_call(module.eval(), options, x)
    except Exception as error:
        return Observation(error=error)
    values |= {name: value for name, value in floats.items() if name in buffers}
    return Observation(values, keeps_upstream=torch.equal(handed, kept))
