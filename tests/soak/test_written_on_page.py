"""Every known mistake of the exercises on pages, alone and two at once, in every form, is named on
the page as by a check."""

import random

import pytest
from written_on_page import mistakes_of, named_otherwise

from tools.site.exercises import WRITTEN_ON_PAGE, exercise_data

_PAIRS = 200


@pytest.mark.parametrize("name", [name for name in WRITTEN_ON_PAGE if "input" not in name])
def test_any_two_mistakes_are_named_on_the_page_as_by_a_check(name, tmp_path):
    two = mistakes_of(name, 2)
    mistakes = mistakes_of(name, 1) + random.Random(0).sample(two, min(len(two), _PAIRS))
    assert named_otherwise(name, tmp_path, exercise_data(name), mistakes) == []
