"""The course's widgets as a hand moves them.

A widget's root is ``<div class="course-widget" data-widget="axis_explorer">``. Its ``data-frame``
counts the pictures drawn after a change of state. Its controls are native.
"""

from contextlib import contextmanager

__all__ = [
    "controls_that_do_nothing",
    "name_of",
    "problems_of",
    "sliders_too_fine",
    "tall_page",
    "widgets_on",
]

_CONTROLS = "input[type=range], input[type=checkbox], input[type=text], select, canvas[tabindex]"
# a slider with less than 4 px a stop, its thumb left out, and no field for the number beside it
_TOO_FINE = """(root) => [...root.querySelectorAll("input[type=range]")].flatMap((slider) => {
    const row = slider.closest("[data-control]");
    const px = (slider.clientWidth - 16) / (slider.max - slider.min);
    const isFine = !slider.checkVisibility() || px >= 4 || row.querySelector("[type=number]");
    return isFine ? [] : [`${row.dataset.control} has ${px.toFixed(1)} px a stop`];
})"""
_BESIDE_PX, _MOST_PX = 880, 545  # from this width on controls stand beside the picture


def widgets_on(page):
    """Return the roots of the course's widgets on the page, from top to bottom."""
    return page.locator(".course-widget").all()


def name_of(widget):
    return widget.get_attribute("data-widget") or "unnamed"


def problems_of(widget):
    """Move every control of a widget in JupyterLab, in every setting that its choices bring; yield
    what is wrong."""
    name, box = name_of(widget), widget.bounding_box()
    if box["width"] >= _BESIDE_PX and box["height"] > _MOST_PX:
        yield f"{name} is {box['height']:.0f} px high beside its controls; {_MOST_PX} fit a screen"
    yield from (f"{name}: {slider}" for slider in sliders_too_fine(widget))
    for control in widget.locator(_CONTROLS).all():
        if control.get_attribute("data-lm-suppress-shortcuts") != "true":
            label = control.get_attribute("aria-label")
            yield f"{name}: JupyterLab would take the keys of {label}"
    yield from (f"{name}: {control}" for control in controls_that_do_nothing(widget))
    for choice in widget.locator("select").all():
        for value in choice.locator("option").evaluate_all("all => all.map((one) => one.value)"):
            if choice.is_visible() and choice.is_enabled():
                choice.select_option(value)
                for control in controls_that_do_nothing(widget):
                    yield f"{name}, at {value!r}: {control}"


def sliders_too_fine(widget):
    """Return the sliders that are seen and whose stops a hand cannot reach, one line each."""
    return widget.evaluate(_TOO_FINE)


def controls_that_do_nothing(widget):
    """Move each control that is enabled, by keyboard or tap, and return the names of those that
    changed nothing."""
    dumb = []
    widget.scroll_into_view_if_needed()
    for row in widget.locator("[data-control]").all():
        entry = row.locator("input, select, textarea").first
        if not row.is_visible() or entry.is_disabled():
            continue
        if not entry.is_visible():  # its control is folded
            row.locator("details").evaluate("fold => { fold.open = true; }")
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


@contextmanager
def tall_page(page, height=2400):
    """Make the page high enough for the tallest widget: what is scrolled away is missing in a
    picture of it."""
    before = page.viewport_size
    page.set_viewport_size({"width": before["width"] if before else 1280, "height": height})
    try:
        yield
    finally:
        if before:
            page.set_viewport_size(before)
