"""What a model writes, drawn: for a screen and for a phone."""

from clipping import assert_nothing_is_clipped

from chapters.c17_a_real_llama import figures

TOKENS = {
    "right parts": ["small", "town", "nestled", "between", "two", "mountains", ".", "The"],
    "positions off by one": ["small", "town", "nestled", "between", "two", "great", "hills", "."],
}


def test_a_phone_shows_the_same_tokens_in_lines_of_four():
    drawn = {}
    for draw in (figures.written, figures.written_on_phone):
        figure = draw(TOKENS)
        assert_nothing_is_clipped(figure)
        drawn[draw] = [text.get_text() for text in figure.axes[0].texts]
    assert len(set(map(tuple, drawn.values()))) == 1
    lefts = [box.get_x() for box in figure.axes[0].patches]
    assert lefts.count(0.0) == 2 * len(TOKENS)
