"""Every widget of the course: picture and words without a kernel, nothing fetched, arguments that
controls reach."""

import inspect
import json
import re

import pytest
from clipping import assert_nothing_is_clipped
from widget_states import MAKERS, random_states

from chapters.c20_on_trial.widgets import ledger_table


@pytest.mark.parametrize("name", ["axis_explorer", "least_time", "rope_scaling"])
def test_a_widget_brings_its_picture_and_its_words_for_places_without_a_kernel(name):
    data, _ = MAKERS[name]()._repr_mimebundle_()
    assert list(data) == ["text/plain", "application/vnd.jupyter.widget-view+json", "text/html"]
    assert re.search(r'<img alt="[^"]{40,}" .*src="data:image/png;base64,', data["text/html"])


@pytest.mark.parametrize("name", MAKERS)
def test_every_state_has_a_picture_and_words_of_its_own(name):
    shown = MAKERS[name]()
    words = []
    for state in random_states(name, 2, seed=3):
        # as a message from the browser brings it
        shown.state = json.loads(json.dumps(state, allow_nan=False))
        figure, text = shown.picture()
        assert_nothing_is_clipped(figure)
        assert len(text) >= 40
        words.append(text)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("maker", [*MAKERS.values(), ledger_table], ids=[*MAKERS, "ledger_table"])
def test_the_browsers_module_fetches_nothing(maker):
    module = maker()._esm
    assert not re.search(r"https?://|\bimport\b|\bfetch\(|XMLHttpRequest|<script", module)
    assert module.count("export default") == 1


@pytest.mark.parametrize("name", MAKERS)
def test_an_argument_that_no_control_reaches_is_refused_by_name(name):
    for argument in inspect.signature(MAKERS[name]).parameters.keys() - {"config", "models"}:
        impossible = ("nothing",) if argument in ("controls", "methods") else -7
        with pytest.raises(ValueError, match=f"{argument} must be (one of|among) "):
            MAKERS[name](**{argument: impossible})
