"""What the course's widgets share: modules sent as text, a state, and a picture for places without a kernel."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.figure import Figure

from course_utils.plots import image_html, style

__all__ = ["AnsweringWidget", "CourseWidget", "browser_module"]

_SOURCES = Path(__file__).parent / "js"
_SHARED = ("controls", "canvas", "mount")


@cache
def browser_module(*parts: str) -> str:
    """Return one JavaScript module: what all widgets share, then ``parts``, the last of which has the exports.

    The browser gets one text without imports, so nothing is built and nothing is fetched. The palette is written in
    front of it, so that pictures drawn there and here have the same colours.
    """
    names = ("palette", "paper", "ink", "muted", "rule")
    colours = {name: getattr(style, name.upper()) for name in names}
    files = [(_SOURCES / f"{part}.js").read_text(encoding="utf-8") for part in (*_SHARED, *parts)]
    return "\n".join([f"const STYLE = {json.dumps(colours)};", *files])


class CourseWidget(anywidget.AnyWidget):
    """A picture drawn in the browser from ``state``, with a static picture of it where no kernel runs.

    Subclasses set ``_esm`` and say what their state looks like without a browser.
    """

    _css = (_SOURCES / "widget.css").read_text(encoding="utf-8")

    state = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)  # what the browser needs besides the state; never changes

    def static_figure(self) -> Figure:
        """Return the picture of the present state."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the present state in words: what stands for the widget where pictures are not seen."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        words = self.describe()
        caption = "<figcaption>Run this notebook to use the widget; this is its first state.</figcaption>"
        data["text/plain"] = words
        data["text/html"] = f'<figure style="margin:0">{image_html(self.static_figure(), words)}{caption}</figure>'
        return data, metadata


class AnsweringWidget(CourseWidget):
    """A picture for which the browser asks the kernel: each question is a state, with a number to tell a late answer.

    Subclasses say what the answer to the present state is.
    """

    request = traitlets.Int(0).tag(sync=True)  # the browser counts its questions
    answer = traitlets.Dict().tag(sync=True)  # what ``answer_to_state`` returns, and the ``request`` that it answers
    _answered: Any = None

    def answer_to_state(self) -> dict[str, Any]:
        """Return what the browser asks for, as JSON."""
        raise NotImplementedError

    @traitlets.observe("state", "request")
    def _reply(self, _: Any) -> None:
        if self._answered == (self.request, self.state):  # one message changes both, and each of them calls here
            return
        self._answered = self.request, self.state
        self.answer = {**self.answer_to_state(), "request": self.request}
