"""Every widget over all that its controls can produce: a picture and words for each state, and what travels is JSON."""

import json

import pytest
from widget_states import MAKERS, random_states

STATES = 500


@pytest.mark.soak(f"{STATES:,} states")
@pytest.mark.parametrize("widget", MAKERS)
def test_every_state_has_a_picture_and_words(widget: str) -> None:
    shown = MAKERS[widget]()
    for state in random_states(widget, STATES, seed=2026):
        shown.state = json.loads(json.dumps(state, allow_nan=False))  # as a message from the browser brings it
        figure, words = shown.picture()
        figure.canvas.draw()
        assert "disagrees" not in words
        json.dumps(getattr(shown, "answer", {}), allow_nan=False)
