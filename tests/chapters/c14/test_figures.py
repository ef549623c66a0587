"""The figure of chapter 14: nothing is clipped."""

from clipping import assert_nothing_is_clipped

from chapters.c14_rope.figures import attenuation


def test_nothing_is_clipped():
    curves = {"one": [1.0, 0.5], "other": [0.0, 0.1]}
    assert_nothing_is_clipped(attenuation({"base 100": [3.0, 2.0]}, curves))
