"""For every exercise five right answers in unusual styles are accepted, and the oracle in other
forms; those to the kernels are in c11, where Triton's interpreter is."""

import pytest
from accepted_answers import FORMS, IN_FORMS, NEIGHBOURS, in_form
from naming import assert_passes
from right_answers import norms, others

from chapters import check
from chapters.contents import CHAPTERS

RIGHT = norms.RIGHT | others.RIGHT


def test_every_exercise_has_five():
    every = {name for chapter in CHAPTERS for name in chapter.exercises}
    asked = {
        name for name in every if not name.startswith("input_") and not name.endswith("kernel")
    }
    assert RIGHT.keys() == asked
    assert all(len(answers) >= 5 for answers in RIGHT.values())


@pytest.mark.parametrize("name", RIGHT)
def test_they_are_accepted(name):
    for answer in RIGHT[name]:
        assert_passes(check[name], answer)


def defined(source, name):
    namespace = {"__name__": "learner", "check": check, "torch": __import__("torch")}
    exec(source, namespace)
    return namespace[name]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", IN_FORMS)
def test_a_form_passes(name, form):
    report = check[name](defined(in_form(name, form), name), record=False)
    assert report.passed, report
    assert not report.convention


def test_rope_and_what_is_aimed_with_it_have_another_convention_which_the_answer_follows():
    others = [name for name, its_check in check.items() if its_check.exercise.conventions]
    assert others == ["rope", "aimed_key"]
    assert check.rope(defined(NEIGHBOURS, "rope"), record=False).convention
