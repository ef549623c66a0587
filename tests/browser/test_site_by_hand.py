"""The static site as a hand uses it: solutions, search, puzzles, filters, clocks; from its files,
in Chromium."""

import json

import pytest
from playwright.sync_api import expect
from site_reader import DESKTOP, PHONE, TOO_WIDE, Reader

from chapters.c21_find_the_bug import bugs

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning"
)


@pytest.fixture(scope="module")
def reader(browser, site):
    """The site, not read yet."""
    with browser.new_page(viewport=DESKTOP) as page:
        reader = Reader(page, site)
        reader.watch()
        yield reader


def test_a_solution_opens_with_the_keyboard(reader):
    reader.open("notebooks/00_start_here.html")
    solution = reader.page.locator("details.hide").first
    code = solution.locator("pre")
    assert not code.is_visible()
    solution.locator("summary").focus()
    reader.page.keyboard.press("Enter")
    code.wait_for(state="visible", timeout=5000)


def test_search_answers_as_one_types_with_the_words_around_and_leads_to_the_place(reader):
    reader.open("index.html")
    box = reader.page.get_by_role("textbox", name="Search")
    box.fill("epsilon")
    box.press("Enter")
    reader.page.wait_for_url("**/search.html**")
    results = reader.page.locator("#search-results li")
    results.first.wait_for()
    assert results.count() > 10
    assert "epsilon" in results.first.locator("mark").first.inner_text().lower()
    words = reader.page.get_by_role("searchbox", name="search sections")
    words.fill("RMSNorm")
    assert results.first.locator("a").inner_text().startswith("06 · The family › RMS norm")
    words.fill("any factor layer")
    claim = results.locator("a[href*='#claim-']").first
    address = claim.get_attribute("href")
    claim.click()
    reader.page.wait_for_url(f"**/{address}")
    assert reader.page.locator(":target").is_visible()


def test_one_switch_shows_all_code_or_none_and_opens_no_solution(reader):
    reader.open("notebooks/02_layer_norm.html")
    code = reader.page.locator(".cell:not(.tag_solution):not(.tag_exercise) .cell_input")
    solutions = reader.page.locator(".tag_solution .cell_input")
    shown = len([cell for cell in code.all() if cell.is_visible()])
    switch = reader.page.get_by_label("which code is shown")
    switch.select_option("none")
    assert not any(cell.is_visible() for cell in code.all())
    assert reader.page.locator(".course-write textarea").first.is_visible()  # in place of the cell
    switch.select_option("all")
    assert all(cell.is_visible() for cell in code.all())
    assert not any(cell.is_visible() for cell in solutions.all())
    switch.select_option("told")
    assert len([cell for cell in code.all() if cell.is_visible()]) == shown < code.count()


def test_the_sections_of_a_chapter_are_on_the_left_where_the_right_has_no_room(reader):
    reader.open("notebooks/02_layer_norm.html")
    headings = reader.page.locator("article > section > section > h2")
    links = reader.page.locator(".sidebar-tree .course-sections a")
    assert links.count() == headings.count() > 5
    assert all(link.is_visible() for link in links.all())
    expect(reader.page.locator(".sidebar-tree .current-page > a")).to_be_in_viewport(ratio=0.9)
    reader.page.set_viewport_size({"width": 1600, "height": 900})
    assert not links.first.is_visible()
    reader.page.set_viewport_size(DESKTOP)


def test_on_paper_answers_are_open_verdicts_have_a_frame_and_nothing_lies_over_the_text(reader):
    reader.open("notebooks/02_layer_norm.html")
    page = reader.page
    answers = page.locator("article details:not(.hide)")
    assert answers.count() > 0
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert all(answer.get_attribute("open") is not None for answer in answers.all())
    assert not page.locator(".skip-to-content").is_visible()
    look = "e => [getComputedStyle(e).color, getComputedStyle(e).borderTopStyle]"
    badges = page.locator(".course-claim strong[style*=background]").evaluate_all(
        f"all => all.map({look})"
    )
    assert badges
    assert all(badge == ["rgb(0, 0, 0)", "solid"] for badge in badges)
    solutions = page.locator(".tag_solution > details.hide > :not(summary)")  # no fading in
    faded = solutions.evaluate_all("all => all.map(e => getComputedStyle(e).animationName)")
    assert set(faded) == {"none"}
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert all(answer.get_attribute("open") is None for answer in answers.all())


