"""What a check says: a line for what is right; for what is not, which mistake it is and an input
that shows it.

Every chapter with an exercise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.check.catalogue import Mistake
from course_utils.check.probes import Call
from course_utils.table import Table

__all__ = ["Evidence", "ProbeResult", "Quantity", "Report", "evidence_for", "format_tensor"]

_MOST_ELEMENTS = 16  # of a tensor; of a larger one, only the worst element

# a browser holds what is below a report in place when it grows, and so pushes its first line out of
# view
_STAY = "<style>.jp-WindowedPanel-outer { overflow-anchor: none; }</style>"
# JupyterLab's own colours where it defines them; the words say the same as the colours.
_BOX = (
    "border-left:4px solid {colour};padding:6px 12px;margin:4px 0;max-width:60em;line-height:1.5;"
    "color:var(--jp-content-font-color1,#212121);background:var(--jp-layout-color0,#ffffff)"
)
_COLOURS = {
    "passed": "var(--jp-success-color1,#2e7d32)",
    "not yet": "var(--jp-warn-color1,#ef6c00)",
    "not attempted yet": "var(--jp-border-color1,#9e9e9e)",
}
_PRE = (
    "margin:2px 0 6px;padding:6px 10px;overflow-x:auto;white-space:pre;font-size:0.93em;"
    "font-family:var(--jp-code-font-family,monospace),monospace;"
    "color:inherit;background:var(--jp-layout-color2,#eeeeee)"
)


@dataclass(frozen=True)
class ProbeResult:
    """What one probe showed: the largest error of the quantity that was worst, or a finding in its
    place."""

    name: str
    stage: str
    passed: bool
    quantity: str = ""  # output, gradient of x, ...
    error: float = 0.0
    finding: str = ""
    # whether the error is rounding noise, other on another machine, and is better not shown
    is_noise: bool = False

    def __str__(self) -> str:
        if self.passed:
            return "right"
        by = "" if self.is_noise else f" by {_number(self.error)}"
        return self.finding or f"{self.quantity} wrong{by}"


@dataclass(frozen=True)
class Evidence:
    """The smallest input found that shows a failure."""

    arguments: Mapping[str, Any]
    call: str  # in one line, as the learner would write it
    inputs: tuple[str, ...]  # a line for each tensor
    quantity: str = ""  # what is wrong; nothing for a finding
    expected: str = ""  # that quantity to three digits; of a large tensor only its worst element
    got: str = ""

    def lines(self) -> list[str]:
        """Return the evidence as lines of text."""
        lines, expected = (
            [self.call, *(f"  {line}" for line in self.inputs)],
            f"expected {self.quantity}",
        )
        if self.quantity:
            lines += [f"{expected}: {self.expected}", f"{'got':>{len(expected)}}: {self.got}"]
        return lines


@dataclass(frozen=True)
class Report:
    """The result of a check. It shows itself in a notebook and prints as text; it is true when the
    check passed."""

    name: str
    passed: bool
    attempted: bool  # whether there is anything to check yet
    message: str
    misconceptions: Sequence[
        str
    ] = ()  # the catalogue's keys of the mistakes made, the one to mend first first
    title: str = ""  # of the first mistake, to stand in a sentence
    matters: str = ""
    hint: str = ""
    evidence: Evidence | None = None
    probes: Sequence[ProbeResult] = ()
    remarks: Sequence[str] = ()  # what is worth knowing about a function that passed
    convention: str = ""  # which other than the exercise's own it follows, by its remark
    by_course: bool = False
    standing: str = ""  # after a pass that counts: how many exercises are done, and which is next

    def __bool__(self) -> bool:
        return self.passed

    @property
    def misconception(self) -> str | None:
        """The catalogue's key of the mistake to mend first, where it is a known one."""
        return self.misconceptions[0] if self.misconceptions else None

    @property
    def verdict(self) -> str:
        """``passed``, ``not yet`` or ``not attempted yet``."""
        return "passed" if self.passed else "not yet" if self.attempted else "not attempted yet"

    @property
    def reason(self) -> str:
        """Why the function did not pass, to follow "yours":
        ``has a known mistake (epsilon outside the root)``."""
        if not self.attempted:
            return "is not attempted yet"
        return f"has a known mistake ({self.title})" if self.misconception else "is not right yet"

    def require(self) -> None:
        """Raise an ``AssertionError`` with the text of the report where the function did not
        pass."""
        if not self.passed:
            raise AssertionError(repr(self))

    def naming(self, stages: Sequence[Sequence[Mistake]]) -> "Report":
        """Return this report with its message given to known mistakes: for each stage those that it
        adds."""
        first, later = stages[0], [mistake.title for stage in stages[1:] for mistake in stage]
        message = " ".join(mistake.wrong for mistake in first) + (
            f" After that: {'; '.join(later)}." if later else ""
        )
        return replace(
            self,
            message=message,
            misconceptions=tuple(mistake.key for stage in stages for mistake in stage),
            title=first[0].title,
            matters=first[0].matters,
            hint=first[0].hint,
        )

    def table(self) -> Table:
        """Return what was tried: a line for each stage and result."""
        lines = [
            (stage, "; ".join(probe.name for probe in probes), result)
            for (stage, result), probes in groupby(
                self.probes, key=lambda probe: (probe.stage, str(probe))
            )
        ]
        return Table(("looks at", "input", "result"), lines)

    def _headline(self) -> str:
        count = ""
        if self.passed:
            count = f", {len(self.probes)} probes" if self.probes else f": {self.message}"
        elif self.evidence:  # without evidence it had to be stopped, and not every probe was tried
            count = f", {sum(probe.passed for probe in self.probes)} of {len(self.probes)} right"
        count += " (the solution of the course)" if self.by_course else ""
        return f"{self.verdict}{count}{f' · {self.standing}' if self.standing else ''}"

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self._headline()}"]
        if self.attempted and not self.passed:
            lines += [
                f"  {self.message}",
                *([f"  Why it matters: {self.matters}"] if self.matters else []),
            ]
        lines += [f"  Remark: {remark}" for remark in self.remarks]
        if self.evidence:
            lines += ["  It shows in:", *(f"    {line}" for line in self.evidence.lines())]
        return "\n".join([*lines, *([f"  Hint: {self.hint}"] if self.hint else [])])

    def _repr_html_(self) -> str:
        parts = [f"<div><strong>{escape(self.name)}: {escape(self._headline())}</strong></div>"]
        if not self.passed:
            parts.append(f'<div style="margin:4px 0">{escape(self.message)}</div>')
        if self.matters:
            parts.append(
                f'<div style="margin:4px 0"><em>Why it matters:</em> {escape(self.matters)}</div>'
            )
        if self.evidence:
            text = "\n".join(self.evidence.lines())
            parts.append(f'<div>It shows in:</div><pre style="{_PRE}">{escape(text)}</pre>')
        parts += [f"<div><em>Remark:</em> {escape(remark)}</div>" for remark in self.remarks]
        if self.hint:
            parts.append(f"<details><summary>Hint</summary>{escape(self.hint)}</details>")
        if self.probes:
            parts.append(
                f"<details><summary>What was tried</summary>{self.table()._repr_html_()}</details>"
            )
        style = _STAY if self.attempted else ""
        return (
            f"{style}<div "
            f'style="{_BOX.format(colour=_COLOURS[self.verdict])}">{"".join(parts)}</div>'
        )


