"""What the course's widgets share: modules sent as text, a state, and a picture for places without
a kernel."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.figure import Figure

from course_utils.plots import image_html, style

__all__ = ["AnsweringWidget", "CourseWidget", "StatefulWidget", "browser_module", "one_of"]

_SOURCES = Path(__file__).parent / "js"
_SHARED = ("controls", "canvas", "mount")


@cache
def browser_module(*parts: str | Path) -> str:
    """Return one JavaScript module: what all widgets share, then ``parts``, the last of which has
    the exports.

    A part is the name of a file in ``js/``, or the path of a chapter's own.

    The browser gets one text without imports, so nothing is built and nothing is fetched. The
    palette is written in front of it, so that pictures drawn there and here have the same colours.
    """
    names = ("palette", "paper", "ink", "muted", "rule")
    colours = {name: getattr(style, name.upper()) for name in names}
    paths = [
        part if isinstance(part, Path) else _SOURCES / f"{part}.js" for part in (*_SHARED, *parts)
    ]
    files = [path.read_text(encoding="utf-8") for path in paths]
    return "\n".join([f"const STYLE = {json.dumps(colours)};", *files])


def one_of(choices: Mapping[str, Iterable[Any]], **given: Any) -> dict[str, Any]:
    """Return ``given`` as a state; what ``choices`` names must be one of the stops of its slider or
    list.

    Raises:
        ValueError: it is not; the message names it.
    """
    for name, values in choices.items():
        if name in given and given[name] not in list(values):
            raise ValueError(
                f"{name} must be one of {', '.join(map(str, values))}: got {given[name]!r}"
            )
    return given


class StatefulWidget(anywidget.AnyWidget):
    """What the browser draws from a ``state``, which its controls change; subclasses set ``_esm``.

    Args:
        state: the first state, JSON, which a button brings back.
        data: what the browser needs besides the state, JSON.
    """

    _css = (_SOURCES / "widget.css").read_text(encoding="utf-8")

    state = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)  # never changes

    def __init__(self, state: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        # a saved notebook sorts the keys of its JSON: the order of choices is sent beside them
        order = {name: list(choices) for name, choices in data.items() if isinstance(choices, dict)}
        super().__init__(state=state, data={**data, "first": dict(state), "order": order})

    def without_kernel(self) -> dict[str, Any]:
        """Return what a page without a kernel needs besides ``data``, JSON: answers that were
        computed before."""
        return {}


class CourseWidget(StatefulWidget):
    """A picture drawn in the browser, with a static picture of its state where no kernel runs."""

    def picture(self) -> tuple[Figure, str]:
        """Return the present state without a browser: as a figure, and in words for those who
        cannot see it."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        figure, words = self.picture()
        caption = (
            "<figcaption>Run this notebook to use the widget; this is its first state.</figcaption>"
        )
        data["text/plain"] = words
        data["text/html"] = (
            f'<figure style="margin:0">{image_html(figure, words)}{caption}</figure>'
        )
        return data, metadata


class AnsweringWidget(CourseWidget):
    """A picture for which the browser asks the kernel: each question is a state, with a number to
    tell a late answer.

    Subclasses say what the answer to the present state is.
    """

    request = traitlets.Int(0).tag(sync=True)  # the browser counts its questions
    # what ``answer_to_state`` returns, and the ``request`` that it answers
    answer = traitlets.Dict().tag(sync=True)
    _answered: Any = None

    def answer_to_state(self) -> dict[str, Any]:
        """Return what the browser asks for, as JSON."""
        raise NotImplementedError

    @traitlets.observe("state", "request")
    def _reply(self, _: Any) -> None:
        if self._answered == (
            self.request,
            self.state,
        ):  # one message changes both, and each of them calls here
            return
        self._answered = self.request, self.state
        self.answer = {**self.answer_to_state(), "request": self.request}
