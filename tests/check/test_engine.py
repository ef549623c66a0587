"""How a check comes to its report, on checks small enough to see through."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from chapters import check
from course_utils import progress
from course_utils.check import Check, Exercise, Mistake
from course_utils.check.functions import is_stub
from course_utils.check.probes import Call, Probe, integers
from course_utils.check.runner import upstream


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))


def scale(x, factor=2.0):
    """The oracle of a toy exercise: x times a factor."""
    return x * factor


def known(**examples):
    """Return a catalogue with one example for each key."""
    return {
        key: Mistake(key, key, f"It is {key}.", "So?", "Look.", scale, written=(e,))
        for key, e in examples.items()
    }


def toy_check(**changes):
    catalogue = known(
        added=lambda x, factor=2.0: x + factor,
        ignored=lambda x, factor=2.0: x * 2,
        twice=lambda x, factor=2.0: x * factor + 7.0 * (x > 900),
    )
    probes = [
        Probe("doubled", "values", Call({"x": integers(4, 3, seed=1, offset=20)}, {"x": "RC"})),
        Probe("tripled", "factor", Call({"x": integers(4, 3, seed=2), "factor": 3.0}, {"x": "RC"})),
        Probe("gradient", "gradient", Call({"x": integers(2, 3, seed=3)}, {"x": "RC"}), ("x",)),
        Probe(
            "large",
            "large",
            Call({"x": integers(2, 3, seed=4, offset=1000)}, {"x": "RC"}),
            rough=True,
        ),
    ]
    in_order = dict(changes.pop("order", list)(list(catalogue.items())))
    exercise = Exercise("scale", scale, probes, in_order)
    return Check(replace(exercise, **changes))


def run(function, **changes):
    return toy_check(**changes)(function, record=False)


def test_a_mistake_is_named_only_if_it_would_pass_the_earlier_stages_too():
    def wrong_from_the_second_stage_on(x, factor=2.0):
        return x * factor if factor == 2 else x + factor

    for its_check in (toy_check(), toy_check(order=reversed)):
        report = its_check(wrong_from_the_second_stage_on, record=False)
        assert report.misconception is None
        assert report.right_already == ("values",)


def test_a_rough_probe_compares_how_bad_it_is_and_not_the_values():
    assert run(lambda x, factor=2.0: x * factor + 3 * (x > 900)).misconception == "twice"
    assert run(lambda x, factor=2.0: x * factor + 7e4 * (x > 900)).misconception is None
    assert (
        run(lambda x, factor=2.0: torch.where(x > 900, torch.nan, x * factor)).misconception is None
    )


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("odd", "columns"),
    [
        (lambda x: x.double() if x.shape[1] > 1 else x * 2, 2),
        (lambda x: x.double() if x.shape[1] > 1 else x.half(), 2),
        (lambda x: raising(ValueError("no")) if x.shape[1] > 1 else raising(TypeError("no")), 2),
        (lambda x: raising(ValueError("no")) if x.shape[1] > 1 else x.double(), 2),
        (lambda x: x + 1 if x.shape[1] > 1 else raising(ValueError("no")), 2),
        (lambda x: x.sum(-1), 1),  # a wrong shape is another one on every input
    ],
    ids=[
        "right when small",
        "another dtype",
        "another error",
        "another kind",
        "an error in place of a value",
        "shape",
    ],
)
def test_the_smallest_input_fails_in_the_same_way_as_the_one_on_which_it_was_seen(odd, columns):
    report = run(lambda x, factor=2.0: odd(x))
    assert report.evidence.arguments["x"].shape == (1, columns)


def test_the_search_for_a_smaller_input_passes_over_what_the_oracle_refuses():
    def steps(x):
        if x.shape[-1] < 2:
            raise ValueError("at least two")
        return x.diff()

    probe = Probe("some", "values", Call({"x": integers(4, 5, seed=1)}, {"x": "RC"}))
    report = Check(Exercise("steps", steps, [probe]))(lambda x: -x.diff(), record=False)
    words = ["steps(x)", "  x = [[1, 2]]", "expected output: [[1]]", "            got: [[-1]]"]
    assert report.evidence.lines() == words


def test_a_complex_result_is_never_right():
    report = run(lambda x, factor=2.0: torch.complex(x * factor, 0 * x), any_dtype=True)
    assert report.message.startswith(
        "The output is complex: somewhere a negative number is raised to a power."
    )


def test_what_stands_in_the_way_of_a_gradient_is_told_in_words():
    arguments = {"x": integers(2, 3, seed=3), "factor": torch.full((3,), 2.0)}
    probe = Probe(
        "gradient", "gradient", Call(arguments, {"x": "RC", "factor": "C"}), ("x", "factor")
    )

    def message(function):
        return run(function, probes=[probe]).probes[0].finding

    cut_off = "No gradient flows back: the output is cut off from its inputs."
    assert message(lambda x, factor=2.0: x.detach() * factor.detach()) == cut_off
    unreached = "No gradient reaches factor: it is cut off from the output."
    assert message(lambda x, factor=2.0: x * factor.detach()) == unreached
    in_training = "It returns a list; expected a tensor."
    assert message(lambda x, factor=2.0: [x] if x.requires_grad else x * factor) == in_training


def test_the_gradient_that_is_sent_back_is_the_one_that_the_evidence_names():
    def no_gradient(x, factor=2.0):
        return x.detach() * factor + 0 * x

    evidence = run(
        no_gradient, probes=[Probe("g", "g", Call({"x": integers(1, 5, seed=1)}), ("x",))]
    ).evidence
    assert (
        evidence.inputs[-1] == "and the gradient that comes back is [[-0.5, 1.25, 0.25, -0.75, 1]]"
    )
    assert evidence.quantity == "gradient of x"
    assert (evidence.expected, evidence.got) == ("[[-1, 2.5, 0.5, -1.5, 2]]", "[[0, 0, 0, 0, 0]]")
    assert upstream(torch.zeros(1000)).abs().max() == 1.25


def test_a_mistake_that_warns_or_raises_is_known_by_that():
    def warns(x, factor=2.0):
        warnings.warn("added", UserWarning, stacklevel=2)
        return x + factor

    catalogue = known(added=warns, divided=lambda x, factor=2.0: 1 // 0)
    its_check = toy_check(catalogue=catalogue)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert its_check(lambda x, factor=2.0: x + factor, record=False).misconception == "added"
    assert its_check(lambda x, factor=2.0: 1 // 0, record=False).misconception == "divided"


def test_a_call_to_be_refused_passes_with_an_error_and_only_then():
    def refusing(x, factor=2.0):
        if factor < 0:
            raise ValueError("factor must not be negative")
        return scale(x, factor)

    probes = [
        Probe("ones", "values", Call({"x": torch.ones(2)})),
        Probe(
            "a negative factor",
            "refusal",
            Call({"x": torch.ones(2), "factor": -1.0}),
            is_refused=True,
        ),
    ]
    refused = toy_check(probes=probes, oracle=refusing, catalogue={})
    assert refused(refusing, record=False).passed
    report = refused(scale, record=False)
    assert not report.passed
    assert report.message == "It takes a negative factor and raises no error."
    assert report.right_already == ("values",)


def written(body):
    names = {}
    exec(f"def function(x):\n    {body}", names)
    return names["function"]


def test_a_body_with_nothing_in_it_is_not_an_attempt():
    empty = [
        '"""Only a docstring."""',
        "...",
        '"""A docstring."""; pass',
        "raise NotImplementedError('yours')",
    ]
    for function in map(written, [*empty, "return None"]):
        assert is_stub(function)
        report = Check(Exercise("f", scale))(function)
        assert (report.attempted, report.passed, report.verdict) == (
            False,
            False,
            "not attempted yet",
        )
        assert progress.attempted() == {}
    bodies = ["return x", "return 0", "raise ValueError('no')", "yield", "mean = x.mean()"]
    assert not any(is_stub(function) for function in (*map(written, bodies), len, Check))


def test_after_a_call_that_had_to_be_stopped_no_other_is_made():
    calls = []
    report = run(lambda x, factor=2.0: calls.append(1) or raising(SystemExit))
    assert len(calls) == len(report.probes) == 1
    assert report.evidence is None
    assert "It shows in" not in repr(report)


def test_any_change_of_an_input_is_found():
    for change in (
        lambda x: x.mul_(2),
        lambda x: x.unsqueeze_(0),
        lambda x: x[0].fill_(float("nan")),
    ):
        report = run(lambda x, factor=2.0, change=change: (x * factor, change(x))[0])
        assert report.message == "It changes its input x in place; the caller still needs it."


def test_several_outputs_and_updated_arguments_are_compared_by_name():
    def halve_and_count(x, seen):
        seen += 1
        return x / 2, x.numel()

    arguments = {"x": integers(2, 3, seed=5), "seen": torch.zeros(())}
    probe = Probe("two", "values", Call(arguments), ("x",))
    its_check = Check(
        Exercise("halve", halve_and_count, [probe], returns=("half", "count"), updates=("seen",))
    )
    for function, words in (
        (lambda x, seen: (x / 2, Fraction(6 + 0 * int(seen.add_(1)))), ""),
        (lambda x, seen: (x / 2, 6), "seen is wrong"),
        (lambda x, seen: (x / 2, 5 + 0 * seen.add_(1).item()), "count is wrong"),
        (lambda x, seen: (x / 2, 6j), "It returns a complex for count; expected a number"),
    ):
        report = its_check(function, record=False)
        assert words in report.message
        assert report.passed == (not words)


def test_another_convention_passes_with_a_remark_and_a_wrong_function_is_held_to_the_nearer():
    divided = {"It divides.": lambda x, factor=2.0: x / factor}

    def report(first, later=None):
        both = lambda x, factor=2.0: (first if factor == 2 else later or first)(x, factor)  # noqa: E731
        return run(both, conventions=divided)

    assert (report(lambda x, f: x / f).passed, report(lambda x, f: x / f).remarks) == (
        True,
        ("It divides.",),
    )
    assert (report(lambda x, f: x * f).passed, report(lambda x, f: x * f).remarks) == (True, ())
    for function, later, expected, right_already in (
        (lambda x, f: x - f, None, "[[2]]", False),  # far from either
        (lambda x, f: x / f + 0.01, None, "[[0.5]]", False),  # near the convention
        (lambda x, f: x * f + 0.01, None, "[[2]]", False),
        (lambda x, f: x / f, lambda x, f: x - f, "[[0.333]]", True),  # further with the convention
        (lambda x, f: x * f, lambda x, f: x / f + 0.01, "[[3]]", True),
    ):
        wrong = report(function, later)
        assert (wrong.passed, wrong.remarks, wrong.evidence.expected) == (False, (), expected)
        assert (wrong.right_already == ("values",)) == right_already


def test_a_name_that_is_nearly_an_exercise_is_answered_with_the_exercise():
    with pytest.raises(AttributeError, match="there is no exercise 'layernorm': is it layer_norm"):
        _ = check.layernorm
    with pytest.raises(AttributeError, match=r"there is no exercise 'xyz'$"):
        _ = check.xyz


def stretch(x, power=1):
    """The oracle of a toy exercise with a source to edit."""
    centred = x - x.mean(-1, keepdim=True)
    spread = centred.abs().amax(-1, keepdim=True)
    return centred / spread


def stretch_check():
    edits = {
        "halved": {"amax(-1, keepdim=True)": "amax(-1, keepdim=True) * 2"},
        "in_place": {"centred = x - x.mean(-1, keepdim=True)": "centred = x.sub_(0)"},
        "of_all": {"centred.abs()": "centred.abs().cumsum(0)"},
    }
    catalogue = {
        key: Mistake(key, key, f"It is {key}.", "So?", "Look.", stretch, edits=(edit,))
        for key, edit in edits.items()
    }
    probes = [
        Probe(f"{n} rows", "values", Call({"x": integers(n, 5, seed=n, offset=3.0)}, {"x": "RC"}))
        for n in (3, 4)
    ]
    return Check(Exercise("stretch", stretch, probes, catalogue))


def test_of_two_mistakes_that_meet_in_a_stage_the_example_shows_the_first():
    def one_row_too_many(x, power=1):
        centred = x - x.mean(-1, keepdim=True)
        return centred / centred.abs().cumsum(0).amax(-1, keepdim=True) / 2

    report = stretch_check()(one_row_too_many, record=False)
    assert set(report.misconceptions) == {"halved", "of_all"}
    (first, _), shown = report.mistakes, report.evidence.arguments["x"]
    assert not torch.allclose(first.examples[0](shown.clone()), stretch(shown))


def test_behind_a_change_in_place_the_values_are_looked_at_too():
    def halved_in_place(x, power=1):
        right = stretch(x.clone())
        x += 1
        return right / 2

    report = stretch_check()(halved_in_place, record=False)
    assert report.message.startswith("It changes its input x in place")
    assert report.misconceptions == ("halved",)
    assert len(report.points) == 2


def test_beside_a_dtype_a_mistake_of_a_later_stage_is_named():
    def aimed_key(query, distance, base=10_000.0):
        angles = distance * base ** (-torch.arange(len(query) // 2).double() / len(query))
        first, second = query.double().chunk(2)  # of one pair the angle is right
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos))

    report = check.aimed_key(aimed_key, record=False)
    assert "float64" in report.message
    assert report.misconceptions == ("half_as_fast_in_the_exponent",)


def test_a_known_mistake_is_not_called_unknown_for_a_dtype_that_is_wrong_later():
    report = run(lambda x, factor=2.0: (x * 2).double() if x.max() > 900 else x * 2)
    assert (report.message, report.misconceptions) == ("", ("ignored",))


def test_after_a_stage_that_nothing_explains_nothing_is_named():
    def odd_and_twice(x, factor=2.0):
        return x * factor + (x**2 if factor == 3 else 7.0 * (x > 900))

    plain = replace(toy_check().probes[-1], rough=False)
    report = run(odd_and_twice, probes=[*toy_check().probes[:3], plain])
    assert report.misconceptions == ()  # it may come of the unknown
    assert "none of the known mistakes" in report.message


def test_a_fault_of_the_check_is_not_the_learner_s():
    names = {"Tensor": torch.Tensor}
    adapter = """
