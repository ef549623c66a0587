"""The map of the norms: what is drawn is what it is given, inside the page."""

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped

from course_utils import plots

ROWS = np.repeat(np.arange(4)[:, None], 6, axis=1)
PANELS = {
    "layer norm": ROWS,
    "2 groups": 2 * ROWS + np.arange(6) // 3,
    "instance norm": np.arange(24).reshape(4, 6),
    "tanh": np.full((4, 6), -1),
}


def family_map(arrows=(("layer norm", "2 groups", "G = 2"), ("layer norm", "tanh", "none")), second_line=""):
    notes = {name: f"a note on {name}{second_line}" for name in PANELS}
    return plots.norm_map(PANELS, [["layer norm", "2 groups", "instance norm"], ["tanh"]], arrows, notes)


def test_every_map_bears_the_number_of_its_statistic_and_none_where_it_has_none():
    texts = [text.get_text() for text in family_map().axes[0].texts]
    numbers = sorted(int(text) for text in texts if text.isdigit())
    assert numbers == sorted(int(n) for values in PANELS.values() for n in values.flat if n >= 0)
    assert set(PANELS) <= set(texts)
    assert {f"a note on {name}" for name in PANELS} <= set(texts)
    assert "G = 2" in texts


def test_the_map_is_not_clipped():
    figure = family_map()
    assert_nothing_is_clipped(figure)


@pytest.mark.parametrize("second_line", ["", "\nforgets offsets"], ids=["one line", "two lines"])
def test_notes_keep_clear_of_each_other_of_arrows_and_of_the_panels_below(second_line):
    figure = family_map(second_line=second_line)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = {text.get_text(): text.get_window_extent() for text in axes.texts if text.get_text()}
    notes = {text: extent for text, extent in texts.items() if text.startswith("a note")}
    arrows = [text.arrow_patch.get_window_extent() for text in axes.texts if getattr(text, "arrow_patch", None)]
    others = [*arrows, *(extent for text, extent in texts.items() if text not in notes)]
    assert len(notes) == len(PANELS)
    assert len(arrows) == 2
    for text, note in notes.items():
        assert note.count_overlaps([*others, *(extent for other, extent in notes.items() if other != text)]) == 0, text


def test_panels_of_two_shapes_and_arrows_to_nowhere_are_refused():
    with pytest.raises(ValueError, match=r"one shape \(N, C\)"):
        plots.norm_map({**PANELS, "other": ROWS[:2]}, [["layer norm"]], [], {})
    with pytest.raises(ValueError, match="arrows must join panels that are drawn: got nowhere"):
        family_map([("layer norm", "nowhere", "")])
