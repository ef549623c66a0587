"""For every exercise five right answers in unusual styles are accepted; those to the kernels are in
c11, where Triton's interpreter is."""

import pytest
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
