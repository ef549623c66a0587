"""A learner's copy from the first day over a new version of the course: the work is there, widgets
are drawn before anything runs, and the repository is as it was."""

import json
import shutil
import urllib.request

import pytest
from answers import the_solution_as_the_learners_own, with_check
from jupyterlab_driver import open_notebook, serve
from playwright.sync_api import expect
from widget_driver import widgets_on

from tools.learn import bring_copies, start_afresh
from tools.notebooks import NOTEBOOKS, find_exercises, find_notebooks, read_notebook, write_notebook

FILE, NEXT = "00_start_here.ipynb", "01_why_normalize.ipynb"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The two first chapters, and a learner's copies of them, as `make lab` makes them."""
    folder = tmp_path_factory.mktemp("course")
    (folder / NOTEBOOKS).mkdir()
    for file in (FILE, NEXT):
        shutil.copy(NOTEBOOKS / file, folder / NOTEBOOKS)
    update(folder)
    return folder


def update(course):
    return bring_copies(find_notebooks(folder=course / NOTEBOOKS), course / "learn")


@pytest.fixture(scope="module")
def lab(course, tmp_path_factory):
    """A JupyterLab on the learner's copies."""
    with serve(course / "learn", tmp_path_factory.mktemp("jupyter")) as server:
        yield server


def save(opened):
    opened.page.evaluate("async () => await jupyterapp.commands.execute('docmanager:save')")


def test_a_learner_works_through_a_chapter_updates_the_course_and_finds_the_work(
    browser, lab, course
):
    chapter = read_notebook(course / NOTEBOOKS / FILE)
    [exercise] = find_exercises(chapter)
    mine = with_check(exercise, the_solution_as_the_learners_own(chapter, exercise))

    opened = open_notebook(browser, lab, FILE)
    folded = opened.cell(exercise.solution)
    assert folded.locator(".jp-Cell-inputWrapper .jp-Placeholder").count() == 1
    [shown] = [cell["source"] for cell in opened.cells() if cell.get("outputs")]
    assert shown.startswith("widgets.normalize_row(")
    first, *others = [i for i, cell in enumerate(opened.cells()) if cell["cell_type"] == "code"]
    opened.cell(first).locator(".cm-content").click()
    opened.page.keyboard.press("Shift+Enter")
    expect(opened.cell(first).get_by_text("Loading PyTorch")).to_be_visible(timeout=10_000)
    opened.wait_until_idle(180)
    assert opened.text_of_output(first).strip().startswith("course")
    for index in others:
        if index == exercise.stub:
            opened.type_into(index, mine)
        opened.run_cell(index)
    assert "passed" in opened.text_of_output(exercise.stub)
    assert "Using your centre" in opened.text_of_output(exercise.solution)
    widgets = len(widgets_on(opened.page))
    save(opened)
    opened.close()
    worked = (course / "learn" / FILE).read_bytes()

    for file in (FILE, NEXT):  # a new version of the course
        changed = read_notebook(course / NOTEBOOKS / file)
        changed.cells[0].source += "\n\nNew in this version."
        write_notebook(changed, course / NOTEBOOKS / file)
    committed = {path: path.read_bytes() for path in (course / NOTEBOOKS).iterdir()}
    told = " ".join(update(course))
    assert f"worked in {FILE}" in told
    assert "had not changed it: 01." in told
    assert (course / "learn" / FILE).read_bytes() == worked

    opened = open_notebook(browser, lab, FILE)
    opened.page.locator(".course-widget").first.wait_for(timeout=10_000)
    assert len(widgets_on(opened.page)) == widgets > 0
    assert opened.page.get_by_text("model not found").count() == 0
    assert opened.cells()[exercise.stub]["source"] == mine
    assert "passed" in opened.text_of_output(exercise.stub)
    assert "New in this version" not in opened.cell(0).inner_text()
    opened.close()
    newer = read_notebook(course / "learn" / "00_new_version.ipynb")
    assert "New in this version" in newer.cells[0].source
    assert newer.cells[exercise.stub].source == chapter.cells[exercise.stub].source

    start_afresh(course / NOTEBOOKS / FILE, course / "learn")
    [kept] = (course / "learn").glob("00_kept_*.ipynb")
    assert kept.read_bytes() == worked
    assert {path: path.read_bytes() for path in committed} == committed


def test_a_link_leads_to_the_next_copy_looking_changes_none_and_a_kernel_ends_with_its_tab(
    browser, lab, course
):
    before = {path: path.read_bytes() for path in (course / "learn").glob("*.ipynb")}
    opened = open_notebook(browser, lab, FILE)
    opened.page.locator(f'.jp-RenderedMarkdown a[href*="{NEXT}"]').first.click()
    opened.page.wait_for_function(
        f"jupyterapp.shell.currentWidget?.context?.path === {NEXT!r}", timeout=30_000
    )
    opened.wait_until_idle(60)
    for left in (1, 0):
        save(opened)
        opened.page.evaluate("async () => await jupyterapp.commands.execute('application:close')")
        for _ in range(60):  # it takes a moment
            opened.page.wait_for_timeout(500)
            if len(sessions(lab)) == left:
                break
        assert len(sessions(lab)) == left
    opened.close()
    assert {path: path.read_bytes() for path in before} == before


def sessions(lab):
    """The notebooks that have a kernel, as the server tells them."""
    with urllib.request.urlopen(f"{lab.url}/api/sessions?token={lab.token}", timeout=30) as answer:
        return json.load(answer)
