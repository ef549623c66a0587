"""The axis explorer of chapter 01: which elements of a tensor share a mean, for five norms in two layouts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from matplotlib.figure import Figure

from course_utils.book.tables import format_number
from course_utils.widgets.axes import (
    DEFAULT_SIZES,
    LAYOUTS,
    NORMS,
    RULES,
    SIZE_LIMITS,
    AxisState,
    Sharing,
    require_by_axis,
    sharing,
)
from course_utils.widgets.axes_check import Answer, check_against_builtin
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module

__all__ = ["FigureData", "axis_explorer", "axis_explorer_figure"]


@dataclass(frozen=True)
class FigureData:
    """Everything that the picture of a state shows.

    Args:
        state: what the learner has chosen.
        sharing: which elements share a statistic; ``None`` where the setting is impossible.
        facts: label and text of the lines under the picture.
        answer: what PyTorch says.
    """

    state: AxisState
    sharing: Sharing | None
    facts: tuple[tuple[str, str], ...]
    answer: Answer


def axis_explorer_figure(state: AxisState) -> FigureData:
    """Return what the axis explorer shows for ``state``; never raises for a state that the controls can produce."""
    try:
        shared = sharing(state)
    except ValueError:  # groups that do not divide the channels: PyTorch's own words are in the answer
        shared = None
    return FigureData(state, shared, _facts(state, shared), check_against_builtin(state))


def axis_explorer(
    norm: str = "batch",
    layout: str = "B,C,H,W",
    sizes: Mapping[str, int] | None = None,
    groups: int = 2,
    picked: Mapping[str, int] | None = None,
) -> CourseWidget:
    """Return the axis explorer, ready to display.

    Args:
        norm: ``"batch"``, ``"layer"``, ``"instance"``, ``"group"`` or ``"rms"``.
        layout: ``"B,C,H,W"`` or ``"B,T,C"``.
        sizes: size by axis letter; those not named keep their default.
        groups: number of channel groups of group norm.
        picked: index of the picked element by axis letter; 0 where not named.

    Raises:
        ValueError: a value that no control can produce.
    """
    chosen = _completed("sizes", sizes, DEFAULT_SIZES)
    index = _completed("picked", picked, dict.fromkeys(DEFAULT_SIZES, 0))
    return _AxisExplorer(AxisState(norm, layout, chosen, groups, index))


class _AxisExplorer(AnsweringWidget):
    _esm = browser_module("axis_rule", "axis_explorer")

    def __init__(self, state: AxisState) -> None:
        data = {"rules": RULES, "norms": NORMS, "layouts": LAYOUTS, "limits": SIZE_LIMITS}
        super().__init__(state, data)

    def answer_to_state(self) -> dict[str, Any]:
        answer = check_against_builtin(self.chosen())
        errors = ", ".join(f"{dtype} {format_number(error)}" for dtype, error in answer.errors)
        shown = f"largest difference: {errors}" if errors else ""
        return {**asdict(answer), "errors": shown}

    def _figure_data(self) -> FigureData:
        return axis_explorer_figure(self.chosen())

    def static_figure(self) -> Figure:
        from course_utils import plots

        return plots.axis_explorer(self._figure_data())

    def describe(self) -> str:
        data = self._figure_data()
        facts = dict(data.facts)
        state = data.state
        worst = max((error for _, error in data.answer.errors), default=0.0)
        verdict = data.answer.problem or f"{'agrees' if worst < 1e-4 else 'disagrees'} with the rule"
        return (
            f"Axis explorer: {NORMS[state.norm]} of x ({', '.join(state.axes)}) = {facts['x']}. "
            f"Statistics: {facts['statistics']}. {facts['in PyTorch']}: {verdict}."
        )


def _completed(name: str, given: Mapping[str, int] | None, defaults: Mapping[str, int]) -> dict[str, int]:
    """The default of every axis, but what was given where something was."""
    if given is None:
        return dict(defaults)
    require_by_axis(name, given)
    return {**defaults, **given}


def _facts(state: AxisState, shared: Sharing | None) -> tuple[tuple[str, str], ...]:
    """Return the lines under the picture; the browser's ``facts`` gives the same text."""
    rule, sizes = state.rule, {**state.sizes, "G": state.groups}
    count, statistic = "impossible: the groups do not divide the channels", "–"
    if shared is not None:
        count = f"{shared.count}, each over {shared.members} {'element' if shared.members == 1 else 'elements'}"
        statistic = _tuple(shared.statistic_shape) + (_seen_as(state) if "g" in rule["along"] else "")
    centred = state.norm != "rms"
    buffers = "none"
    if rule["buffers"] is not None:
        shape = _shape_text(rule["buffers"], sizes)
        buffers = f"running_mean {shape}, running_var {shape}"
    return (
        ("x", f"{_tuple(state.shape)}, {prod(state.shape)} elements"),
        ("statistics", count),
        ("mean", statistic if centred else "none: RMS norm does not centre"),
        ("variance" if centred else "mean square", statistic),
        ("weight", _shape_text(rule["weight"], sizes)),
        ("bias", _shape_text(rule["bias"], sizes)),
        ("running buffers", buffers),
        ("in PyTorch", rule["line"].format(**sizes)),
        ("note", rule["note"]),
    )


def _tuple(shape: Sequence[int]) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def _shape_text(letters: str | None, sizes: Mapping[str, int]) -> str:
    return "none" if letters is None else _tuple([sizes[letter] for letter in letters.split()])


def _seen_as(state: AxisState) -> str:
    parts = [
        part
        for axis, size in zip(state.axes, state.shape, strict=True)
        for part in ((state.groups, size // state.groups) if axis == "C" else (size,))
    ]
    return f", x seen as {_tuple(parts)}"
