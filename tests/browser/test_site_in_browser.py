"""The static site in Chromium, from its files: nothing is fetched, formulas are drawn, everybody
can read it."""

from dataclasses import dataclass, field

import pytest
from accessibility import serious_in
from axe_playwright_python.sync_playwright import Axe
from site_reader import DESKTOP, PHONE, TOO_WIDE, Reader
from widget_driver import controls_that_do_nothing, sliders_too_fine

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning"
)

# axe takes seconds a page: --quick looks closely at one of each kind, and `make browser` at all
QUICK = ("index", "/00", "/14", "/20", "/22")
# what a reader would see of a formula that was not drawn; code may hold any of it
RAW_FORMULAS = """() => {
    const article = document.querySelector("article");
    const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    const raw = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (!node.parentElement.closest("pre, code, script, style, mjx-container") &&
            /\\$|\\\\[([a-zA-Z]/.test(node.data))
            raw.push(node.data.trim());
    return raw;
}"""
UNDRAWN = (
    "() => [...document.querySelectorAll('.math')].filter((math) => "
    "!math.querySelector('mjx-container')).length"
)
# on a phone: pictures, formulas and tables that are cut off, small formulas, pictures whose letters
# of 11 points are less than 9.5 px high (1,120 pixels for 560 of a page), what scrolls unmarked
CLIPPED = """async () => {
    const all = (selector) =>
        [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
    const wide = (e) => e.getBoundingClientRect().right > innerWidth;
    const small = (e) => parseFloat(getComputedStyle(e).fontSize) < 9;
    const pictures = all("a.course-figure img");
    for (const picture of pictures) picture.loading = "eager";
    await Promise.all(pictures.map((e) => e.decode()));
    const tiny = (e) => e.naturalWidth > 3.2 * e.clientWidth;
    const formulas = all("article mjx-container > svg");
    const scrolls = all("pre, .output, .table-wrapper, .math-wrapper").filter((e) =>
        e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible");
    return [
        ...all("article :is(img, table)").filter(wide),
        ...pictures.filter(tiny),
        ...formulas.filter((e) => wide(e) || small(e)),
        ...scrolls.filter((e) => !("more" in e.dataset)),
    ].map((e) => e.outerHTML.slice(0, 200));
}"""
FOLDS = """async (open) => {
    const was = open ? "details:not([open])" : "details[data-was]";
    for (const fold of document.querySelectorAll(was)) {
        fold.toggleAttribute("data-was", open);
        fold.open = open;
    }
    // an observer sees what opened a frame later, and acts in the next
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
}"""
# axe takes a second for a thousand elements, and most are the colours of code and the strokes of
# formulas: of each colour the first on a page stays, and of each formula its frame
FEWER_ELEMENTS = """() => {
    const seen = new Set();
    for (const span of document.querySelectorAll("pre span")) {
        const look = span.className + " in " + span.parentElement.className;
        if (seen.has(look)) span.replaceWith(span.textContent);
        seen.add(look);
    }
    document.querySelectorAll("mjx-container").forEach((formula) => formula.replaceChildren());
}"""
# Contrast takes axe a second for a thousand words. Words look alike where their elements and the
# ones around them are alike: of each look, the first on a page stays visible.
ONE_OF_EACH_LOOK = """() => {
    const look = (element) =>
        [element.tagName, element.getAttribute("class"), element.getAttribute("style")].join();
    const hasText = (element) =>
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
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
    clipped: list[str] = field(default_factory=list)
    widgets: int = 0
    dumb: list[str] = field(default_factory=list)  # controls that do not answer, or to no hand


def read(reader, address, *, closely):
    """Open a page on a phone, look at its formulas, move its widgets; maybe also on a screen, where
    axe looks, in both themes."""
    page = reader.page
    page.goto("about:blank")  # axe saw the last page without its formulas: nothing fits them
    page.set_viewport_size(PHONE)
    reader.open(address)
    page.evaluate(FOLDS, True)
    page.wait_for_timeout(200)  # an observer marks what scrolls
    visit = Visit(page.locator(".math").count(), page.evaluate(RAW_FORMULAS))
    visit.not_drawn += ["a formula left out"] * page.evaluate(UNDRAWN)
    visit.not_drawn += ["a formula with an error"] * page.locator("[data-mml-node=merror]").count()
    widgets = page.locator(".course-live .course-widget").all()
    visit.widgets, expected = len(widgets), page.locator(".course-live[data-widget]").count()
    visit.dumb += [f"{expected} widgets in the file, {len(widgets)} on the page"] * (
        len(widgets) != expected
    )
    visit.clipped = page.evaluate(CLIPPED)
    page.evaluate(FOLDS, False)
    for size in (PHONE, DESKTOP) if closely else (PHONE,):
        page.set_viewport_size(size)
        visit.dumb += [
            f"{size['width']} px: {name}"
            for widget in widgets
            for name in (*controls_that_do_nothing(widget), *sliders_too_fine(widget))
        ]
        visit.too_wide |= page.evaluate(TOO_WIDE)
    if not closely:
        return visit
    page.evaluate(FEWER_ELEMENTS)
    visit.findings += serious(page, rules={"color-contrast": {"enabled": False}})
    page.evaluate(ONE_OF_EACH_LOOK)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        visit.findings += [
            f"{theme}: {finding}" for finding in serious(page, runOnly=["color-contrast"])
        ]
    return visit


def serious(page, **options):
    """Return axe's serious and critical findings on the whole page, one line each."""
    # axe would fetch the style sheets to look into them, and a page read from a file may not
    return serious_in(
        Axe()
        .run(page, options={"resultTypes": ["violations"], "preload": False, **options})
        .response
    )


