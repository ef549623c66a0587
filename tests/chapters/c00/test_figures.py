"""The map of chapter 00: a card for every chapter, with its words inside."""

import pytest
from matplotlib.patches import FancyBboxPatch

from chapters.c00_start_here.figures import course_map
from chapters.contents import CHAPTERS


@pytest.mark.usefixtures("all_written")
@pytest.mark.parametrize("for_phone", [False, True])
def test_the_map_has_a_card_for_every_chapter_with_its_words_inside_and_no_two_overlap(for_phone):
    figure = course_map(CHAPTERS, for_phone=for_phone)
    figure.draw_without_rendering()
    cards = [
        box.get_window_extent() for box in figure.axes[0].patches if isinstance(box, FancyBboxPatch)
    ]
    assert len(cards) == len(CHAPTERS)
    assert all(not a.overlaps(b) for i, a in enumerate(cards) for b in cards[:i])
    texts = figure.axes[0].texts
    assert sum(text.get_text()[:2].isdigit() for text in texts) == len(CHAPTERS)
    ideas = {idea.name for chapter in CHAPTERS for idea in chapter.ideas}
    shown = [text for text in texts if text.get_text() in ideas]
    assert len(shown) == (0 if for_phone else len(ideas))
    for text in (*shown, *(text for text in texts if text.get_weight() == "bold")):
        place = text.get_window_extent()
        assert any(c.x0 < place.x0 and place.x1 < c.x1 and c.y0 < place.y0 < c.y1 for c in cards), (
            text
        )
