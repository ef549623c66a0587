"""The widget of chapter 13: each pair's wavelength against the window, method by method; the kernel computes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module
from course_utils.widgets.scaling_examples import EXAMPLES
from course_utils.widgets.scaling_figure import (
    KINDS,
    METHODS,
    STOPS,
    ScalingFigure,
    ScalingState,
    rope_scaling_figure,
    summary_of,
)

__all__ = ["rope_scaling"]


def rope_scaling(
    methods: Sequence[str] = ("linear", "ntk", "yarn"), *, config: str | Mapping[str, Any] = "", **others: Any
) -> CourseWidget:
    """Return the wavelengths of every pair under the chosen methods, ready to display.

    Args:
        methods: which to compare: keys of ``METHODS``.
        config: the text of a ``config.json``, or its contents.
        others: the other fields of ``ScalingState``: ``factor``, ``base``, ``new_base``, ``window``, ``length``,
            ``head_dim``, ``share``.

    Raises:
        ValueError: a value that no control can produce.
    """
    text = config if isinstance(config, str) else json.dumps(config)
    return _RopeScaling(ScalingState(methods, config=text, **others))


class _RopeScaling(AnsweringWidget):
    _esm = browser_module("rope_scaling")

    def __init__(self, state: ScalingState) -> None:
        data = {"methods": METHODS, "kinds": KINDS, "stops": STOPS, "examples": EXAMPLES}
        super().__init__({**vars(state), "methods": list(state.methods)}, data)

    def answer_to_state(self) -> dict[str, Any]:
        return asdict(self._figure())

    def _figure(self) -> ScalingFigure:
        return rope_scaling_figure(ScalingState(**self.state))

    def picture(self) -> tuple[Figure, str]:
        from course_utils import plots

        data = self._figure()
        told = "; ".join(f"{method.label}: {summary_of(method)}" for method in data.methods)
        problem = f" {data.problem}" if data.problem else ""
        return plots.rope_scaling(data), (
            f"Wavelengths of {len(data.trained)} rotary pairs trained on {data.window:,} positions, stretched for "
            f"{data.length:,}. {told}.{problem}"
        )
