"""The progress bar in a notebook and in a terminal."""

from types import SimpleNamespace

import pytest

from course_utils import progress_bar
from course_utils.progress_bar import ProgressBar


@pytest.fixture
def shown(monkeypatch):
    """Stands in for a notebook's output area: what it showed."""
    shown = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress_bar, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.0)
    return shown


def test_in_a_notebook_the_bar_moves_and_leaves_its_title(shown):
    with ProgressBar("training: 4 runs", 4) as bar:
        bar.show(0)
        bar.show(1)
    first, start, one, last = (bundle["text/html"] for bundle in shown)
    assert 'value="0" max="4"' in start
    assert 'value="1" max="4"' in one
    assert "s left" in one
    assert first == last == "<div>training: 4 runs </div>"


def test_an_inner_loop_does_not_flood_the_notebook_and_an_interruption_takes_the_bar_away(
    shown, monkeypatch
):
    def work():
        with ProgressBar("training", 1000) as bar:
            for i in range(999):
                bar.show(i)
            raise KeyboardInterrupt

    monkeypatch.setattr(progress_bar, "EVERY_S", 60.0)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(shown) == 3
    assert "progress" not in shown[-1]["text/html"]


def test_in_a_terminal_it_is_on_stderr_and_full_at_the_end(capsys):
    with ProgressBar("training", 3) as bar:
        bar.show(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "training: 100%" in captured.err
