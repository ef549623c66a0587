"""What all widgets share: moves are answered, and numbers read the same on both sides."""

import json
import re

import pytest
from widget_states import MAKERS

from course_utils import widgets
from course_utils.table import format_number


def test_a_move_in_the_browser_is_answered_once_for_the_newest_state_and_with_its_number(
    monkeypatch,
):
    asked = []
    widget = widgets.rope_scaling()
    answer = type(widget).answer_to_state
    monkeypatch.setattr(
        type(widget), "answer_to_state", lambda self: asked.append(self.state) or answer(self)
    )
    moved = {**widget.state, "config": "{}"}
    widget.set_state({"state": moved, "request": 7})  # as the browser's message does
    assert asked == [moved]
    assert widget.answer["request"] == 7
    # a question is answered even if nothing has changed
    widget.set_state({"state": moved, "request": 8})
    assert widget.answer["request"] == 8
    widget.state = {**moved, "config": "no"}  # and so is a state set by a cell
    assert "not JSON" in widget.answer["problem"]


def test_a_number_reads_the_same_in_the_browser_and_in_python(in_browser):
    values = [0.0, 0.0012, -0.51, 3.14159, 999.4, 999.7, 1234.6, -19_947.3, 99_999.0]
    written = in_browser("rope_clocks", "module.formatNumber", [[value] for value in values])
    assert [text.replace("−", "-") for text in written] == [
        format_number(value) for value in values
    ]
    assert written[-4:] == ["1,000", "1,235", "−19,947", "99,999"]


@pytest.mark.parametrize("name", MAKERS)
def test_choices_keep_their_order_when_a_saved_notebook_has_sorted_the_keys(name):
    widget = MAKERS[name]()
    saved = json.loads(json.dumps(widget.data, sort_keys=True))
    for choices, values in widget.data.items():
        if isinstance(values, dict) and choices not in ("first", "order"):
            assert saved["order"][choices] == list(values)
    # and the browser goes by it: no list of choices is read off the keys
    assert not re.search(r"Object\.(keys|entries)\(data\b", widget._esm)
