"""What a function shows on a probe, beside what is right, and whether a known mistake shows the
same."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from course_utils.check.probes import (
    GRADIENTS,
    OUTPUTS,
    Probe,
    Tolerance,
    error_ratio,
    largest_error,
    same,
)
from course_utils.check.report import ProbeResult, Quantity

__all__ = ["Comparison", "Expected", "Finding", "Observation"]

_AS_BAD = (
    30.0  # a rough probe's error may be this many times the example's and still be the same mistake
)


@dataclass(frozen=True)
class Finding:
    """Something that a comparison of numbers cannot say: an exception, a wrong shape, a changed
    input.

    Two findings are of one kind when ``kind`` and ``what`` are equal; ``message`` is for the
    learner. ``due`` and ``came`` are what should be and what is: tensors, or in words.
    """

    kind: str
    what: str
    message: str
    quantity: str = ""
    due: Tensor | str = ""
    came: Tensor | str = ""

    @property
    def ends_check(self) -> bool:
        """Whether it is no use to make further calls."""
        return self.kind in ("stopped", "check failed")

    @property
    def leaves_values(self) -> bool:
        """Whether the numbers are there all the same, and can be looked at besides."""
        return self.kind in ("changes", "state", "dtype")

    def is_like(self, other: "Finding") -> bool:
        """Return whether two findings are of a kind; a wrong shape is of another size on a smaller
        input."""
        return self.kind == other.kind and (self.what == other.what or self.kind == "shape")


@dataclass
class Observation:
    """The quantities of one call by name (``output``, ``gradient of x``) in float64, and what stood
    in the way."""

    values: dict[str, Tensor] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    finding: Finding | None = None
    printed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expected:
    """The right quantities in float64, and the dtype that each should come in (none for a plain
    number).

    Where a call is to be refused there are none, and ``refused`` says what it asks for.
    """

    values: Mapping[str, Tensor]
    dtypes: Mapping[str, torch.dtype]
    refused: str = ""
    _allowed: dict[tuple[str, Tolerance], Tensor] = field(default_factory=dict, repr=False)

    def allowed(self, name: str, tolerance: Tolerance) -> Tensor:
        """Return how far off a quantity may be: found once for a thousand functions."""
        key = name, tolerance
        if key not in self._allowed:
            self._allowed[key] = tolerance.allowed(self.values[name])
        return self._allowed[key]


@dataclass(frozen=True)
class Comparison:
    """What a function showed on a probe, beside what is right."""

    probe: Probe
    expected: Expected
    observed: Observation

    def tolerance(self, name: str) -> Tolerance:
        """Return what is still right for a quantity: the probe's own tolerance, or its dtype's."""
        is_gradient = name.startswith("gradient")
        own, by_dtype = (None, GRADIENTS) if is_gradient else (self.probe.tolerance, OUTPUTS)
        return own or by_dtype.get(
            self.expected.dtypes.get(name, torch.float64), OUTPUTS[torch.float64]
        )

    @cached_property
    def ratios(self) -> dict[str, float]:
        """The error of every quantity that there is, in units of what is allowed."""
        return {
            name: error_ratio(
                self.observed.values[name],
                self.expected.values[name],
                self.expected.allowed(name, self.tolerance(name)),
            )
            for name in self.probe.compares or self.expected.values
            if name in self.observed.values
        }

    @cached_property
    def rounding(self) -> dict[str, Tensor]:
        """How far off another way of writing the same mistake may be in every quantity."""
        return {
            name: self.tolerance(name).between(values)
            for name, values in self.observed.values.items()
        }

    @cached_property
    def worst(self) -> str:
        """The quantity that is most wrong, or nothing."""
        name = max(self.ratios, key=lambda name: self.ratios[name], default="")
        return name if name and self.ratios[name] > 1 else ""

    @cached_property
    def passed(self) -> bool:
        """Whether everything compared is right."""
        return not self.observed.finding and not self.worst

    @property
    def error(self) -> str:
        """The name of the exception that was raised, or nothing."""
        finding = self.observed.finding
        return finding.what if finding and finding.kind == "raises" else ""

    @property
    def deserves_remark(self) -> bool:
        """Whether what passed is less exact than the probe's remark is about."""
        stricter = replace(self.probe, tolerance=self.probe.remark_beyond)
        return bool(self.probe.remark and replace(self, probe=stricter).worst)

    def quantity(self, name: str) -> Quantity:
        """Return a quantity: what is right, and what was got."""
        return Quantity(name, self.expected.values[name], self.observed.values[name])

    def result(self) -> ProbeResult:
        """Return the line of a report about this probe."""
        error = 0.0
        if self.worst:
            right, got = self.expected.values[self.worst], self.observed.values[self.worst]
            error = largest_error(got, right)
        finding = self.observed.finding.message if self.observed.finding else ""
        return ProbeResult(
            self.probe.name,
            self.probe.stage,
            self.passed,
            self.worst,
            error,
            finding,
            self.probe.rough,
        )

    def agrees_with(
        self, example: "Comparison", *, in_values: bool = False, and_values: bool = False
    ) -> bool:
        """Return whether this is what the example of a mistake shows on the same probe.

        ``in_values``: whatever was found besides the values; ``and_values``: in what was found, and
        in the values that it leaves.
        """
        mine, theirs = self.observed.finding, example.observed.finding
        if in_values and mine and mine.leaves_values:
            mine = None
        if mine or theirs:
            if not (mine and theirs and (mine.kind, mine.what) == (theirs.kind, theirs.what)):
                return False
            if not (and_values and mine.leaves_values):
                return True
        return self.ratios.keys() >= example.ratios.keys() and all(
            self._agrees_on(name, example) for name in example.ratios
        )

    def _agrees_on(self, name: str, example: "Comparison") -> bool:
        ratio, example_ratio = self.ratios[name], example.ratios[name]
        if ratio <= 1 or example_ratio <= 1:
            return ratio <= 1 and example_ratio <= 1
        if self.probe.rough:
            return ratio <= _AS_BAD * example_ratio and math.isfinite(ratio) == math.isfinite(
                example_ratio
            )
        if abs(ratio - example_ratio) > self.tolerance(name).most_between(example_ratio):
            return False  # as most do: the values need not be compared
        return same(
            self.observed.values[name], example.observed.values[name], example.rounding[name]
        )
