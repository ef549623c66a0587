"""What a learner finds on the second day: files as they were left, widgets that are drawn before
anything is run."""

import shutil
from pathlib import Path

import pytest
from jupyterlab_driver import open_notebook
from widget_driver import widgets_on

from tools.notebooks import NOTEBOOKS

COPY = f"{NOTEBOOKS.name}/day_two.ipynb"


@pytest.fixture
def file(server):
    """A copy of chapter 00 on the server."""
    return Path(shutil.copy(NOTEBOOKS / "00_start_here.ipynb", server.root / COPY))


def save(opened):
    opened.page.evaluate("async () => await jupyterapp.commands.execute('docmanager:save')")


def test_a_widget_that_was_saved_is_drawn_before_anything_runs(browser, server, file):
    opened = open_notebook(browser, server, COPY)
    opened.run_all()
    widgets = len(widgets_on(opened.page))
    save(opened)
    opened.close()
    assert b"course-widget" in file.read_bytes()  # its state is in the file
    opened = open_notebook(browser, server, COPY)
    opened.page.locator(".course-widget").first.wait_for(timeout=10_000)
    assert len(widgets_on(opened.page)) == widgets > 0
    assert opened.page.get_by_text("model not found").count() == 0
    opened.close()
