"""The map of chapter 00: a card for every chapter, with its words inside."""

import pytest
from matplotlib.patches import FancyBboxPatch

from chapters.c00_start_here.figures import course_map
from chapters.contents import CHAPTERS


@pytest.mark.usefixtures("all_written")
def test_the_map_has_a_card_for_every_chapter_with_its_words_inside_and_no_two_overlap():
    figure = course_map(CHAPTERS)
    figure.draw_without_rendering()
    cards = [
        box.get_window_extent() for box in figure.axes[0].patches if isinstance(box, FancyBboxPatch)
    ]
    assert len(cards) == len(CHAPTERS)
    assert all(not a.overlaps(b) for i, a in enumerate(cards) for b in cards[:i])
    words = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    titles = [word for word in words if word[:2].isdigit()]
    assert len(titles) == len(CHAPTERS)
    for word in (*titles, *(idea.name for chapter in CHAPTERS for idea in chapter.ideas)):
        place = words[word]
        assert any(c.x0 < place.x0 and place.x1 < c.x1 and c.y0 < place.y0 < c.y1 for c in cards), (
            word
        )