def adapt(function):
    def adapted(x, factor=2.0):
        value = function(x, factor)
        return value if isinstance(value, Tensor) else value["missing"]
    return adapted
"""
    exec(compile(adapter, "adapter.py", "exec"), names)
    report = run(lambda x, factor=2.0: {"output": x}, adapt=names["adapt"])
    assert report.message.startswith("The check itself failed here, and that is the course's")
    assert "KeyError" in report.message
    raises = lambda x, factor=2.0: {}["mine"]  # noqa: E731
    assert run(raises).message.startswith("It raises KeyError: 'mine' (line ")


def test_what_a_call_showed_is_evidence_whatever_it_was():
    for wrong, expected, got in (
        (lambda x: raising(ValueError("no")), "a result", "ValueError: no"),
        (lambda x: x.double() * 2, "float32", "float64"),
        (lambda x: x[:, 0], "(1, 1)", "(1,)"),
        (lambda x: None, "a tensor", "None"),
        (lambda x: np.ones(3), "a tensor", "an ndarray"),
        (lambda x: x.mul_(2), "[[1]]", "[[2]]"),
    ):
        evidence = run(lambda x, factor=2.0, wrong=wrong: wrong(x)).evidence
        assert (evidence.expected, evidence.got) == (expected, got)


def test_a_factor_that_is_not_said_keeps_no_larger_input():
    def odd(x, factor=2.0):
        return x * 3 if len(x) == 4 else x * factor + 2

    first, *_ = toy_check().probes
    more = Call({"x": integers(5, 3, seed=1)}, {"x": "RC"})
    probes = [replace(first, name="four times three"), replace(first, call=more)]
    report = run(odd, probes=probes)
    assert report.message.endswith("Seen first on: four times three.")
    assert report.evidence.arguments["x"].shape == (1, 1)
