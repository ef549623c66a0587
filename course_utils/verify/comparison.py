"""Mine against reference, both held against float64 (used in all chapters).

Agreeing with a built-in is not the same as being right: in half precision, or far from zero, the
built-in errs too. So every comparison here runs three times: yours, the reference, and the
reference in float64, which is the truth.
"""

import copy
import inspect
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_utils.session import generator
from course_utils.table import Table

__all__ = ["Case", "Comparison", "Line", "assert_close", "cases_for", "compare", "max_error"]

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Case:
    """One call: ``fn(x, **options)``. Tensors are given in float64 and cast to each dtype tried."""

    name: str
    x: Tensor
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """The worst case of one quantity in one dtype: both errors against float64 and what was
    allowed."""

    quantity: str
    dtype: str
    case: str
    mine: float
    reference: float
    allowed: float
    note: str = ""
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
        return (
            "ok, closer than the reference"
            if self.reference > max(2 * self.mine, self.allowed / 4)
            else "ok"
        )


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found, a line a quantity and dtype; a table in a notebook and in a
    terminal."""

    mine: str
    reference: str
    lines: Sequence[Line]
    cases: int

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
                f"{self.mine} differs from {self.reference}:\n{self._table(failed)!r}"
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
        failed = [
            f"{line.quantity} ({line.dtype}, {line.case})" for line in self.lines if not line.ok
        ]
        checked = (
            f"{self.mine} against {self.reference}: {len(self.lines)} quantities over "
            f"{self.cases} cases"
        )
        return (
            f"{checked}, all agree" if not failed else f"{checked}, differs in {', '.join(failed)}"
        )

    def __repr__(self) -> str:
        return self.summary() if self.ok else repr(self._table(self.lines))

    def _repr_html_(self) -> str:
        return self._table(self.lines, folded=self.ok)._repr_html_()


def compare(
    mine: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    cases: Sequence[Case] | None = None,
    *,
    truth: Callable[..., Tensor] | None = None,
    dtypes: Sequence[torch.dtype] = DTYPES,
) -> Comparison:
    """Compare two functions or two modules: outputs, gradients, buffers, train and eval,
    ``state_dict``, dtypes.

    A line passes when the error of ``mine`` against float64 is at most twice the reference's, or
    within what rounding alone explains: how far the truth itself moves when every input moves by a
    few units in the last place of the arithmetic (float32 for half-precision inputs), plus one
    rounding of the result.

    Args:
        mine: a function ``fn(x, **options)`` or an ``nn.Module``.
        reference: what it should equal, of the same kind.
        cases: the calls to make, by default ``cases_for(reference)``. ``mine`` must refuse those
            that the reference refuses; where both refuse a call of yours, nothing has been
            compared, and that is a line that differs.
        truth: a function to run in float64 instead of ``reference``.
        dtypes: the dtypes to try.
    """
    may_refuse = cases is None
    cases = cases_for(reference) if cases is None else cases
    if not cases or not dtypes:
        raise ValueError(f"cases and dtypes must not be empty: got {cases!r} and {dtypes!r}")
    worst: dict[tuple[str, str], Line] = {}
    for dtype in dtypes:
        for case in cases:
            for line in _lines(
                mine, reference, truth or reference, _cast(case, dtype), dtype, may_refuse
            ):
                key = (line.quantity, line.dtype)
                worst[key] = max(worst.get(key, line), line, key=_severity)
    lines = list(worst.values())
    if isinstance(mine, nn.Module) and isinstance(reference, nn.Module):
        lines.append(_state_dict_line(mine, reference))
    built_in = " (built-in)" if _is_torchs(reference) else ""
    return Comparison(
        _name(mine, "mine"), f"{_name(reference, 'reference')}{built_in}", lines, len(cases)
    )


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
    expected = (truth or fn)(
        x.double(), **{name: _to_dtype(value, torch.float64) for name, value in options.items()}
    )
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
    difference = (
        (mine.to(torch.complex128) - expected.to(torch.complex128))
        .abs()
        .nan_to_num(nan=math.inf, posinf=math.inf)
    )
    difference = difference.masked_fill(mine == expected, 0.0)  # the same infinity on both sides
    largest = difference.max().item()
    if not largest <= within:
        at = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
        raise AssertionError(f"{name}: off by {largest:.3g} at {at}, expected within {within:g}")
    print(f"✓ {name}: equal within {within:g}" if within else f"✓ {name}: equal")


@dataclass(frozen=True)
class Observation:
    """What a call produced, by name: output, gradients, buffers; or the exception that it
    raised."""

    values: Mapping[str, Tensor] = field(default_factory=dict)
    error: Exception | None = None

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
) -> Iterator[Line]:
    """Yield a line for every quantity that one call of each produces."""
    name = str(dtype).removeprefix("torch.")
    by_mine = _observe(mine, reference, case, dtype)
    by_reference = _observe(reference, reference, case, dtype)
    if by_mine.error or by_reference.error:
        note = _about_errors(mine, by_mine, by_reference, may_refuse)
        yield Line("error raised", name, case.name, 0.0, 0.0, 0.0, note, by_mine.error)
        return
    # Rounding alone may move a value by four units in the last place of the arithmetic: a mean
    # carries the rounding of every addition. In float64 the truth is the reference itself, so its
    # own rounding is not measured apart; a sum of n numbers drifts by about √n units.
    units = 4 * torch.finfo(torch.float32).eps
    if dtype == torch.float64:
        units = 4 * torch.finfo(torch.float64).eps * case.x.numel() ** 0.5
    in_float64 = _cast(case, torch.float64)
    exact = _observe(truth, reference, in_float64, torch.float64, rounded_to=dtype)
    moved = _observe(truth, reference, in_float64, torch.float64, rounded_to=dtype, step=units)
    if exact.error or moved.error:
        raise exact.error or moved.error  # type: ignore[misc]
    for quantity, expected in by_reference.values.items():
        got = by_mine.values.get(quantity)
        note = _structure(got, expected) if quantity in by_mine.values else "missing"
        if note:
            yield Line(quantity, name, case.name, math.nan, 0.0, 0.0, note)
            continue
        true = exact.values[quantity]
        mine_error = _distance(got, true)
        reference_error = _distance(expected, true)
        rounding = _distance(moved.values[quantity], true)
        size = true.abs().nan_to_num().amax().item() if true.numel() else 0.0
        allowed = max(2 * reference_error, 2 * rounding + torch.finfo(dtype).eps * size)
        yield Line(quantity, name, case.name, mine_error, reference_error, allowed)


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
    error = observation.error
    if error is None:
        return "nothing"
    message = (str(error).splitlines() or [""])[0][:200]
    function = type(fn).forward if isinstance(fn, nn.Module) else inspect.unwrap(fn) if fn else None
    code = getattr(function, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if code and frame.filename == code.co_filename]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{observation.kind}: {message}{place}"


def _state_dict_line(mine: nn.Module, reference: nn.Module) -> Line:
    keys, expected = list(mine.state_dict()), list(reference.state_dict())
    note = "" if keys == expected else f"keys {keys}, not {expected}"
    try:
        # same names and shapes: the way back works, too
        copy.deepcopy(mine).load_state_dict(reference.state_dict())
    except RuntimeError as raised:
        note = str(raised).splitlines()[-1].strip()
    return Line("state_dict both ways", "any", "strict", 0.0, 0.0, 0.0, note)


def _structure(got: Any, expected: Tensor) -> str:
    if not isinstance(got, Tensor):
        return f"returns {type(got).__name__}, not a tensor"
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)}, not {tuple(expected.shape)}"
    return "" if got.dtype == expected.dtype else f"dtype {got.dtype}, not {expected.dtype}"


def _distance(got: Any, exact: Tensor) -> float:
    """Return the largest absolute difference; a NaN where the truth has one is no difference,
    elsewhere infinite."""
    got = got.detach()
    difference = (got.double() - exact.detach()).abs()
    same = (got.isnan() & exact.isnan()) | (got == exact)
    difference = torch.where(same, 0.0, difference.nan_to_num(nan=math.inf))
    return difference.max().item() if difference.numel() else 0.0


def _severity(line: Line) -> float:
    """Rank lines of one quantity: a structural note first, then the error as a share of what is
    allowed."""
    if line.note:
        return math.inf
    if (
        line.mine == 0 or line.allowed == math.inf
    ):  # the reference is no better: inf / inf would be a NaN
        return 0.0
    return line.mine / line.allowed if line.allowed else math.inf


def _name(fn: Any, otherwise: str) -> str:
    return type(fn).__name__ if isinstance(fn, nn.Module) else getattr(fn, "__name__", otherwise)


def _is_torchs(fn: Any) -> bool:
    module = type(fn).__module__ if isinstance(fn, nn.Module) else getattr(fn, "__module__", None)
    return module is not None and module.partition(".")[0] == "torch"


# -- one call, and everything that it produces by name: outputs, gradients, buffers


def _cast(case: Case, dtype: torch.dtype) -> Case:
    return Case(
        case.name,
        case.x.to(dtype),
        {name: _to_dtype(value, dtype) for name, value in case.options.items()},
    )


def _to_dtype(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _observe(
    fn: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    case: Case,
    dtype: torch.dtype,
    rounded_to: torch.dtype | None = None,
    step: float = 0.0,
) -> Observation:
    """Run ``fn`` on fresh copies and return every quantity to compare by name, or the exception
    that it raised.

    ``rounded_to`` is the dtype whose rounding the values carry when they are run in float64;
    ``step`` moves every value by this share of its size. A module is run as the function of its
    state that it is.
    """
    rounded = rounded_to or dtype
    x = _nudge(case.x, step).detach().clone(memory_format=torch.preserve_format).requires_grad_()
    upstream = torch.randn(x.shape, generator=generator(6), dtype=torch.float64).to(rounded)
    module = copy.deepcopy(fn).to(dtype).train() if isinstance(fn, nn.Module) else None
    arguments = _random_state(reference, rounded) if module else case.options
    # are changed in place
    buffers = dict(module.named_buffers()) if module else ("running_mean", "running_var")
    options = {}
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            value = _nudge(_to_dtype(value, dtype), step).detach().clone()
            value.requires_grad_(value.is_floating_point() and name not in buffers)
        options[name] = value
    leaves = {
        name: v
        for name, v in {"x": x, **options}.items()
        if isinstance(v, Tensor) and v.requires_grad
    }
    try:
        y = functional_call(module, options, x, strict=True) if module else fn(x, **options)
        # What y does not depend on has a gradient of zero, and that is what the reference's is held
        # against.
        gradients = torch.autograd.grad(
            y,
            list(leaves.values()),
            _nudge(upstream.to(dtype), step),
            allow_unused=True,
            materialize_grads=True,
        )
        values = {"output": y}
        for name, gradient in zip(leaves, gradients, strict=True):
            values[f"gradient of {name}"] = gradient
        if module:
            with torch.no_grad():
                values["output in eval"] = functional_call(module.eval(), options, x)
    except Exception as error:
        return Observation(error=error)
    for name, value in options.items():
        if name in buffers and isinstance(value, Tensor) and value.is_floating_point():
            values[name] = value
    return Observation(values)


def _random_state(module: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a state that no default can imitate, rounded to ``dtype`` so that float64 sees the
    same values."""
    state = module.state_dict()
    for seed, (name, value) in enumerate(state.items()):
        if value.is_floating_point():  # in [0.5, 1.5): a variance stays positive
            state[name] = (
                0.5 + torch.rand(value.shape, generator=generator(seed), dtype=torch.float64)
            ).to(dtype)
    return state


