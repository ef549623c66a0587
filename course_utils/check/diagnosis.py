"""Which known mistakes show what a wrong answer shows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice, product, takewhile
from typing import Any

from course_utils.check.catalogue import Mistake, edited
from course_utils.check.comparison import Comparison
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Probe
from course_utils.check.runner import Runner, Trial

__all__ = ["Diagnosis", "Slips", "function_with"]

_COMBINATIONS = 1_500  # of mistakes that are tried for one stage

# mistakes made at once: for each its key, and which of its examples
Slips = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Diagnosis:
    """Explains what an answer showed, in which some probe failed."""

    trial: Trial

    @property
    def failed(self) -> Comparison:
        """The first probe that failed."""
        return next(comparison for comparison in self.trial.comparisons if not comparison.passed)

    def mistakes(self) -> list[list[Mistake]]:
        """Return the mistakes that together show what the answer shows, in groups.

        The first group is what the first wrong stage shows, the next what it takes besides for the
        next wrong stage, and so on, until nothing explains one.
        """
        catalogue = self.trial.runner.exercise.catalogue
        groups: list[list[Mistake]] = []
        named: Slips = ()
        for stage in dict.fromkeys(c.probe.stage for c in self.trial.comparisons if not c.passed):
            candidates = islice(_candidates(catalogue, named), _COMBINATIONS)
            explanation = next(
                (slips for slips in candidates if self._explains(slips, stage)), None
            )
            if explanation is None:
                break
            known = {key for key, _ in named}
            if added := [catalogue[key] for key, _ in explanation if key not in known]:
                groups.append(added)
            named = explanation
        return groups

    def _explains(self, slips: Slips, stage: str) -> bool:
        """Return whether a function with exactly these slips shows the same in ``stage`` and in
        those before it."""
        if function_with(self.trial.runner.exercise, slips) is None:
            return False
        in_stage = [
            comparison for comparison in self.trial.comparisons if comparison.probe.stage == stage
        ]
        upto = [*in_stage, *self._before(stage)]  # the stage first: most candidates fail there
        return all(
            comparison.agrees_with(_example(self.trial.runner, slips, comparison.probe))
            for comparison in upto
        )

    def _before(self, stage: str) -> Iterator[Comparison]:
        return takewhile(lambda comparison: comparison.probe.stage != stage, self.trial.comparisons)

    def without_catalogue(self) -> str:
        """Return what can be said without the catalogue: what is wrong, and which stages are right
        already."""
        failed = self.failed
        message = (
            f"The {failed.worst} is wrong, by none of the known mistakes. Seen first on: "
            f"{failed.probe.name}."
        )
        if failed.observed.finding:
            message = failed.observed.finding.message
        right = dict.fromkeys(
            comparison.probe.stage for comparison in self._before(failed.probe.stage)
        )
        return message + (f" Right already: {', '.join(right)}." if right else "")


def _candidates(catalogue: Mapping[str, Mistake], named: Slips) -> Iterator[Slips]:
    """Yield what may explain a stage: what is named already, with one more, with everyday ones,
    fewest first."""
    known = [key for key, _ in named]
    others = [key for key in catalogue if key not in known]
    if named:
        yield from _ways(catalogue, known)
        others.sort(key=lambda key: not catalogue[key].everyday)
    for key in others:
        yield from _ways(catalogue, [*known, key])
    everyday = [key for key in others if catalogue[key].everyday]
    for size in range(2, len(everyday) + 1):
        for several in combinations(everyday, size):
            yield from _ways(catalogue, [*known, *several])


def _ways(catalogue: Mapping[str, Mistake], keys: Sequence[str]) -> Iterator[Slips]:
    """Yield the ways to make these mistakes at once; only edits can be made together."""
    mistakes = [catalogue[key] for key in keys]
    forms = (mistake.examples if len(keys) == 1 else mistake.edits for mistake in mistakes)
    yield from product(
        *([(key, form) for form in range(len(ways))] for key, ways in zip(keys, forms, strict=True))
    )


@cache
def function_with(exercise: Exercise, slips: Slips) -> Callable[..., Any] | None:
    """Return the function that makes these mistakes at once, or None where their edits overlap."""
    mistakes = [(exercise.catalogue[key], form) for key, form in slips]
    first, first_form = mistakes[0]
    if len(slips) == 1:
        return first.examples[first_form]
    try:
        return edited(first.reference, *(mistake.edits[form] for mistake, form in mistakes))
    except (ValueError, SyntaxError):
        return None


@cache
def _example(runner: Runner, slips: Slips, probe: Probe) -> Comparison:
    """Return what a function that makes known mistakes shows on a probe: found once for all
    reports."""
    function = function_with(runner.exercise, slips)
    assert function is not None
    return runner.compare(function, probe)
