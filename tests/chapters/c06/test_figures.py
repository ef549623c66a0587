"""The figure of chapter 06: blue is what shares a statistic, nothing is clipped, no words meet."""

import numpy as np
from clipping import assert_nothing_is_clipped
from matplotlib.colors import to_rgb

from chapters.c06_the_family.figures import SHARED, norm_blocks


def blocks(**moved):
    nothing = np.zeros((4, 6, 3), dtype=bool)
    names = ("RMS norm", "layer norm (C)", "layer", "group", "instance norm", "batch")
    every = {name: moved.get(name, nothing) for name in names}
    return norm_blocks(every, dict.fromkeys(names, "some channels of a sample"), 5 * ["cut the"])


def shared_faces(figure):
    return sum(to_rgb(face.get_facecolor()) == to_rgb(SHARED) for face in figure.axes[0].patches)


def test_nothing_is_clipped_and_no_words_meet():
    figure = blocks()
    assert_nothing_is_clipped(figure)
    figure.draw_without_rendering()
    words = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
    assert not any(a.overlaps(b) for i, a in enumerate(words) for b in words[:i])


def test_what_shares_a_statistic_is_blue_and_nothing_else():
    assert shared_faces(blocks()) == 0
    first_sample, last_channel = np.zeros((2, 4, 6, 3), dtype=bool)
    first_sample[0] = True
    last_channel[:, -1] = True
    # of the front, the top and the right side
    assert shared_faces(blocks(layer=first_sample)) == 6 * 3 + 6 + 3
    assert shared_faces(blocks(batch=last_channel)) == 3 + 4 + 4 * 3
