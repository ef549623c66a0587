"""Mistakes in their other forms, and everyday slips made two to four at once; the first forms, some
pairs and five at once are in chapters/test_mistakes.py."""

from itertools import chain, combinations

import pytest
from naming import assert_named_among, wrongly_named

from chapters import check


@pytest.mark.parametrize("name", [name for name in check if not name.endswith("_kernel")])
def test_what_is_named_of_several_slips_is_among_them(name):
    everyday = [key for key, mistake in check[name].catalogue.items() if mistake.everyday]
    several = (combinations(everyday[:most], size) for size, most in ((2, 6), (3, 5), (4, 5)))
    for slips in chain.from_iterable(several):
        assert_named_among(check[name], slips)


@pytest.mark.parametrize("name", check)
def test_every_other_form_of_a_mistake_is_named_and_nothing_else_is(name, request):
    if name.endswith("_kernel"):
        interpreter = request.getfixturevalue("interpreter")
        assert interpreter(wrongly_named, name, slice(1, None)) == []
    else:
        assert wrongly_named(name, slice(1, None)) == []
