"""What drives the widgets, on a page with one small widget: sound, it passes; each fault put into it is found."""

from collections.abc import Iterator

import pytest
from accessibility import serious_findings
from latency import Latency, measure_latency
from playwright.sync_api import Browser, Page
from widget_driver import Widget, find_widgets

SOUND = """
<main class="jp-RenderedHTMLCommon"><div class="course-widget" data-widget="bars" data-frame="0" data-kernel-frame="0">
  <label for="n">bars</label>
  <input id="n" type="range" min="1" max="9" value="5" data-lm-suppress-shortcuts="true">
  <label for="s">norm</label>
  <select id="s" data-lm-suppress-shortcuts="true"><option>layer</option><option>group</option></select>
  <span id="only-group" hidden><label for="g">groups</label>
  <input id="g" type="range" min="1" max="4" value="2" data-lm-suppress-shortcuts="true"></span>
  <label><input id="c" type="checkbox" data-lm-suppress-shortcuts="true"> shade</label>
  <label for="w">words</label><input id="w" type="search" data-lm-suppress-shortcuts="true">
  <button id="b" data-lm-suppress-shortcuts="true">reset</button>
  <svg id="canvas" role="application" aria-label="picture" tabindex="0" width="100" height="40"
    data-lm-suppress-shortcuts="true"></svg>
  <p id="picture"></p>
</div></main>
<script>
const root = document.querySelector('.course-widget');
const byId = id => document.getElementById(id);
let picked = 3;
function draw() {
  byId('only-group').hidden = byId('s').value !== 'group';
  byId('picture').textContent = picked + '|'.repeat(byId('n').value)
    + byId('s').value + byId('g').value + byId('w').value + byId('c').checked;
  root.dataset.frame = Number(root.dataset.frame) + 1;
  setTimeout(() => { root.dataset.kernelFrame = Number(root.dataset.kernelFrame) + 1; }, 50);
}
for (const control of ['n', 's', 'g', 'w', 'c']) byId(control).addEventListener('input', () => draw());
byId('canvas').addEventListener('keydown', event => { if (event.key === 'ArrowLeft') { picked += 1; draw(); } });
byId('canvas').addEventListener('pointermove', event => { if (event.buttons) { picked = event.offsetX; draw(); } });
byId('b').addEventListener('click', () => { byId('n').value = 5; draw(); });
draw();
</script>
"""

ALL, ALL_BUT_SHADE, ALL_BUT_WORDS = "['n', 's', 'g', 'w', 'c']", "['n', 's', 'g', 'w']", "['n', 's', 'g', 'c']"
KEYS = ' data-lm-suppress-shortcuts="true"'
FAULTS = {
    "a control that draws nothing": (ALL, ALL_BUT_SHADE, "«shade» was moved (key Space) and no new picture"),
    "a search that finds nothing": (ALL, ALL_BUT_WORDS, "«words» was moved (rms typed) and no new picture"),
    "a frame counted, not drawn": (
        "+ byId('c').checked",
        "",
        "«shade» was moved by keyboard and by mouse, and nothing looks",
    ),
    "keys that JupyterLab takes": (f'value="5"{KEYS}', 'value="5"', "«bars» lacks data-lm-suppress"),
    "a control without a label": ('<label for="n">bars</label>', "", "a range has no label"),
    "a slider that springs back": (
        "draw() {",
        "draw() { byId('n').value = 5;",
        "«bars» was moved (key ArrowRight) and kept",
    ),
    "a control that never shows": ("!== 'group'", "!== 'none'", "range «groups» was hidden or disabled in every"),
    "a picture deaf to keys": ("'ArrowLeft'", "'Home'", "«picture» was moved (arrow keys) and no new picture"),
    "a picture deaf to the mouse": ("'pointermove'", "'wheel'", "«picture» was moved (drags across it) and no new"),
}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def widget_on(page: Page, html: str) -> Widget:
    page.set_content(html)
    (widget,) = find_widgets(page)
    return widget


def test_a_sound_widget_has_no_problem_and_every_control_is_moved(page: Page) -> None:
    widget = widget_on(page, SOUND)
    assert list(widget.exercise_everything()) == []
    assert serious_findings(page) == []


@pytest.mark.parametrize(("sound", "faulty", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_a_widget_is_found(page: Page, sound: str, faulty: str, said: str) -> None:
    assert sound in SOUND
    problems = list(widget_on(page, SOUND.replace(sound, faulty)).exercise_everything())
    assert [problem for problem in problems if said in problem], problems


def test_latency_is_measured_from_the_key_to_the_counters_that_the_widget_has(page: Page) -> None:
    latency = measure_latency(widget_on(page, SOUND), presses=10)
    assert len(latency.browser_ms) == len(latency.kernel_ms) == 10
    assert all(
        0 < browser_ms <= kernel_ms and kernel_ms >= 50  # the answer is made to wait that long
        for browser_ms, kernel_ms in zip(latency.browser_ms, latency.kernel_ms, strict=True)
    )


def test_a_slow_redraw_is_measured_as_slow(page: Page) -> None:
    slow = widget_on(page, SOUND.replace("() => draw()", "() => setTimeout(draw, 120)"))
    assert min(measure_latency(slow, presses=5).browser_ms) >= 120


def test_a_kernel_that_is_never_asked_is_not_waited_for(page: Page) -> None:
    alone = widget_on(page, SOUND.replace("root.dataset.kernelFrame = Number", "root.dataset.other = Number"))
    assert measure_latency(alone, presses=3).kernel_ms == []


def test_a_percentile_is_a_time_that_was_nearly_reached() -> None:
    times_ms = [float(i) for i in range(101)]
    assert Latency.percentile(times_ms, 95) == pytest.approx(95)
    assert str(Latency(times_ms, [])).startswith("drawn by the browser: p50 50 ms, p95 95 ms over 101 presses")


@pytest.mark.parametrize(
    ("html", "rule"),
    [
        ('<div class="course-widget"><input type="range"></div>', "label"),
        ('<div class="jp-RenderedHTMLCommon"><img src="data:,"></div>', "image-alt"),
        ('<div class="jp-RenderedHTMLCommon"><p style="color:#aaa;background:#fff">pale</p></div>', "color-contrast"),
    ],
)
def test_what_shuts_somebody_out_is_found_in_our_elements_only(page: Page, html: str, rule: str) -> None:
    page.set_content(f"<main>{html}</main>")
    assert [finding.split(" ")[0] for finding in serious_findings(page)] == [rule]
    page.set_content(f"<main>{html.replace('class=', 'data-class=')}</main>")
    assert serious_findings(page) == []
