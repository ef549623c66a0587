"""What a check says: a line for what is right; for what is not, which mistake it is and an input
that shows it.

Every chapter with an exercise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.check.catalogue import Mistake
from course_utils.check.probes import Call
from course_utils.table import Table

__all__ = ["Evidence", "ProbeResult", "Quantity", "Report", "evidence_for", "format_tensor"]

_MOST_ELEMENTS = 16  # of a tensor; of a larger one, only the worst element

# of a difference, as a share of it; a larger one may make it look allowed
_MOST_ROUNDED_OFF = 0.15

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
    "margin:2px 0 6px;padding:6px 10px;overflow-x:auto;white-space:pre-wrap;word-break:normal;"
    "font-size:0.93em;"  # JupyterLab's own would break a line within a word
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
    quantity: str = ""  # what is wrong
    expected: str = ""  # that quantity to three digits; of a large tensor only its worst element
    got: str = ""  # an error, a shape or a dtype is a result too

    def lines(self) -> list[str]:
        """Return the evidence as lines of text."""
        lines = [self.call, *(f"  {line}" for line in self.inputs)]
        if self.got:
            expected = f"expected {self.quantity}".rstrip()
            lines += [f"{expected}: {self.expected}", f"{'got':>{len(expected)}}: {self.got}"]
        return lines


@dataclass(frozen=True)
class Report:
    """The result of a check. It shows itself in a notebook and prints as text; it is true when the
    check passed."""

    name: str
    passed: bool
    attempted: bool  # whether there is anything to check yet
    message: str  # what is seen, or nothing where the known mistakes say it all
    mistakes: Sequence[Mistake] = ()  # the known ones that were made, the one to mend first first
    evidence: Evidence | None = None
    probes: Sequence[ProbeResult] = ()
    remarks: Sequence[str] = ()  # what is worth knowing about a function that passed
    printed: Sequence[str] = ()  # the first lines that it printed: on the evidence, if there is any
    convention: str = ""  # which other than the exercise's own it follows, by its remark
    by_course: bool = False
    standing: str = ""  # after a pass that counts: how many exercises are done, and which is next
    link: tuple[str, str] | None = None  # words of ``standing``, and the address that they lead to

    def __bool__(self) -> bool:
        return self.passed

    @property
    def points(self) -> tuple[str, ...]:
        """What there is to say, in sentences: each separate mistake is one."""
        return (*filter(None, [self.message]), *(mistake.wrong for mistake in self.mistakes))

    @property
    def misconceptions(self) -> tuple[str, ...]:
        """The catalogue's keys of the mistakes made."""
        return tuple(mistake.key for mistake in self.mistakes)

    @property
    def misconception(self) -> str | None:
        """The catalogue's key of the mistake to mend first, where it is a known one."""
        return next(iter(self.misconceptions), None)

    @property
    def first_wrong(self) -> str:
        """The stage of the first probe that failed."""
        return next((probe.stage for probe in self.probes if not probe.passed), "")

    @property
    def right_already(self) -> tuple[str, ...]:
        """The stages before the first that is wrong."""
        stages = dict.fromkeys(probe.stage for probe in self.probes)
        return tuple(takewhile(lambda stage: stage != self.first_wrong, stages))

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
        if self.mistakes:
            return f"has a known mistake ({self.mistakes[0].title})"
        return "is not right yet"

    def require(self) -> None:
        """Raise an ``AssertionError`` with the text of the report where the function did not
        pass."""
        if not self.passed:
            raise AssertionError(repr(self))

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

    @property
    def _of_hint(self) -> str:
        return "Hint for 2" if self.message and self.mistakes else "Hint"

    def _so_far(self) -> str:
        """Return which probes pass; a quantity that gave a stage its name may be wrong later."""
        passed = ", ".join(self.right_already)
        return (
            f"Passed already: the probes of {passed}. The first to fail is of {self.first_wrong}."
        )

    def _told(self) -> tuple[str, Sequence[str]]:
        """Return the sentence that stands first, and the points that are to be numbered."""
        if len(self.points) < 2:
            return "".join(self.points), ()
        return f"{len(self.points)} things to mend, in this order:", self.points

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self._headline()}"]
        if self.attempted and not self.passed:
            lead, points = self._told()
            lines += [f"  {lead}", *(f"  {n}. {point}" for n, point in enumerate(points, 1))]
            if self.right_already:
                lines.append(f"  {self._so_far()}")
        lines += [f"  Why it matters: {mistake.matters}" for mistake in self.mistakes[:1]]
        lines += [f"  Remark: {remark}" for remark in self.remarks]
        if self.evidence:
            lines += ["  It shows in:", *(f"    {line}" for line in self.evidence.lines())]
        if self.printed:
            lines += ["  It printed:", *(f"    {line}" for line in self.printed)]
        return "\n".join(
            [*lines, *(f"  {self._of_hint}: {mistake.hint}" for mistake in self.mistakes[:1])]
        )

    def _repr_html_(self) -> str:
        headline = escape(self._headline())
        if self.link:
            words, address = map(escape, self.link)
            headline = headline.replace(words, f'<a href="{address}">{words}</a>')
        parts = [f"<div><strong>{escape(self.name)}: {headline}</strong></div>"]
        if not self.passed:
            lead, points = self._told()
            numbered = "".join(f"<li>{escape(point)}</li>" for point in points)
            parts.append(f'<div style="margin:4px 0">{escape(lead)}</div>')
            parts += [f'<ol style="margin:4px 0">{numbered}</ol>'] if points else []
            if self.attempted and self.right_already:
                parts.append(f"<div>{escape(self._so_far())}</div>")
        for mistake in self.mistakes[:1]:
            matters = f"<em>Why it matters:</em> {escape(mistake.matters)}"
            parts.append(f'<div style="margin:4px 0">{matters}</div>')
        if self.evidence:
            parts.append(f"<div>It shows in:</div>{_as_pre(self.evidence.lines())}")
        if self.printed:
            parts.append(_folded("What it printed", _as_pre(self.printed)))
        parts += [f"<div><em>Remark:</em> {escape(remark)}</div>" for remark in self.remarks]
        parts += [_folded(self._of_hint, escape(mistake.hint)) for mistake in self.mistakes[:1]]
        if self.probes:
            parts.append(_folded("What was tried", self.table()._repr_html_()))
        style = _STAY if self.attempted else ""
        return (
            f"{style}<div "
            f'style="{_BOX.format(colour=_COLOURS[self.verdict])}">{"".join(parts)}</div>'
        )


