"""Everyday slips made three and four at once; chapters/test_mistakes.py has pairs, and five."""

from itertools import combinations

import pytest
from naming import assert_named_among

from chapters import check


@pytest.mark.parametrize("name", check)
def test_what_is_named_of_three_or_four_slips_is_among_them(name):
    everyday = [key for key, mistake in check[name].catalogue.items() if mistake.everyday]
    for size in (3, 4):
        for slips in combinations(everyday[:5], size):
            assert_named_among(check[name], slips)
