"""The course's widgets as a hand moves them, by keyboard and by mouse.

A widget's root is ``<div class="course-widget" data-widget="axis_explorer">``. Its ``data-frame``
counts the pictures drawn after a change of state. Its controls are native.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from playwright.sync_api import TimeoutError

__all__ = ["Control", "Widget", "find_widgets", "tall_page"]

# native controls, and a picture that can be focused: one in which something is picked by arrow keys
# and by clicks
_CONTROLS = "input[type=range], input[type=checkbox], input[type=search], select, canvas[tabindex]"
_DRAG_MOVES = 15
_BESIDE_PX, _MOST_PX = 880, 545  # from this width on controls stand beside the picture
_WORD = "rms"  # what is typed into a search field

_DESCRIBE = """
(root, selector) => [...root.querySelectorAll(selector)].map((control, index) => ({
  index,
  kind: control.tagName === 'INPUT' ? control.type
    : control.tagName === 'SELECT' ? 'select' : 'picture',
  label: (control.getAttribute('aria-label') || control.labels?.[0]?.textContent
    || control.textContent || '')
    .replace(/\\s+/g, ' ').trim(),
  usable: !control.disabled && control.checkVisibility({visibilityProperty: true}) &&
    !(control.type === 'range' && Number(control.min) >= Number(control.max)),
}))
"""


@dataclass(frozen=True)
class Control:
    """One native control of a widget: its kind ("range", "search", …), its label, whether it can be
    moved now."""

    index: int
    kind: str
    label: str
    usable: bool


class Widget:
    """One widget on the page."""

    def __init__(self, page, root):
        self.page = page
        self.root = root
        self.name = root.get_attribute("data-widget") or "unnamed"

    def controls(self):
        """Return the controls in the order of the page, hidden ones too."""
        described = self.root.evaluate(f"(root) => ({_DESCRIBE})(root, {_CONTROLS!r})")
        return [Control(**control) for control in described]

    def frame(self):
        """Return how many pictures the widget has drawn."""
        return int(self.root.get_attribute("data-frame") or -1)

    def exercise_everything(self):
        """Move every control by keyboard and by mouse; yield what went wrong.

        Controls that show only in some settings are moved in the first setting that shows them.
        """
        box = self.root.bounding_box()
        if box["width"] >= _BESIDE_PX and box["height"] > _MOST_PX:
            yield f"it is {box['height']:.0f} px high beside its controls; {_MOST_PX} fit a screen"
        with tall_page(self.page):
            yield from self._exercise_in_every_setting()

    def _exercise_in_every_setting(self):
        moved: set[tuple[str, str]] = set()
        yield from self._exercise_usable(moved)
        for select in [control for control in self.controls() if control.kind == "select"]:
            for value in self._options(select):
                if (
                    self.element(select).is_visible()
                    and self.element(select).input_value() != value
                ):
                    choose = partial(self._choose, select, value)
                    yield from self._expect_redraw(select, set(), f"{value!r} chosen", choose)
                    yield from self._exercise_usable(moved)
        for box in [
            control for control in self.controls() if control.kind == "checkbox" and control.usable
        ]:
            self.element(box).check()
            yield from self._exercise_usable(moved)
        for control in self.controls():
            if (control.kind, control.label) not in moved:
                yield (
                    f"{self.name}: {control.kind} «{control.label}» was hidden or disabled in "
                    "every setting"
                )

    def element(self, control):
        """Return where a control is on the page."""
        return self.root.locator(_CONTROLS).nth(control.index)

    def _exercise_usable(self, moved):
        """Move what can be moved now and was not before.

        Pictures and choices come first: sliders at an end may leave a single element, or nothing to
        choose about.
        """
        order = ["picture", "search", "select", "range", "checkbox"]
        while todo := [c for c in self.controls() if c.usable and (c.kind, c.label) not in moved]:
            control = min(todo, key=lambda c: order.index(c.kind))
            moved.add((control.kind, control.label))
            if not control.label:
                yield f"{self.name}: a {control.kind} has no label"
            if self.element(control).get_attribute("data-lm-suppress-shortcuts") != "true":
                yield (
                    f"{self.name}: «{control.label}» lacks data-lm-suppress-shortcuts: "
                    "JupyterLab would take its keys"
                )
            looks = {self._look()}
            yield from self._by_keyboard(control, looks)
            yield from self._by_mouse(control, looks)
            if len(looks) == 1:
                yield (
                    f"{self.name}: «{control.label}» was moved by keyboard and by mouse, and "
                    "nothing looks different"
                )

    def _by_keyboard(self, control, looks):
        element = self.element(control)
        if control.kind == "range":
            for press in range(2):  # to and fro
                key = arrow_key(element, press)
                yield from self._expect_redraw(
                    control, looks, f"key {key}", lambda k=key: element.press(k)
                )
        elif control.kind == "select":
            key = (
                "ArrowUp"
                if element.evaluate("s => s.selectedIndex === s.options.length - 1")
                else "ArrowDown"
            )
            yield from self._expect_redraw(control, looks, f"key {key}", lambda: element.press(key))
        elif control.kind == "picture":
            presses = [
                lambda key=key: element.press(f"Arrow{key}")
                for key in ("Right", "Left", "Down", "Up")
            ]
            yield from self._expect_redraw(
                control, looks, "arrow keys", lambda: self._until_redrawn(presses)
            )
        elif control.kind == "search":
            typed = f"{_WORD} typed"
            yield from self._expect_redraw(
                control, looks, typed, lambda: element.press_sequentially(_WORD, delay=50)
            )
        else:
            yield from self._expect_redraw(
                control, looks, "key Space", lambda: element.press("Space")
            )

    def _by_mouse(self, control, looks):
        element = self.element(control)
        if control.kind == "range":
            how = f"a drag of {_DRAG_MOVES} moves"
            yield from self._expect_redraw(control, looks, how, lambda: self._drag_slider(element))
        elif (
            control.kind == "select"
        ):  # its list opens outside the page: choose as a click in it would
            values = self._options(control)
            other = values[0] if element.input_value() != values[0] else values[-1]
            yield from self._expect_redraw(
                control, looks, f"{other!r} chosen", lambda: self._choose(control, other)
            )
        elif control.kind == "picture":
            drags = [lambda y=y: self._drag_across(element, y) for y in (0.5, 0.25, 0.75, 0.15)]
            yield from self._expect_redraw(
                control, looks, "drags across it", lambda: self._until_redrawn(drags)
            )
        elif (
            control.kind == "search"
        ):  # its cross is drawn by the browser, and cannot be asked where it is
            yield from self._expect_redraw(control, looks, "cleared", element.clear)
        else:
            yield from self._expect_redraw(control, looks, "a click", element.click)

    def _expect_redraw(self, control, looks, how, move):
        """Move, report when no new picture is drawn or the control springs back, and add what it
        looks like then.

        Two looks that differ prove that it follows: a third is not taken, since it would cost more
        than the move.
        """
        element = self.element(control)
        frame, value = self.frame(), _value(element)
        move()
        moved = f"{self.name}: «{control.label}» was moved ({how})"
        if not self._is_redrawn(frame, within_ms=2000):
            yield f"{moved} and no new picture was drawn within 2 s"
        elif control.kind != "picture" and _value(element) == value:
            yield f"{moved} and kept its value"
        if len(looks) < 2:
            looks.add(self._look())
        else:
            self._let_go()

    def _is_redrawn(self, frame, within_ms):
        script = "([root, frame]) => Number(root.dataset.frame) !== frame"
        try:
            self.page.wait_for_function(
                script, arg=[self.root.element_handle(), frame], timeout=within_ms
            )
        except TimeoutError:
            return False
        return True

    def _until_redrawn(self, moves):
        """Try moves in turn until one changes the picture: at an end, or beside what can be picked,
        some do not."""
        frame = self.frame()
        for move in moves:
            move()
            if self._is_redrawn(frame, within_ms=300):
                return

    def _let_go(self):
        """Leave the control, and let two frames pass: what is drawn late must not count for the
        next move."""
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(f"() => {{ document.activeElement?.blur(); return {frames}; }}")

    def _look(self):
        """Return a picture of the widget without its controls, which show every move themselves."""
        self._let_go()
        own_look = self.root.locator("input, select, output")
        return self.root.screenshot(mask=[own_look], animations="disabled")

    def _drag_slider(self, slider):
        """Drag a slider's handle to its farther end."""
        value, low, high = slider.evaluate("s => [Number(s.value), Number(s.min), Number(s.max)]")
        handle = 8  # half as wide, in pixels
        self._drag(
            slider,
            (value - low) / (high - low),
            0.0 if value > (low + high) / 2 else 1.0,
            0.5,
            handle,
        )

    def _drag_across(self, picture, y):
        """Drag from left to right at the relative height ``y``."""
        self._drag(picture, 0.05, 0.95, y)

    def _drag(self, element, start, end, y, margin=0):
        """Press the mouse at ``start``, go to ``end`` (both relative) in moves of sixteen
        milliseconds."""
        element.scroll_into_view_if_needed()
        box = element.bounding_box()
        assert box is not None
        for move in range(_DRAG_MOVES + 1):
            x = margin + (box["width"] - 2 * margin) * (start + (end - start) * move / _DRAG_MOVES)
            self.page.mouse.move(box["x"] + x, box["y"] + y * box["height"])
            if move == 0:
                self.page.mouse.down()
            self.page.wait_for_timeout(16)
        self.page.mouse.up()

    def _options(self, select):
        return self.element(select).evaluate(
            "s => [...s.options].filter(o => !o.disabled).map(o => o.value)"
        )

    def _choose(self, select, value):
        self.element(select).select_option(value)


def arrow_key(slider, press):
    """Return the key that moves a slider at the ``press``-th time: to and fro, and never against
    its end."""
    value, low, high = slider.evaluate("s => [Number(s.value), Number(s.min), Number(s.max)]")
    if value >= high:
        return "ArrowLeft"
    return "ArrowRight" if value <= low or press % 2 == 0 else "ArrowLeft"


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


def _value(element):
    return element.evaluate(
        "control => control.type === 'checkbox' ? control.checked : control.value"
    )


def find_widgets(page):
    """Return the course's widgets on the page, from top to bottom."""
    roots = page.locator(".course-widget")
    return [Widget(page, roots.nth(index)) for index in range(roots.count())]
