"""Every notebook in JupyterLab, as a learner meets it: open, run all, look, move the widgets."""

from pathlib import Path

import pytest
from accessibility import serious_findings
from widget_driver import name_of, problems_of, tall_page, widgets_on

SCREENSHOTS = Path("screenshots")


def test_run_all_runs_every_cell_and_leaves_no_error(opened):
    code = [cell for cell in opened.cells() if cell["cell_type"] == "code"]
    wrong = [
        output
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    assert wrong == []
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))


def test_every_widget_is_drawn(opened):
    views = sum(
        "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        for cell in opened.cells()
        for output in cell.get("outputs", [])
    )
    drawn = opened.page.locator(
        ".jp-OutputArea-output .jupyter-widgets, .jp-OutputArea-output .lm-Widget:has(> "
        ".course-widget)"
    )
    assert drawn.count() >= views
    for complaint in ("Error displaying widget", "Loading widget", "model not found"):
        assert opened.page.get_by_text(complaint).count() == 0
    for widget in widgets_on(opened.page):
        assert name_of(widget) != "unnamed", "a widget's root says which it is: data-widget"
        assert widget.get_attribute("data-frame"), f"{name_of(widget)} counts its pictures"


@pytest.mark.thorough
def test_pictures_are_taken_in_both_themes(opened):
    chapter = Path(opened.name).stem
    for theme in ("dark", "light"):
        opened.set_theme(theme)
        opened.screenshot(SCREENSHOTS / f"{chapter}_{theme}.png")
        with tall_page(opened.page):
            for widget in widgets_on(opened.page):
                picture = SCREENSHOTS / f"{chapter}_{name_of(widget)}_{theme}.png"
                widget.screenshot(path=picture)
                assert picture.stat().st_size > 1000, f"{picture} shows next to nothing"


@pytest.mark.thorough
def test_every_control_redraws_its_widget(opened):
    with tall_page(opened.page):
        problems = [one for widget in widgets_on(opened.page) for one in problems_of(widget)]
    assert problems == []


@pytest.mark.thorough
def test_what_the_course_puts_on_the_page_is_accessible_in_both_themes(opened):
    findings = []
    for theme in (
        "light",
        "dark",
    ):  # light is what the pictures left: a change of theme redraws the whole page
        opened.set_theme(theme)
        findings += [f"{theme}: {finding}" for finding in serious_findings(opened.page)]
    assert findings == []


def test_nothing_is_fetched_and_the_console_stays_silent(opened):
    assert opened.requests_outside == []
    assert opened.console_errors == []
