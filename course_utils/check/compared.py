"""One probe's observation held against the truth, and against what the example of a mistake shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import torch

from course_utils.check.calls import Probe
from course_utils.check.comparison import GRADIENTS, OUTPUTS, Tolerance, error_ratio, largest_error, same
from course_utils.check.observation import Expected, Observation
from course_utils.check.report import ProbeResult

__all__ = ["Compared"]

_AS_BAD = 30.0  # a rough probe's error may be this many times the example's and still be the same mistake


@dataclass(frozen=True)
class Compared:
    """What a function showed on a probe, beside what is right."""

    probe: Probe
    expected: Expected
    seen: Observation

    @property
    def names(self) -> Sequence[str]:
        """The quantities that the probe compares."""
        return self.probe.compares or tuple(self.expected.values)

    def tolerance(self, name: str) -> Tolerance:
        """Return what is still right for a quantity: the probe's own tolerance, or its dtype's."""
        is_gradient = name.startswith("gradient")
        own = self.probe.gradient_tolerance if is_gradient else self.probe.tolerance
        return own or (GRADIENTS if is_gradient else OUTPUTS).get(
            self.expected.dtypes.get(name, torch.float64), OUTPUTS[torch.float64]
        )

    def ratios(self) -> dict[str, float]:
        """Return the error of every quantity that there is, in units of what is allowed."""
        return {
            name: error_ratio(self.seen.values[name], self.expected.values[name], self.tolerance(name))
            for name in self.names
            if name in self.seen.values
        }

    def worst(self) -> str:
        """Return the quantity that is most wrong, or nothing."""
        ratios = self.ratios()
        name = max(ratios, key=lambda name: ratios[name], default="")
        return name if name and ratios[name] > 1 else ""

    @property
    def passed(self) -> bool:
        """Whether everything compared is right."""
        return not self.seen.finding and not self.worst()

    @property
    def deserves_remark(self) -> bool:
        """Whether what passed is less exact than the probe's remark is about."""
        limit = self.probe.remark_beyond
        return limit is not None and replace(self, probe=replace(self.probe, tolerance=limit)).worst() != ""

    def result(self) -> ProbeResult:
        """Return the line of a report about this probe."""
        worst = self.worst()
        error = largest_error(self.seen.values[worst], self.expected.values[worst]) if worst else 0.0
        finding = self.seen.finding.message if self.seen.finding else ""
        return ProbeResult(self.probe.name, self.probe.stage, self.passed, worst, error, finding, self.probe.rough)

    def agrees_with(self, example: "Compared") -> bool:
        """Return whether this is what the example of a mistake shows on the same probe."""
        mine, theirs = self.seen.finding, example.seen.finding
        if mine or theirs:
            return bool(mine and theirs and (mine.kind, mine.what) == (theirs.kind, theirs.what))
        ratios, example_ratios = self.ratios(), example.ratios()
        return all(self._agrees_on(name, ratios[name], ratio, example) for name, ratio in example_ratios.items())

    def _agrees_on(self, name: str, ratio: float, example_ratio: float, example: "Compared") -> bool:
        if (ratio <= 1) != (example_ratio <= 1):
            return False
        if ratio <= 1:
            return True
        if self.probe.rough:
            return ratio <= _AS_BAD * example_ratio and isfinite(ratio) == isfinite(example_ratio)
        return same(self.seen.values[name], example.seen.values[name], self.tolerance(name))