def test_a_puzzle_says_why_a_guess_is_wrong_and_shows_the_answer_to_a_right_one(reader):
    reader.page.set_viewport_size(PHONE)
    reader.open("notebooks/21_find_the_bug.html")
    puzzles = reader.page.locator(".course-puzzle").all()
    for puzzle, bug in zip(puzzles, bugs.BUGS.values(), strict=True):
        choice, said = puzzle.locator("select"), puzzle.locator("p")
        folds = puzzle.locator("xpath=ancestor::section[1]").locator("details")
        answer = folds.filter(has_text=f"Piece {bug.letter}: the answer")
        known = json.loads(puzzle.get_attribute("data-answer") or "")
        right = [str(line) for line in known["wrong"]] or ["-1"]
        values = choice.locator("option").evaluate_all(
            "options => options.map((option) => option.value)"
        )
        wrong = [value for value in values if value and value not in right]
        assert {*right, *known["innocent"], "-1"} < set(values)
        for value in wrong:
            choice.select_option(value)
            why = said.inner_text().removeprefix("Not this one: ").removeprefix("Not clean: ")
            assert why.startswith(
                known["innocent"].get(value, "there is an input" if value == "-1" else "it stands")
            )
            assert said.bounding_box()["height"] > 0  # type: ignore[index]
        opened = [fold.get_attribute("open") is not None for fold in folds.all()[:3]]
        assert opened == [True] * 3, "a hint for each of the first wrong guesses"
        assert answer.last.get_attribute("open") is None
        if bug.is_clean:
            choice.select_option(right[0])
        else:  # the line itself is clicked
            code = puzzle.locator("xpath=ancestor::*[contains(@class,'cell_output')]//pre").first
            height = code.bounding_box()["height"] / len(bug.source.splitlines())  # type: ignore[index]
            code.click(position={"x": 30, "y": height * (int(right[0]) + 0.5)})
        assert said.inner_text().startswith(f"Yes, at guess {len(wrong) + 1}.")
        assert answer.last.get_by_text("Why within").is_visible()
    assert not reader.page.evaluate(TOO_WIDE)
    reader.page.set_viewport_size(DESKTOP)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_words_are_filtered_by_what_is_typed_and_each_row_can_be_linked_to(reader, width):
    reader.page.set_viewport_size({"width": width, "height": 800})
    reader.open("notebooks/22_words_and_conventions.html")
    rows, field = (
        reader.page.locator("article tr[id]"),
        reader.page.get_by_label("filter the rows of all tables"),
    )
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


@pytest.mark.parametrize("address", ["index.html", "notebooks/14_rope.html"])
def test_the_clocks_run_until_they_are_paused_or_a_second_at_a_time(reader, address):
    reader.open(address)
    clocks = (
        reader.page.locator(".course-live .course-widget")
        .filter(has=reader.page.locator(".course-play"))
        .first
    )
    button, said = clocks.locator(".course-play button"), clocks.locator(".course-summary")
    at_first = said.inner_text()
    button.click()
    assert button.inner_text() == "■ pause"
    moved = "([said, before]) => said.textContent !== before"
    reader.page.wait_for_function(moved, arg=[said.element_handle(), at_first])
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


def test_without_javascript_a_widget_is_its_picture(browser, reader):
    with browser.new_page(java_script_enabled=False) as page:
        page.goto((reader.site / "notebooks/14_rope.html").as_uri())
        pictures = page.locator(".course-live img:not(.turned)").all()
        assert pictures
        assert all(picture.is_visible() for picture in pictures)


def test_nothing_is_fetched_and_the_console_stays_silent(reader):
    assert reader.strangers() == reader.complaints == []
