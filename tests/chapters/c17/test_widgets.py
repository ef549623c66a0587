"""The widget of chapter 17: which tokens are filled, and how many blocks differ."""

from chapters.c17_a_real_llama.figures import kept
from chapters.c17_a_real_llama.widgets import broken_llama


def test_tokens_are_kept_in_their_order():
    first = ["a", "town", "between", "mountains"]
    assert kept(first, ["a", "town", "between", "great", "mountains"]) == [
        *(True, True, True, False, True),
    ]
    assert kept(first, ["mountains", "a"]) in ([True, False], [False, True])


def test_the_browser_counts_what_x_holds(figures):
    widget = broken_llama()
    for state, answer in figures("broken_llama", "brokenFigure", 30):
        widget.state = state
        assert answer["differ"] == int((widget.x > 1e-5).sum()), state
        assert answer["kept"] == kept(answer["own"], answer["tokens"])
        first = widget.data["layers"][state["mistake"]]
        assert bool(answer["differ"]) == (first is not None)


def test_the_two_quiet_mistakes_are_as_the_chapter_tells_them():
    texts, errors = broken_llama().data["texts"], broken_llama().data["errors"]
    outside = [all(text["kept"]) for text in texts["eps outside the root"]]
    one_off = [all(text["kept"]) for text in texts["positions off by one"]]
    assert all(outside)
    assert not all(one_off)
    assert max(errors["positions off by one"]) < 1e-5 < max(errors["eps outside the root"])
