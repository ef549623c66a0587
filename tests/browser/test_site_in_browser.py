"""The static site in Chromium, from its files: nothing is fetched, formulas are drawn, everybody can read it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from accessibility import serious_in
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from course_utils import bugs

pytestmark = pytest.mark.filterwarnings("ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
# axe takes seconds a page: --quick shows it one of each kind, and `make browser` all
QUICK_AXE = ("index", "/00", "/13", "/18", "/20")
# what a reader would see of a formula that was not drawn; code may hold any of it
RAW_FORMULAS = """() => {
    const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    const raw = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (!node.parentElement.closest("pre, code, script, style, mjx-container") &&
            /\\$|\\\\[([a-zA-Z]/.test(node.data))
            raw.push(node.data.trim());
    return raw;
}"""
UNDRAWN = "() => [...document.querySelectorAll('.math')].filter((math) => !math.querySelector('mjx-container')).length"
# whatever is wider than a phone must scroll in its own place, and not the page with it
TOO_WIDE = (
    "() => [document.documentElement, document.querySelector('.content')].some((e) => e.scrollWidth > e.clientWidth)"
)
# axe takes a second for a thousand elements, and most are the colours of code and the strokes of formulas: of each
# colour the first on a page stays, and of each formula its frame
FEWER_ELEMENTS = """() => {
    const seen = new Set();
    for (const span of document.querySelectorAll("pre span")) {
        const look = span.className + " in " + span.parentElement.className;
        if (seen.has(look)) span.replaceWith(span.textContent);
        seen.add(look);
    }
    document.querySelectorAll("mjx-container").forEach((formula) => formula.replaceChildren());
}"""
# Contrast takes axe a second for a thousand words. Words look alike where their elements and the ones around them are
# alike: of each look, the first on a page stays visible.
ONE_OF_EACH_LOOK = """() => {
    const look = (element) => [element.tagName, element.getAttribute("class"), element.getAttribute("style")].join();
    const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const seen = new Set();
    for (const element of document.querySelectorAll("article *")) {
        if (!hasText(element)) continue;
        const looks = look(element) + look(element.parentElement);
        element.style.visibility = seen.has(looks) ? "hidden" : "visible";
        seen.add(looks);
    }
}"""


@dataclass
class Visit:
    """What opening one page showed."""

    formulas: int = 0
    not_drawn: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    too_wide: bool = False
    widgets: int = 0
    dumb: list[str] = field(default_factory=list)


@dataclass
class Reader:
    """Somebody who has read the whole site: what each page showed, and what went wrong on the way."""

    page: Page
    site: Path
    visits: dict[str, Visit] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Keep what the page asks for and what its console says."""
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))
        self.page.on("request", lambda request: self.outside.append(request.url))

    def open(self, address: str) -> None:
        """Open a page of the site and wait until its formulas are drawn."""
        self.page.goto(f"{self.site.as_uri()}/{address}")
        self.page.evaluate("() => window.MathJax && MathJax.startup.promise")

    def read(self, address: str, *, with_axe: bool) -> Visit:
        """Open a page, look at its formulas, move its widgets, also on a phone; maybe have axe look, in both themes."""
        self.open(address)
        visit = Visit(self.page.locator(".math").count(), self.page.evaluate(RAW_FORMULAS))
        visit.not_drawn += ["a formula left out"] * self.page.evaluate(UNDRAWN)
        visit.not_drawn += ["a formula with an error"] * self.page.locator("[data-mml-node=merror]").count()
        widgets = self.page.locator(".course-live .course-widget").all()
        visit.widgets, expected = len(widgets), self.page.locator(".course-live[data-widget]").count()
        visit.dumb += [f"{expected} widgets in the file, {len(widgets)} on the page"] * (len(widgets) != expected)
        for size in (PHONE, DESKTOP):
            self.page.set_viewport_size(size)
            visit.dumb += [
                f"{size['width']} px: {name}" for widget in widgets for name in controls_that_do_nothing(widget)
            ]
            visit.too_wide |= self.page.evaluate(TOO_WIDE)
        if not with_axe:
            return visit
        self.page.evaluate(FEWER_ELEMENTS)
        visit.findings += serious(self.page, rules={"color-contrast": {"enabled": False}})
        self.page.evaluate(ONE_OF_EACH_LOOK)
        for theme in ("light", "dark"):
            self.page.emulate_media(color_scheme=theme)
            visit.findings += [f"{theme}: {finding}" for finding in serious(self.page, runOnly=["color-contrast"])]
        return visit