@pytest.fixture(scope="module")
def reader(browser, site, request):
    """The site, read: all of it, or the chapters that --chapter names."""
    chapters = request.config.getoption("--chapter") or [""]
    pages = [
        path
        for chapter in chapters
        for path in sorted((site / "notebooks").glob(f"{chapter}*.html"))
    ]
    with browser.new_page(viewport=DESKTOP) as page:
        reader = Reader(page, site)
        reader.watch()
        for path in (site / "index.html", *pages, site / "search.html"):
            address = path.relative_to(site).as_posix()
            closely = not request.config.getoption("--quick") or any(
                part in address for part in QUICK
            )
            reader.visits[address] = read(reader, address, closely=closely)
        yield reader


def test_every_formula_is_drawn(reader):
    assert sum(visit.formulas for visit in reader.visits.values()) > 0
    assert {
        address: visit.not_drawn for address, visit in reader.visits.items() if visit.not_drawn
    } == {}


def test_it_is_accessible_in_both_themes(reader):
    assert {
        address: visit.findings for address, visit in reader.visits.items() if visit.findings
    } == {}


def test_on_a_phone_what_is_wide_scrolls_in_its_own_place(reader):
    assert [address for address, visit in reader.visits.items() if visit.too_wide] == []
    assert {
        address: visit.clipped for address, visit in reader.visits.items() if visit.clipped
    } == {}


@pytest.mark.parametrize("chapter", ["21", "22"])
def test_on_a_screen_long_lines_and_wide_tables_are_set_smaller(browser, site, chapter):
    with browser.new_page(viewport=DESKTOP) as page:
        (path,) = (site / "notebooks").glob(f"{chapter}*.html")
        page.goto(path.as_uri())
        page.locator(".course-tight, pre[style]").first.wait_for()
        page.locator("article [data-more]:visible").first.wait_for(state="hidden")


def test_every_control_of_every_widget_answers_without_a_kernel(reader):
    assert sum(visit.widgets for visit in reader.visits.values()) > 0
    assert {address: visit.dumb for address, visit in reader.visits.items() if visit.dumb} == {}


def test_nothing_is_fetched_and_the_console_stays_silent(reader):
    assert reader.strangers() == reader.complaints == []