def _nudge(value: Any, step: float) -> Any:
    """Move every element by ``step`` of its size, up or down."""
    if not step or not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    sign = torch.randint(0, 2, value.shape, generator=generator(5)).double() * 2 - 1
    return value * (1 + step * sign)


# -- the awkward inputs that separate a right norm from a nearly right one


def cases_for(reference: Callable[..., Tensor]) -> list[Case]:
    """Return the awkward inputs for one of torch's norms, functional or module.

    Ordinary and tiny values, an offset of 100 and of 10,000, constant rows, a batch of one and a
    non-contiguous input; for a functional also each combination of weight and bias.
    """
    is_module = isinstance(reference, nn.Module)
    shapes, options = (
        (_module_shapes(reference), [{}]) if is_module else _functional_shapes(_name(reference, ""))
    )
    return [
        Case(name, x, chosen)
        for shape in shapes
        for chosen in options
        for name, x in _awkward_inputs(shape)
        # The awkward values matter for the full call; for the others one ordinary input shows what
        # is switched off.
        if chosen is options[0] or name.startswith("ordinary")
    ]


def _awkward_inputs(shape: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    normal = torch.randn(shape, generator=generator(0), dtype=torch.float64)
    yield f"ordinary {shape}", 1.5 * normal + 0.5
    yield f"tiny {shape}", 1e-3 * normal
    yield f"offset 100 {shape}", 100 + normal
    yield f"offset 10,000 {shape}", 10_000 + normal
    yield f"constant {shape}", torch.full(shape, 3.7, dtype=torch.float64)
    yield f"batch of one {(1, *shape[1:])}", 1.5 * normal[:1] + 0.5
    yield f"non-contiguous {shape}", (1.5 * normal + 0.5).mT.contiguous().mT


def _functional_shapes(name: str) -> tuple[list[tuple[int, ...]], list[dict[str, Any]]]:
    def affine(*shape: int) -> list[dict[str, Any]]:
        weight = 1 + 0.5 * torch.randn(shape, generator=generator(1), dtype=torch.float64)
        bias = torch.randn(shape, generator=generator(2), dtype=torch.float64)
        return [{"weight": weight, "bias": bias}, {"weight": weight}, {"bias": bias}, {}]

    running = {
        "running_mean": torch.randn(6, generator=generator(3), dtype=torch.float64),
        "running_var": 0.5 + torch.rand(6, generator=generator(4), dtype=torch.float64),
    }
    match name:
        case "layer_norm":
            return [(4, 6), (2, 3, 6), (8, 6)], [{"normalized_shape": (6,), **a} for a in affine(6)]
        case "rms_norm":
            return [(4, 6), (2, 3, 6)], [
                {"normalized_shape": (6,), **a} for a in affine(6) if "bias" not in a
            ]
        case "group_norm":
            # before torch 2.14 its own backward pass stops on a CPU where there is a bias and no
            # weight
            pairs = [a for a in affine(6) if "weight" in a or "bias" not in a]
            return [(4, 6, 5), (2, 6, 3, 4)], [{"num_groups": 3, **a} for a in pairs]
        case "instance_norm":
            return [(4, 6, 5), (2, 6, 3, 4)], affine(6)
        case "batch_norm":
            trains = [{**running, "training": True, **a} for a in affine(6)]
            alone = {"running_mean": None, "running_var": None, "training": True}
            return [(8, 6), (4, 6, 5), (2, 6, 3, 4)], [*trains, {**running, **affine(6)[0]}, alone]
    raise ValueError(
        "cases must be given for a reference that is not one of torch's norms: got "
        f"{name or 'unnamed'}"
    )


def _module_shapes(module: Any) -> list[tuple[int, ...]]:
    kind = type(module).__name__
    if kind in ("LayerNorm", "RMSNorm"):
        return [(4, *module.normalized_shape), (2, 3, *module.normalized_shape)]
    spatial = {
        f"{norm}{n}d": [(5, 3, 4)[:n]] for norm in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)
    }
    spatial |= {"BatchNorm1d": [(), (5,)], "GroupNorm": [(5,), (3, 4)]}
    if kind not in spatial:
        raise ValueError(
            f"cases must be given for a reference that is not one of torch's norms: got {kind}"
        )
    channels = module.num_channels if kind == "GroupNorm" else module.num_features
    return [(4, channels, *sizes) for sizes in spatial[kind]]
