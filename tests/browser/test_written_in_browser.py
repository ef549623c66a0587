"""Exercises written on the built site, from its files: a wrong and a right answer to each, on a
phone and on a screen."""

import pytest
from accessibility import serious_in
from answers import the_solution_as_the_learners_own
from axe_playwright_python.sync_playwright import Axe
from site_reader import DESKTOP, PHONE, TOO_WIDE, Reader

from tools.notebooks import NOTEBOOKS, find_exercises, find_notebooks, read_notebook
from tools.site.exercises import WRITTEN_ON_PAGE

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning"
)
DONE = "place => place.querySelector('.course-verdict').dataset.verdict"


def answers():
    """Yield each exercise's page, its name and the course's solution."""
    for path in find_notebooks():
        notebook = read_notebook(path)
        for exercise in find_exercises(notebook):
            if exercise.names[0] in WRITTEN_ON_PAGE:
                solution = the_solution_as_the_learners_own(notebook, exercise)
                yield f"{NOTEBOOKS}/{path.stem}.html", exercise.names[0], solution


def verdict(page, place, text):
    """Type an answer, run it with the keyboard, and return what is said of it."""
    area = place.locator("textarea")
    area.fill(text)
    area.press("Shift+Enter")
    page.wait_for_function(DONE, arg=place.element_handle())
    return place.locator(".course-verdict").inner_text()


def found_by_axe(page, name):
    """Return axe's serious findings on an exercise and its report."""
    where = {"include": [[f".course-write[data-exercise={name}]"]]}
    options = {"resultTypes": ["violations"], "preload": False}
    return serious_in(Axe().run(page, context=where, options=options).response)


def assert_readable(page, place, name):
    """The editor and its report fit the page, and a screen reader can read them."""
    box = place.locator("textarea").bounding_box()
    assert box["x"] >= 0, name
    assert box["x"] + box["width"] <= page.viewport_size["width"], name
    assert not page.evaluate(TOO_WIDE), name
    assert found_by_axe(page, name) == []


def test_a_wrong_and_a_right_answer_to_every_exercise(browser, site):
    with browser.new_page() as page:
        reader = Reader(page, site)
        reader.watch()
        for address, name, solution in answers():
            if not page.url.endswith(address):
                page.goto(f"{site.as_uri()}/{address}")
            place = page.locator(f".course-write[data-exercise={name}]")
            argument = solution.split("(", 1)[1].split(",")[0].split(")")[0]
            unchanged = f"{solution.splitlines()[0]}\n    return {argument}\n"
            for size in (PHONE, DESKTOP):
                page.set_viewport_size(size)
                told = verdict(page, place, unchanged)
                assert told.startswith(f"{name}: not yet"), told
                assert "It shows in:" in told or "This is the ordinary input" in told
                assert_readable(page, place, name)
                told = verdict(page, place, solution)
                assert told.startswith(f"{name}: passed"), told
                assert_readable(page, place, name)
        assert reader.strangers() == reader.complaints == []


def test_the_first_page_names_a_mistake_at_once_and_ends_a_loop(browser, site):
    with browser.new_page(viewport=PHONE) as page:
        page.goto(f"{site.as_uri()}/index.html")
        place = page.locator(".course-write")
        area = place.locator("textarea")
        told = place.locator(".course-verdict").inner_text()  # before anything is run
        assert "It takes one mean over the whole tensor." in told
        assert "[[-1, 0, 1], [-1, 0, 1]]" in told
        assert verdict(page, place, area.input_value()) == told
        assert not page.evaluate(TOO_WIDE)
        assert found_by_axe(page, "centre") == []
        told = verdict(page, place, "def centre(x):\n    while True: pass\n")
        assert "still running after 2 s" in told
        area.fill("def centre(x):")
        area.press("End")
        area.press("Enter")
        assert area.input_value().endswith(":\n    ")
        page.reload()
        assert area.input_value().endswith(":\n    ")  # it is kept
        area.focus()
        area.press("Escape")
        area.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Run (Shift+Enter)"
        place.get_by_role("button", name="Reset").click()
        assert "x.mean()" in area.input_value()


def test_an_answer_is_taken_to_jupyterlab(browser, site):
    """To the clipboard; where a browser lets no page write there, it is marked."""
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(f"{site.as_uri()}/index.html")
        place = page.locator(".course-write")
        area, take = place.locator("textarea"), place.get_by_role("button", name="Take it")
        area.fill("def centre(x):\n    return x\n")
        take.click()
        place.get_by_text("Copied. Paste it over").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "def centre(x):\n    return x\n\n\ncheck.centre(centre)\n"
        page.evaluate(
            "() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }"
        )
        take.click()
        place.get_by_text("Copy what is marked").wait_for()
        marked = "e => e.value.slice(e.selectionStart, e.selectionEnd)"
        assert area.evaluate(marked) == area.input_value()