def _as_pre(lines: Sequence[str]) -> str:
    return f'<pre style="{_PRE}">{escape(chr(10).join(lines))}</pre>'


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"


class Quantity(NamedTuple):
    """Something that a call should give, and what it gives, in float64 or in words."""

    name: str
    right: Tensor | str
    got: Tensor | str


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
    if isinstance(right, str) or isinstance(got, str):
        return Evidence(call.arguments, line, tuple(inputs), place, str(right), str(got))
    if right.numel() > _MOST_ELEMENTS:
        error = (got - right).abs().nan_to_num(nan=float("inf"))
        # torch.unravel_index would import sympy first, for over a second
        worst = tuple((error == error.max()).nonzero()[0].tolist())
        place, right, got = f"{quantity.name} at {list(worst)}", right[worst], got[worst]
    return Evidence(call.arguments, line, tuple(inputs), place, *_told_apart(right, got))


def _told_apart(right: Tensor, got: Tensor) -> tuple[str, str]:
    """Return both as text, to three digits or as many as it takes to see by how much they
    differ."""
    for digits in range(3, 10):
        shown = _values(right, digits), _values(got, digits)
        if shown[0] != shown[1] and _shows_difference(right, got, digits):
            break
    return shown


def _shows_difference(right: Tensor, got: Tensor, digits: int) -> bool:
    """Return whether of the two entries that differ most the rounded ones differ by as much."""
    if right.shape != got.shape or not right.numel():
        return True
    both = torch.stack([right.double().flatten(), got.double().flatten()])
    differences = (both[1] - both[0]).abs()
    if not differences.isfinite().all():
        return True
    most = int(differences.argmax())
    first, second = (float(_number(value, digits)) for value in both[:, most].tolist())
    difference = differences[most].item()
    return abs(abs(second - first) - difference) <= _MOST_ROUNDED_OFF * difference


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
        values = f" from {lowest} to {highest}" if lowest != highest else f", all {lowest}"
        return f"a tensor of shape {tuple(tensor.shape)}{values}{note}"
    return _values(tensor, digits=6) + note


def _values(tensor: Tensor, digits: int = 3) -> str:
    if tensor.ndim == 0:
        return _number(tensor.item(), digits)
    return f"[{', '.join(_values(part, digits) for part in tensor)}]"


def _number(value: float, digits: int = 3) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.{digits}g}"
