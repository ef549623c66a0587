"""The six blocks of chapter 07: each has its norms, nothing is clipped, no words meet."""

import pytest
from clipping import assert_nothing_is_clipped
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch

from chapters.c07_norms_of_models.figures import NORM, block_diagrams

PLACES = ("post", "pre", "sandwich", "parallel", "after", "QK")


@pytest.fixture(scope="module")
def figure():
    return block_diagrams(
        [(p, p.title(), "x ← x + N(f(N(x)))", "CogView, Gemma 2 and 3") for p in PLACES]
    )


def test_each_block_has_the_norms_of_its_formula(figure):
    norms = {
        place: sum(
            isinstance(box, FancyBboxPatch) and to_rgb(box.get_facecolor()) == to_rgb(NORM)
            for box in axes.patches
        )
        for place, axes in zip(PLACES, figure.axes, strict=True)
    }
    assert norms == {"post": 1, "pre": 1, "sandwich": 2, "parallel": 1, "after": 1, "QK": 3}


def test_nothing_is_clipped_and_no_words_meet(figure):
    assert_nothing_is_clipped(figure)
    figure.draw_without_rendering()
    for axes in figure.axes:
        words = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert not any(a.overlaps(b) for i, a in enumerate(words) for b in words[:i])
