"""The widget of chapter 17: which tokens are filled, and how many blocks differ."""

from chapters.c17_a_real_llama.figures import agreeing
from chapters.c17_a_real_llama.widgets import broken_llama


def test_tokens_agree_up_to_the_first_that_differs():
    first = ["a", "town", "between", "mountains"]
    assert agreeing(first, ["a", "town", "near", "mountains"]) == 2
    assert agreeing(first, first) == 4


def test_the_browser_counts_what_x_holds(figures):
    widget = broken_llama()
    for state, answer in figures("broken_llama", "brokenFigure", 30):
        widget.state = state
        assert answer["differ"] == int((widget.x > 1e-5).sum()), state
        assert answer["same"] == agreeing(answer["own"], answer["tokens"])
        first = widget.data["layers"][state["mistake"]]
        assert bool(answer["differ"]) == (first is not None)


def test_the_two_quiet_mistakes_are_as_the_chapter_tells_them():
    texts, errors = broken_llama().data["texts"], broken_llama().data["errors"]
    outside = [text["same"] == 8 for text in texts["eps outside the root"]]
    one_off = [text["same"] == 8 for text in texts["positions off by one"]]
    assert all(outside)
    assert not all(one_off)
    assert max(errors["positions off by one"]) < 1e-5 < max(errors["eps outside the root"])
