"""The progress bar: it moves, it goes when the work ends or is interrupted, and what stays is the same everywhere."""

import pytest

from course_utils.book import progress_bar
from course_utils.book.progress_bar import ProgressBar


class Handle:
    """Stands in for a notebook's output area."""

    def __init__(self):
        self.shown = []

    def update(self, bundle, raw):
        self.shown.append(bundle)


@pytest.fixture
def handle(monkeypatch):
    handle = Handle()

    def display(bundle, raw, display_id):
        handle.update(bundle, raw)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress_bar, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.0)
    return handle


def test_in_a_notebook_the_bar_moves_and_leaves_its_title(handle):
    with ProgressBar("training: 4 runs", 4) as bar:
        bar.show(0)
        bar.show(1)
    first, start, one, last = (bundle["text/html"] for bundle in handle.shown)
    assert 'value="0" max="4"' in start
    assert "left" not in start
    assert 'value="1" max="4"' in one
    assert "s left" in one
    assert first == last == "<div>training: 4 runs </div>"
    assert {bundle["text/plain"] for bundle in handle.shown} == {"training: 4 runs"}


def test_an_interruption_takes_the_bar_away(handle):
    def work():
        with ProgressBar("training", 4) as bar:
            bar.show(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "progress" not in handle.shown[-1]["text/html"]


def test_an_inner_loop_does_not_flood_the_notebook(handle, monkeypatch):
    monkeypatch.setattr(progress_bar, "EVERY_S", 60.0)
    with ProgressBar("training", 1000) as bar:
        for i in range(1000):
            bar.show(i)
    assert len(handle.shown) == 3


def test_in_a_terminal_it_is_on_stderr_and_full_at_the_end(capsys):
    with ProgressBar("training", 3) as bar:
        bar.show(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "training: 100%" in captured.err


def test_unseen_it_writes_nothing(capsys):
    with ProgressBar("training", 3, shown=False) as bar:
        bar.show(1)
    assert capsys.readouterr() == ("", "")
