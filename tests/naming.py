"""Which known mistakes a function is told of: what a report names, without the search for a
smallest input."""

from dataclasses import replace

import torch

from chapters import check
from course_utils.check.diagnosis import Diagnosis, function_with
from course_utils.check.runner import Runner, run_by_nearest_convention
from course_utils.check.sandbox import usual_modes


@usual_modes()
def keys_of(its_check, function):
    """Return the keys that a report names; None for a function that passes."""
    trial = run_by_nearest_convention(Runner(its_check.exercise, torch.device("cpu")), function)
    if trial.passed:
        return None
    return [mistake.key for mistake in Diagnosis(trial).explanation()[1]]


def wrongly_named(name, forms=slice(1)):
    """Return the examples of the mistakes in ``name``, those in the slice ``forms``, that a report
    does not name so, and nothing else."""
    for_each = [
        (key, example)
        for key, mistake in check[name].catalogue.items()
        for example in replace(mistake).examples[forms]  # new ones: some remember their calls
    ]
    named = [(key, keys_of(check[name], example)) for key, example in for_each]
    return [pair for pair in named if pair[1] != [pair[0]]]


def assert_named_among(its_check, slips):
    """Assert that a function with all of ``slips`` is told of some of them, and of nothing else."""
    function = function_with(its_check.exercise, tuple((key, 0) for key in slips))
    assert function is not None, f"edits overlap: {slips}"
    named = keys_of(its_check, function)
    assert named, slips
    assert set(named) <= set(slips)


def assert_passes(its_check, function):
    report = its_check(function, record=False)
    assert report.passed, f"{function}: {report}\n{report.table()}"


def assert_shown_without_a_name(its_check, function):
    """Assert that a mistake in no catalogue fails on an input that shows it."""
    report = its_check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.expected != report.evidence.got
