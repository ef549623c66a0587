"""The figure of chapter 06: notes keep clear, nothing is clipped."""

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped

from chapters.c06_the_family.figures import norm_map

MAPS = np.repeat(np.arange(4)[:, None], 6, axis=1)
PANELS = {
    "layer norm": MAPS,
    "2 groups": 2 * MAPS + np.arange(6) // 3,
    "instance norm": np.arange(24).reshape(4, 6),
    "tanh": np.full((4, 6), -1),
}


def a_norm_map(
    arrows=(("layer norm", "2 groups", "G = 2"), ("layer norm", "tanh", "none")), second_line=""
):
    notes = {name: f"a note on {name}{second_line}" for name in PANELS}
    return norm_map(PANELS, [["layer norm", "2 groups", "instance norm"], ["tanh"]], arrows, notes)


def test_nothing_is_clipped():
    assert_nothing_is_clipped(a_norm_map())


@pytest.mark.parametrize("second_line", ["", "\nforgets offsets"], ids=["one line", "two lines"])
def test_notes_keep_clear_of_each_other_of_arrows_and_of_the_panels_below(second_line):
    figure = a_norm_map(second_line=second_line)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = {text.get_text(): text.get_window_extent() for text in axes.texts if text.get_text()}
    notes = {text: extent for text, extent in texts.items() if text.startswith("a note")}
    arrows = [
        text.arrow_patch.get_window_extent()
        for text in axes.texts
        if getattr(text, "arrow_patch", None)
    ]
    others = [*arrows, *(extent for text, extent in texts.items() if text not in notes)]
    assert len(notes) == len(PANELS)
    assert len(arrows) == 2
    for text, note in notes.items():
        assert (
            note.count_overlaps(
                [*others, *(extent for other, extent in notes.items() if other != text)]
            )
            == 0
        ), text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: norm_map({**PANELS, "other": MAPS[:2]}, [["layer norm"]], [], {}),
            r"one shape \(N, C\)",
        ),
        (
            lambda: a_norm_map([("layer norm", "nowhere", "")]),
            "arrows must join panels that are drawn: got nowhere",
        ),
    ],
)
def test_data_that_cannot_be_drawn_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
