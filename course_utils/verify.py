"""Mine against reference, both held against float64.

Agreeing with a built-in is not the same as being right: in half precision, or far from zero, the built-in errs too.
So every comparison here runs three times: yours, the reference, and the reference in float64, which is the truth.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.book.tables import Table
from course_utils.cases import Case, cases_for
from course_utils.one_call import cast, observe, to_dtype

__all__ = ["Case", "Comparison", "Line", "cases_for", "close", "compare", "error"]

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Line:
    """The worst case of one quantity in one dtype: both errors against float64 and what was allowed."""

    quantity: str
    dtype: str
    case: str
    mine: float
    reference: float
    allowed: float
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether mine is within what is allowed; a NaN never is."""
        return not self.note and self.mine <= self.allowed

    @property
    def verdict(self) -> str:
        """A few words for the table."""
        if not self.ok:
            return self.note or "differs"
        return "ok, closer than the reference" if self.reference > max(2 * self.mine, self.allowed / 4) else "ok"


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found, a line a quantity and dtype; a table in a notebook and in a terminal."""

    mine: str
    reference: str
    lines: Sequence[Line]
    cases: int

    @property
    def ok(self) -> bool:
        """Whether every line is."""
        return all(line.ok for line in self.lines)

    def require(self) -> None:
        """Raise ``AssertionError`` with the lines that failed, if any did."""
        failed = [line for line in self.lines if not line.ok]
        if failed:
            raise AssertionError(f"{self.mine} differs from {self.reference}:\n{self._table(failed)!r}")

    def _table(self, lines: Sequence[Line]) -> Table:
        rows = [(line.quantity, line.dtype, line.case, line.mine, line.reference, line.verdict) for line in lines]
        columns = ("quantity", "dtype", "worst case", self.mine, self.reference, "verdict")
        return Table(columns, rows, f"Largest error against float64 over {self.cases} cases")

    def summary(self) -> str:
        """Return one line without raw floats, the same on every machine."""
        failed = [f"{line.quantity} ({line.dtype}, {line.case})" for line in self.lines if not line.ok]
        checked = f"{self.mine} against {self.reference}: {len(self.lines)} quantities over {self.cases} cases"
        return f"{checked}, all agree" if not failed else f"{checked}, differs in {', '.join(failed)}"

    def __repr__(self) -> str:
        return self.summary() if self.ok else repr(self._table(self.lines))

    def _repr_html_(self) -> str:
        return self._table(self.lines)._repr_html_()


def compare(
    mine: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    cases: Sequence[Case] | None = None,
    *,
    truth: Callable[..., Tensor] | None = None,
    dtypes: Sequence[torch.dtype] = DTYPES,
) -> Comparison:
    """Compare two functions or two modules: outputs, gradients, buffers, train and eval, ``state_dict``, dtypes.

    A line passes when the error of ``mine`` against float64 is at most twice the reference's, or within what rounding
    alone explains: how far the truth itself moves when every input moves by a few units in the last place of the
    arithmetic (float32 for half-precision inputs), plus one rounding of the result.

    Args:
        mine: a function ``fn(x, **options)`` or an ``nn.Module``.
        reference: what it should equal, of the same kind.
        cases: the calls to make; by default those of ``cases_for(reference)``. Some of the latter are calls that the
            reference refuses, and ``mine`` must too; where both refuse a call of yours, nothing has been compared, and
            that is a line that differs.
        truth: a function to run in float64 instead of ``reference``.
        dtypes: the dtypes to try; float64 inputs are compared as well as the others.

    Returns:
        A ``Comparison`` with ``ok``, ``require()`` and a line for each quantity and dtype.

    Raises:
        ValueError: ``cases`` is None and none are known for ``reference``, or there are no cases or no dtypes.
        TypeError: ``mine``, ``reference`` or ``truth`` cannot be called.
    """
    for role, fn in (("mine", mine), ("reference", reference), ("truth", truth or reference)):
        if not callable(fn):
            raise TypeError(f"{role} must be a function or a module: got {type(fn).__name__}")
    may_refuse = cases is None
    cases = list(cases_for(reference) if cases is None else cases)
    if not cases:
        raise ValueError(f"cases must hold at least one Case: got {cases!r}")
    if not dtypes:
        raise ValueError(f"dtypes must hold at least one dtype: got {dtypes!r}")
    worst: dict[tuple[str, str], Line] = {}
    for dtype in dtypes:
        for case in cases:
            for line in _lines(mine, reference, truth or reference, cast(case, dtype), dtype, may_refuse):
                key = (line.quantity, line.dtype)
                if key not in worst or _severity(line) > _severity(worst[key]):
                    worst[key] = line
    lines = list(worst.values())
    if isinstance(mine, nn.Module) and isinstance(reference, nn.Module):
        lines.append(_state_dict_line(mine, reference))
    return Comparison(_name(mine, "mine"), f"{_name(reference, 'reference')} (built-in)", lines, len(cases))


def error(fn: Callable[..., Tensor], x: Tensor, *, truth: Callable[..., Tensor] | None = None, **options: Any) -> float:
    """Return the largest absolute error of ``fn(x)`` against ``truth(x)`` in float64 (NaN if there is one).

    Args:
        fn: the function under test.
        x: its input, of any floating dtype and shape.
        truth: what to run in float64; by default ``fn`` itself, which shows rounding alone.
        options: passed to both.
    """
    expected = (truth or fn)(x.double(), **{name: _double(value) for name, value in options.items()})
    return (fn(x, **options).double() - expected).abs().max().item()


def close(name: str, mine: Tensor, expected: Tensor, within: float) -> None:
    """Assert that two tensors differ by at most ``within`` (absolute), and print so in one line.

    Raises:
        AssertionError: they differ by more, in shape, or by a NaN; the message says where and by how much.
        ValueError: they are empty.
    """
    if mine.shape != expected.shape:
        raise AssertionError(f"{name}: shape {tuple(mine.shape)}, expected {tuple(expected.shape)}")
    if not mine.numel():
        raise ValueError(f"mine and expected must hold at least one number: got shape {tuple(mine.shape)}")
    wide = torch.complex128 if mine.is_complex() or expected.is_complex() else torch.float64
    difference = (mine.to(wide) - expected.to(wide)).abs().nan_to_num(nan=float("inf"), posinf=float("inf"))
    difference = difference.masked_fill(mine == expected, 0.0)  # the same infinity on both sides
    largest = difference.max().item()
    if not largest <= within:
        at = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
        raise AssertionError(f"{name}: off by {largest:.3g} at {at}, expected within {within:g}")
    print(f"{name}: equal within {within:g}")


def _double(value: Any) -> Any:
    return to_dtype(value, torch.float64)


def _lines(mine, reference, truth, case: Case, dtype: torch.dtype, may_refuse: bool) -> Iterator[Line]:
    """Yield a line for every quantity that one call of each produces."""
    name = str(dtype).removeprefix("torch.")
    got, expected = observe(mine, reference, case, dtype), observe(reference, reference, case, dtype)
    if isinstance(got, Exception) or isinstance(expected, Exception):
        note = _about_errors(got, expected, may_refuse)
        yield Line("error raised", name, case.name, 0.0, 0.0, 0.0, note)
        return
    exact = observe(truth, reference, cast(case, torch.float64), torch.float64, rounded_to=dtype)
    moved = observe(
        truth, reference, cast(case, torch.float64), torch.float64, rounded_to=dtype, step=_rounding(dtype, case.x)
    )
    assert not isinstance(exact, Exception)
    assert not isinstance(moved, Exception)
    for quantity in expected:
        if quantity not in got:
            yield Line(quantity, name, case.name, float("nan"), 0.0, 0.0, "missing")
            continue
        note = _structure(got[quantity], expected[quantity])
        if note:
            yield Line(quantity, name, case.name, float("nan"), 0.0, 0.0, note)
            continue
        off = [_distance(values[quantity], exact[quantity]) for values in (got, expected, moved)]
        size = exact[quantity].abs().nan_to_num().amax().item() if exact[quantity].numel() else 0.0
        allowed = max(2 * off[1], 2 * off[2] + torch.finfo(dtype).eps * size)
        yield Line(quantity, name, case.name, off[0], off[1], allowed)


def _about_errors(got: Any, expected: Any, may_refuse: bool) -> str:
    if type(got) is not type(expected):
        return f"raises {_kind(got)}, not {_kind(expected)}"
    # The mistake may be in the case itself, and then even a wrong function raises what the reference does.
    first_line, _, _ = str(expected).partition("\n")
    return "" if may_refuse else f"both raise {_kind(expected)}: {first_line}"


def _rounding(dtype: torch.dtype, x: Tensor) -> float:
    """Return how far rounding alone may move a value, relative to its size, in the arithmetic for ``dtype``.

    Four units in the last place: a mean carries the rounding of every addition on the way to it. In float64 the truth
    is the reference itself, so its own rounding is not measured apart; a sum of n numbers drifts by about √n units.
    """
    if dtype == torch.float64:
        return 4 * torch.finfo(dtype).eps * x.numel() ** 0.5
    return 4 * torch.finfo(torch.float32).eps


def _state_dict_line(mine: nn.Module, reference: nn.Module) -> Line:
    note = ""
    try:
        copy.deepcopy(mine).load_state_dict(reference.state_dict(), strict=True)
        copy.deepcopy(reference).load_state_dict(mine.state_dict(), strict=True)
        if list(mine.state_dict()) != list(reference.state_dict()):
            note = f"keys {list(mine.state_dict())}, not {list(reference.state_dict())}"
    except Exception as raised:
        note = str(raised).splitlines()[-1].strip()
    return Line("state_dict both ways", "any", "strict", 0.0, 0.0, 0.0, note)


def _structure(got: Any, expected: Tensor) -> str:
    if not isinstance(got, Tensor):
        return f"returns {type(got).__name__}, not a tensor"
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)}, not {tuple(expected.shape)}"
    return "" if got.dtype == expected.dtype else f"dtype {got.dtype}, not {expected.dtype}"


def _distance(got: Tensor, exact: Tensor) -> float:
    """Return the largest absolute difference; a NaN where the truth has one is no difference, elsewhere infinite."""
    got = got.detach()
    difference = (got.double() - exact.detach()).abs()
    same = (got.isnan() & exact.isnan()) | (got == exact)
    difference = torch.where(same, 0.0, difference.nan_to_num(nan=float("inf")))
    return difference.max().item() if difference.numel() else 0.0


def _severity(line: Line) -> float:
    """Rank lines of one quantity: a structural note first, then the error as a share of what is allowed."""
    if line.note:
        return float("inf")
    if line.allowed == float("inf"):  # the reference is no better: inf / inf would be a NaN, which nothing exceeds
        return 0.0
    return line.mine / line.allowed if line.allowed else (float("inf") if line.mine else 0.0)


def _kind(result: Any) -> str:
    return type(result).__name__ if isinstance(result, Exception) else "nothing"


def _name(fn: Any, otherwise: str) -> str:
    if isinstance(fn, nn.Module):
        return type(fn).__name__
    return getattr(fn, "__name__", otherwise)
