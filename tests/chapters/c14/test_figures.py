"""The figures of chapter 14: nothing is clipped, and what moves together keeps its angle."""

from clipping import assert_nothing_is_clipped

from chapters.c14_rope.figures import attenuation, by_pair, moved_together


def test_nothing_is_clipped():
    curves = {"one": [1.0, 0.5], "other": [0.0, 0.1]}
    assert_nothing_is_clipped(attenuation({"base 100": [3.0, 2.0]}, curves, peaks={"one": 1}))
    turns = {"a turn in 512": 12.2}
    assert_nothing_is_clipped(
        by_pair([0.1] * 32, [0.1] * 32, [3.0] + [0.0] * 31, turns, named=(0,))
    )
    assert_nothing_is_clipped(moved_together(0.3, query=7, key=4, by=10))


def test_both_moved_the_angle_stays():
    figure = moved_together(0.3, query=7, key=4, by=10)
    before, after = ([text.get_text() for text in axes.texts] for axes in figure.axes)
    assert before == ["query\nat 7", "key\nat 4", "80°"]  # 0.9 − 0.4 + 0.3 · 3 radians
    assert after == ["query\nat 17", "key\nat 14", "80°"]
