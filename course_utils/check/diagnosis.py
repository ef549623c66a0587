"""Which known mistakes show what a wrong answer shows; and where none does, what its result is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, combinations, groupby, islice, product, takewhile
from typing import Any

from course_utils.check.catalogue import Mistake, edited
from course_utils.check.comparison import Comparison
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Probe
from course_utils.check.relations import factor_everywhere, plain_relation, relation
from course_utils.check.runner import Runner, Trial

__all__ = ["Diagnosis", "Slips", "Stage", "function_with"]

# of mistakes that are tried for one stage; an interpreter takes a hundred times as long
_COMBINATIONS, _INTERPRETED = 1_800, 60
_SMALL = 25  # entries of a catalogue

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

    def explanation(self) -> tuple[str, list[Mistake]]:
        """Return what an answer shows: in words where no known mistake says it, and the known
        mistakes, first those of the first wrong stage, and of them what the failed probe shows.

        At a stage that nothing explains it ends: what is seen after that may come of the unknown.
        An input handed back and a constant are no work of several mistakes, though some turn by
        whole turns, or round to 0; nor is one factor everywhere, but of everyday ones. Where a
        second result is wrong as well, there is more than that one thing to say.
        """
        catalogue = self.trial.runner.exercise.catalogue
        named: Slips = ()
        words = ""
        for name in dict.fromkeys(c.probe.stage for c in self.trial.comparisons if not c.passed):
            stage = Stage(self.trial, name, named)
            explanation = stage.explanation()
            if explanation is None:
                words = words or ("" if named else self.without_catalogue())
                if stage.leaves_values:
                    explanation = replace(stage, in_values=True).explanation()
            if explanation is None and not named and (alike := self._raises_alike()):
                return "", [alike]
            if explanation is None:
                if stage.leaves_values and not stage.has_wrong_values:
                    continue  # a dtype, say: what is wrong besides may show in a later stage
                break
            known = {key for key, _ in named}
            added = [slip for slip in explanation if slip[0] not in known]
            named += tuple(sorted(added, key=lambda slip: not self._is_shown(slip)))
            if stage.leaves_values and any(map(self._is_shown, added)):
                words = ""  # a known mistake says it
        wrong, right = self._wrong_and_right()
        is_plain = plain_relation(wrong, right)
        if not all(catalogue[key].everyday for key, _ in named):
            is_plain = is_plain or factor_everywhere(wrong)
        returns = self.trial.runner.exercise.returns
        results = {name for each in wrong for name in returns if each.ratios.get(name, 0.0) > 1}
        if len(named) > 1 and not words and is_plain and len(results) < 2:
            return self.without_catalogue(), []
        return words, [catalogue[key] for key, _ in named]

    def _raises_alike(self) -> Mistake | None:
        """Return the known mistake that alone raises where the answer raises the same, and nowhere
        else: whatever more is wrong, that comes first."""
        runner, comparisons = self.trial.runner, self.trial.comparisons
        errors = [each.error if each.error == self.failed.error else "" for each in comparisons]
        if not self.failed.error or all(errors) or runner.exercise.interpreter:
            return None
        for key, mistake in runner.exercise.catalogue.items():
            for form in range(len(mistake.examples)):
                examples = (_example(runner, ((key, form),), each.probe) for each in comparisons)
                if all(error == each.error for error, each in zip(errors, examples, strict=True)):
                    return mistake
        return None

    def _is_shown(self, slip: tuple[str, int]) -> bool:
        """Return whether a mistake alone fails on the failed probe as the answer does."""
        example = _example(self.trial.runner, (slip,), self.failed.probe)
        finding, shown = self.failed.observed.finding, example.observed.finding
        if finding or shown:
            return bool(finding and shown and finding.is_like(shown))
        return example.worst == self.failed.worst

    def _wrong_and_right(self) -> tuple[list[Comparison], list[Comparison]]:
        comparisons = self.trial.comparisons
        return [c for c in comparisons if not c.passed], [c for c in comparisons if c.passed]

    @cached_property
    def relation(self) -> tuple[str, float]:
        """What the wrong results, or those of the first wrong stage, have to do with the right
        ones, in words, and the factor that these name first, or 0."""
        wrong, right = self._wrong_and_right()
        if (everywhere := relation(wrong, right))[0]:
            return everywhere
        probe = self.failed.probe
        words, factor = relation([each for each in wrong if each.probe.stage == probe.stage], right)
        here = f"on the probe “{probe.name}” " + words.replace(", everywhere", "")
        return here if words else "", factor

    def without_catalogue(self) -> str:
        """Return what can be said of the first wrong stage without the catalogue."""
        failed, (related, _) = self.failed, self.relation
        if failed.observed.finding:
            return failed.observed.finding.message
        is_a_word = failed.worst == "output" or failed.worst.startswith("gradient")
        subject = f"The {failed.worst}" if is_a_word else failed.worst
        if related:
            return f"{subject} is wrong: {related}"
        return (
            f"{subject} is wrong, by none of the known mistakes. Seen first on: "
            f"{failed.probe.name}."
        )


@dataclass(frozen=True)
class Stage:
    """The search for what explains a wrong stage, on top of what is ``named`` for those before it.

    ``in_values``: whatever was found besides the values.
    """

    trial: Trial
    name: str
    named: Slips = ()
    in_values: bool = False

    @cached_property
    def here(self) -> list[Comparison]:
        """What the answer showed in this stage."""
        return [each for each in self.trial.comparisons if each.probe.stage == self.name]

    @cached_property
    def before(self) -> list[Comparison]:
        """What it showed in the stages before."""
        return list(takewhile(lambda each: each.probe.stage != self.name, self.trial.comparisons))

    @cached_property
    def _ended(self) -> list[Comparison]:
        findings = ((each, each.observed.finding) for each in self.here)
        return [each for each, finding in findings if finding and not finding.leaves_values]

    @cached_property
    def _to_agree(self) -> tuple[list[Comparison], list[Comparison]]:
        """Where the same must be shown: by two that may be there by chance, and by others."""
        every = self.trial.comparisons
        passed = [each for each in every if each.passed]
        return [*self.here, *every], [*self.here, *self.before, *passed]

    @property
    def leaves_values(self) -> bool:
        """Whether something was found that leaves the values to look at."""
        findings = (comparison.observed.finding for comparison in self.here)
        return any(finding and finding.leaves_values for finding in findings)

    @property
    def has_wrong_values(self) -> bool:
        """Whether some number is wrong here."""
        return any(each.worst for each in self.here if not each.probe.rough)

    def explanation(self) -> Slips | None:
        """Return the first candidate that shows the same, and of single mistakes the one that
        shows the same on most probes; ``in_values``, where some number is wrong."""
        if self.in_values and not self.has_wrong_values:
            return None
        is_interpreted = self.trial.runner.exercise.interpreter is not None
        candidates = self.tried()
        first = next(filter(self._explains, candidates), None)
        if first is None or is_interpreted or len(first) != len(self.named) + 1:
            return first
        others = takewhile(lambda slips: len(slips) == len(first), candidates)
        fitting = chain([first], filter(self._explains, others))
        return max(fitting, key=self._agreements)

    def tried(self) -> Iterator[Slips]:
        """Yield the candidates that are tried, in their order, until one explains the stage."""
        exercise = self.trial.runner.exercise
        possible = (slips for slips in self._candidates() if function_with(exercise, slips))
        yield from islice(possible, _INTERPRETED if exercise.interpreter else _COMBINATIONS)

    def _candidates(self) -> Iterator[Slips]:
        """Yield what may explain it: what is named already, with one more, with any two that are
        seen here, with everyday ones, fewest first, with any two of which one is seen here."""
        catalogue = self.trial.runner.exercise.catalogue
        known = [key for key, _ in self.named]
        others = [key for key in catalogue if key not in known]
        if known:
            yield from _ways(catalogue, known)
            others.sort(key=lambda key: not catalogue[key].everyday)
        for key in others:
            yield from _ways(catalogue, [*known, key])
        seen_here: list[str] = []
        for key in sorted(others, key=lambda key: not catalogue[key].everyday):
            if self._matters(key):
                for other in seen_here:  # as they are found: to look at all is slow in a kernel
                    yield from _ways(catalogue, [*known, other, key])
                seen_here.append(key)
        # In a small catalogue also those that are seen only in company.
        may_be_many = others if len(catalogue) <= _SMALL else seen_here
        everyday = [key for key in may_be_many if catalogue[key].everyday]
        several = (combinations(everyday, size) for size in range(2, len(everyday) + 1))
        for keys in chain.from_iterable(several):
            yield from _ways(catalogue, [*known, *keys])
        in_company = [key for key in others if key not in seen_here]
        for key, other in product(seen_here, in_company):  # no epsilon, beside groups of one value
            yield from _ways(catalogue, [*known, key, other])

    def _matters(self, key: str) -> bool:
        """Return whether a mistake alone makes something wrong here, and nothing that was right
        before, in the first probe of each stage."""
        stages = groupby(self.before, key=lambda each: each.probe.stage)
        before = [first for first in (next(each) for _, each in stages) if first.passed]
        forms = range(len(self.trial.runner.exercise.catalogue[key].edits))
        return any(
            all(self._example(((key, form),), each).passed for each in before)
            and any(not self._example(((key, form),), each).passed for each in self.here)
            for form in forms
        )

    def _explains(self, slips: Slips) -> bool:
        """Return whether a function with exactly these slips shows the same here and before, and
        passes wherever the answer does.

        Of several also the values beside a finding must be the same: the finding shows one of them.
        Two that are not both everyday must show the same everywhere: two known mistakes may
        together look like one that is not known.
        """
        catalogue = self.trial.runner.exercise.catalogue
        added = [catalogue[key] for key, _ in slips[len(self.named) :]]
        are_sure = len(added) < 2 or all(mistake.everyday for mistake in added)
        if not are_sure and not self._is_stopped_by_one(slips):
            return False
        # most candidates fail in the first
        return all(self._agrees(slips, each) for each in self._to_agree[are_sure])

    def _is_stopped_by_one(self, slips: Slips) -> bool:
        """Return whether what ends the answer here, if anything does, ends it with one of these
        slips alone: edits that only together make a text that cannot run are nobody's mistakes."""
        return all(
            any(each.agrees_with(self._example((slip,), each)) for slip in slips)
            for each in self._ended
        )

    def _agreements(self, slips: Slips) -> int:
        """Return on how many probes a function with these slips shows the same."""
        return sum(self._agrees(slips, each) for each in self.trial.comparisons)

    def _agrees(self, slips: Slips, seen: Comparison) -> bool:
        example = self._example(slips, seen)
        return seen.agrees_with(example, in_values=self.in_values, and_values=len(slips) > 1)

    def _example(self, slips: Slips, seen: Comparison) -> Comparison:
        return _example(self.trial.runner, slips, seen.probe)


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
