"""What the course's widgets share: modules sent as text, a state, and a picture for places without a kernel."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.figure import Figure

from course_utils.plots import image_html, style

__all__ = ["AnsweringWidget", "CourseWidget", "StatefulWidget", "as_json", "browser_module"]

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


def as_json(state: Any) -> dict[str, Any]:
    """Return the fields of ``state``, a dataclass, as they travel to the browser and back: as objects and lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value

    return {field.name: plain(getattr(state, field.name)) for field in fields(state)}


class StatefulWidget(anywidget.AnyWidget):
    """What the browser draws from a ``state``, and refuses to draw from one that no control can produce.

    Subclasses set ``_esm``.

    Args:
        state: the first state, a dataclass whose constructor refuses such values; its fields are the keys of the trait.
        data: what the browser needs besides the state.
    """

    _css = (_SOURCES / "widget.css").read_text(encoding="utf-8")

    state = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)  # never changes

    def __init__(self, state: Any, data: Mapping[str, Any]) -> None:
        self._state_type = type(state)
        super().__init__(state=as_json(state), data=data)

    def chosen(self) -> Any:
        """Return the present state as the dataclass that it is."""
        return self._state_type(**self.state)

    @traitlets.validate("state")
    def _validate_state(self, proposal: Any) -> dict[str, Any]:
        return as_json(self._state_type(**proposal["value"]))


class CourseWidget(StatefulWidget):
    """A picture drawn in the browser, with a static picture of its state where no kernel runs.

    Subclasses also say what their state looks like without a browser.
    """

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
