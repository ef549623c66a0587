"""Every known mistake of the exercises on pages, alone and any two at once, in every form, is named
on the page as by a check."""

import pytest
from written_on_page import mistakes_of, named_otherwise

from tools.site.exercises import WRITTEN_ON_PAGE, exercise_data

_AT_ONCE = 50  # answers to one start of Node
# Of these mistakes: noise of a probe of which a page has eight rows; a third name beside two.
_MAY_DIFFER = 0.02


@pytest.mark.parametrize("name", [name for name in WRITTEN_ON_PAGE if "input" not in name])
def test_any_two_mistakes_are_named_on_the_page_as_by_a_check(name, tmp_path):
    mistakes = mistakes_of(name, 1) + mistakes_of(name, 2)
    data = exercise_data(name)
    differing = []
    for start in range(0, len(mistakes), _AT_ONCE):
        some = mistakes[start : start + _AT_ONCE]
        differing += named_otherwise(name, tmp_path, data, some)
    assert len(differing) <= _MAY_DIFFER * len(mistakes), differing