def serious(page: Page, **options: object) -> list[str]:
    """Return axe's serious and critical findings on the whole page, one line each."""
    # axe would fetch the style sheets to look into them, and a page read from a file may not
    return serious_in(Axe().run(page, options={"resultTypes": ["violations"], "preload": False, **options}).response)


@pytest.fixture(scope="module")
def reader(browser: Browser, site: Path, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """The site, read: all of it, or the chapters that --chapter names."""
    chapters = request.config.getoption("--chapter") or [""]
    pages = [path for chapter in chapters for path in sorted((site / "notebooks").glob(f"{chapter}*.html"))]
    with browser.new_page(viewport=DESKTOP) as page:
        reader = Reader(page, site)
        reader.watch()
        for path in (site / "index.html", *pages, site / "search.html"):
            address = path.relative_to(site).as_posix()
            axe = not request.config.getoption("--quick") or any(part in address for part in QUICK_AXE)
            reader.visits[address] = reader.read(address, with_axe=axe)
        yield reader


def test_every_formula_is_drawn(reader: Reader) -> None:
    assert sum(visit.formulas for visit in reader.visits.values()) > 0
    assert {address: visit.not_drawn for address, visit in reader.visits.items() if visit.not_drawn} == {}


def test_it_is_accessible_in_both_themes(reader: Reader) -> None:
    assert {address: visit.findings for address, visit in reader.visits.items() if visit.findings} == {}


def test_on_a_phone_what_is_wide_scrolls_in_its_own_place(reader: Reader) -> None:
    assert [address for address, visit in reader.visits.items() if visit.too_wide] == []


def test_a_solution_opens_with_the_keyboard(reader: Reader) -> None:
    reader.open("notebooks/00_start_here.html")
    solution = reader.page.locator("details.hide").first
    code = solution.locator("pre")
    assert not code.is_visible()
    solution.locator("summary").focus()
    reader.page.keyboard.press("Enter")
    code.wait_for(state="visible", timeout=5000)


def test_search_finds_a_word_of_a_chapter_and_leads_there(reader: Reader) -> None:
    reader.open("index.html")
    box = reader.page.get_by_role("textbox", name="Search")
    box.fill("roofline")
    box.press("Enter")
    found = reader.page.locator("#search-results a", has_text="Where the time goes").first
    found.click()
    reader.page.wait_for_url("**/09_where_the_time_goes.html**")
    assert "roofline" in reader.page.locator("article").inner_text()


def test_every_control_of_every_widget_answers_without_a_kernel(reader: Reader) -> None:
    assert sum(visit.widgets for visit in reader.visits.values()) > 0
    assert {address: visit.dumb for address, visit in reader.visits.items() if visit.dumb} == {}


def controls_that_do_nothing(widget: Locator) -> list[str]:
    """Move each control that is enabled, by keyboard or tap, and return the names of those that changed nothing."""
    dumb = []
    widget.scroll_into_view_if_needed()
    for row in widget.locator("[data-control]").all():
        entry = row.locator("input, select, textarea").first
        if not row.is_visible() or entry.is_disabled():
            continue
        before = widget.get_attribute("data-frame")
        match entry.evaluate("input => input.type"):
            case "range":
                for key in ("ArrowRight", "ArrowLeft"):
                    entry.press(key)
            case "checkbox":
                entry.click()
                entry.click()
            case "select-one":
                last = entry.locator("option").last.get_attribute("value")
                first = entry.locator("option").first.get_attribute("value")
                entry.select_option(last)
                entry.select_option(first)
            case _:
                entry.fill('{"rope_theta": 20000.0}')
                entry.fill("")
        if widget.get_attribute("data-frame") == before:
            dumb.append(str(row.get_attribute("data-control")))
    canvas = widget.locator("canvas[role=application]")
    if canvas.count():
        before = widget.get_attribute("data-frame")
        box = canvas.bounding_box()
        assert box
        for x, y in ((0.3, 0.3), (0.5, 0.5), (0.7, 0.6), (0.2, 0.7)):
            canvas.click(position={"x": x * box["width"], "y": y * box["height"]})
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
            canvas.press(key)
        if widget.get_attribute("data-frame") == before:
            dumb.append("the picture")
    return dumb


@pytest.mark.parametrize("width", [1280, 390])
def test_a_puzzle_says_why_a_guess_is_wrong_and_shows_the_answer_to_a_right_one(reader: Reader, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": 800})
    reader.open("notebooks/19_find_the_bug.html")
    puzzles = reader.page.locator(".course-puzzle").all()
    assert len(puzzles) == len(bugs.BUGS)
    for puzzle, bug in zip(puzzles, bugs.BUGS.values(), strict=True):
        choice, said = puzzle.locator("select"), puzzle.locator("p")
        folds = puzzle.locator("xpath=ancestor::section[1]").locator("details")
        answer = folds.filter(has_text=f"Piece {bug.letter}: the answer")
        known = json.loads(puzzle.get_attribute("data-answer") or "")
        right = [str(line) for line in known["wrong"]] or ["-1"]
        values = choice.locator("option").evaluate_all("options => options.map((option) => option.value)")
        wrong = [value for value in values if value and value not in right]
        assert {*right, *known["innocent"], "-1"} < set(values)
        for value in wrong:
            choice.select_option(value)
            why = said.inner_text().removeprefix("Not this one: ").removeprefix("Not clean: ")
            assert why.startswith(known["innocent"].get(value, "there is an input" if value == "-1" else "it stands"))
            assert said.bounding_box()["height"] > 0  # type: ignore[index]
        opened = [fold.get_attribute("open") is not None for fold in folds.all()[:3]]
        assert opened == [True] * 3, "a hint for each of the first wrong guesses"
        assert answer.last.get_attribute("open") is None
        choice.select_option(right[0])
        assert said.inner_text().startswith(f"Yes, at guess {len(wrong) + 1}.")
        assert answer.last.get_by_text("Why within").is_visible()
    assert not reader.page.evaluate(TOO_WIDE)
    reader.page.set_viewport_size(DESKTOP)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_words_are_filtered_by_what_is_typed_and_each_row_can_be_linked_to(reader: Reader, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": 800})
    reader.open("notebooks/20_words_and_conventions.html")
    rows, field = reader.page.locator("article tr[id]"), reader.page.get_by_label("filter the rows of all tables")
    assert all(row.is_visible() for row in rows.all())
    field.fill("GGUF norm")
    shown = [row.inner_text().lower() for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < rows.count()
    assert all("gguf" in text and "norm" in text for text in shown)
    assert not reader.page.locator("article .course-claim").first.is_visible()
    link = rows.filter(visible=True).first.locator("a.headerlink")
    address = link.get_attribute("href")
    link.click()
    assert reader.page.url.endswith(str(address))
    field.fill("")
    assert all(row.is_visible() for row in rows.all())
    assert not reader.page.evaluate(TOO_WIDE)
    reader.page.set_viewport_size(DESKTOP)


@pytest.mark.parametrize("address", ["index.html", "notebooks/13_rope.html"])
def test_the_clocks_run_until_they_are_paused_or_a_second_at_a_time(reader: Reader, address: str) -> None:
    reader.open(address)
    clocks = reader.page.locator(".course-live .course-widget").filter(has=reader.page.locator(".course-play")).first
    button, said = clocks.locator(".course-play button"), clocks.locator(".course-summary")
    at_first = said.inner_text()
    button.click()
    assert button.inner_text() == "■ pause"
    reader.page.wait_for_function(
        "([said, before]) => said.textContent !== before", arg=[said.element_handle(), at_first]
    )
    button.click()
    assert button.inner_text() == "▶ play"
    frame = clocks.get_attribute("data-frame")
    reader.page.wait_for_timeout(300)
    assert clocks.get_attribute("data-frame") == frame
    reader.page.emulate_media(reduced_motion="reduce")
    reader.open(address)
    button.click()
    assert button.inner_text() == "▶ a second on"
    assert said.inner_text() != at_first
    frame = clocks.get_attribute("data-frame")
    reader.page.wait_for_timeout(300)
    assert clocks.get_attribute("data-frame") == frame
    reader.page.emulate_media(reduced_motion="no-preference")


def test_without_javascript_a_widget_is_its_picture(browser: Browser, reader: Reader) -> None:
    with browser.new_page(java_script_enabled=False) as page:
        page.goto((reader.site / "notebooks/13_rope.html").as_uri())
        pictures = page.locator(".course-live img").all()
        assert pictures
        assert all(picture.is_visible() for picture in pictures)


def test_nothing_is_fetched_and_the_console_stays_silent(reader: Reader) -> None:
    assert [url for url in reader.outside if not url.startswith((reader.site.as_uri(), "data:"))] == []
    assert reader.complaints == []
