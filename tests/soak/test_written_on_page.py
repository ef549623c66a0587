"""Every known mistake of the exercises on pages, alone and two at once, in every form, is named on
the page as by a check."""

import pytest
from written_on_page import mistakes_of, named_otherwise

from tools.site.exercises import WRITTEN_ON_PAGE, exercise_data

_AT_ONCE = 20  # answers to one start of Node
_PAIRS = 1_000
# Pairs of which a page names one: two and two by the noise of a probe of which it has eight rows;
# two of layer_norm that differ where it, with 24 numbers of a result, does not look; and three of
# normalize that together are a third mistake, beside which a check names both.
_MAY_DIFFER = {"normalize": 5, "layer_norm": 4}


@pytest.mark.parametrize("name", [name for name in WRITTEN_ON_PAGE if "input" not in name])
def test_any_two_mistakes_are_named_on_the_page_as_by_a_check(name, tmp_path):
    """Where a check has tried so many that it says no more, a page may name what was made."""
    two = mistakes_of(name, 2)
    mistakes = mistakes_of(name, 1) + two[:: 1 + len(two) // _PAIRS]  # all, or evenly among them
    data = exercise_data(name)
    differing = []
    for start in range(0, len(mistakes), _AT_ONCE):
        some = mistakes[start : start + _AT_ONCE]
        differing += [
            (slips, named, keys)
            for slips, named, keys in named_otherwise(name, tmp_path, data, some)
            if keys != [] or named is None or set(named) != set(dict(slips))
        ]
    assert len(differing) <= _MAY_DIFFER.get(name, 0), differing