class Quantity(NamedTuple):
    """Something that a call should give, and what it gives, both in float64."""

    name: str
    right: Tensor
    got: Tensor


def evidence_for(
    name: str,
    required: Sequence[str],
    call: Call,
    quantity: Quantity | None = None,
    sent_back: Tensor | None = None,
    format_call: Callable[[Call], Sequence[str]] | None = None,
) -> Evidence:
    """Return ``call`` as evidence that the function ``name`` gets a quantity wrong.

    ``sent_back`` is the gradient that came through the output, where the quantity is a gradient.
    ``format_call`` returns the call and a line for each of its inputs, for an exercise whose
    learner passes other arguments.
    """
    if format_call:
        line, *inputs = format_call(call)
    else:
        arguments = [
            _argument(key, value, key in required) for key, value in call.arguments.items()
        ]
        line = f"{name}({', '.join(arguments)})"
        inputs = [f"{key} = {format_tensor(value)}" for key, value in call.tensors()]
    if quantity is None:
        return Evidence(call.arguments, line, tuple(inputs))
    if sent_back is not None:
        inputs.append(f"and the gradient that comes back is {format_tensor(sent_back)}")
    place, right, got = quantity
    if right.numel() > _MOST_ELEMENTS:
        error = (got - right).abs().nan_to_num(nan=float("inf"))
        worst = tuple(int(i) for i in torch.unravel_index(error.argmax(), right.shape))
        place, right, got = f"{quantity.name} at {list(worst)}", right[worst], got[worst]
    return Evidence(call.arguments, line, tuple(inputs), place, *_told_apart(right, got))


def _told_apart(right: Tensor, got: Tensor) -> tuple[str, str]:
    """Return both as text, to three digits or as many as it takes to tell them apart."""
    for digits in range(3, 10):
        if _values(right, digits) != _values(got, digits):
            break
    return _values(right, digits), _values(got, digits)


def _argument(name: str, value: Any, required: bool) -> str:
    text = repr(value)
    if isinstance(value, Tensor):
        text = name
    elif isinstance(value, float):
        text = f"{value:g}"
    return text if required else f"{name}={text}"


def format_tensor(tensor: Tensor) -> str:
    """Return a tensor as a report shows it: its values if they are few, else its shape and
    range."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    note = "" if tensor.dtype == torch.float32 else f" ({dtype})"
    if not tensor.is_contiguous():
        note += " (not contiguous)"
    if tensor.numel() > _MOST_ELEMENTS:
        lowest, highest = _number(tensor.min().item()), _number(tensor.max().item())
        return f"a tensor of shape {tuple(tensor.shape)} from {lowest} to {highest}{note}"
    return _values(tensor, digits=6) + note


def _values(tensor: Tensor, digits: int = 3) -> str:
    if tensor.ndim == 0:
        return _number(tensor.item(), digits)
    return f"[{', '.join(_values(part, digits) for part in tensor)}]"


def _number(value: float, digits: int = 3) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.{digits}g}"
