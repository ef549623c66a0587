"""The figure of chapter 13: nothing is clipped."""

import pytest
from clipping import assert_nothing_is_clipped

from chapters.c13_rope.figures import attenuation

FIGURES = {
    "attenuation": lambda: attenuation(
        {"base 100": [3.0, 2.0]}, {"one": [1.0, 0.5], "other": [0.0, 0.1]}
    )
}


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())
