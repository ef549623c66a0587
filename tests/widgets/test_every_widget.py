"""Every widget of the course: picture and words without a kernel, nothing fetched, arguments that
controls reach."""

import json
import re

import pytest
from clipping import assert_nothing_is_clipped
from widget_states import MAKERS, random_states

from chapters.c20_on_trial.widgets import ledger_table


@pytest.mark.parametrize("name", MAKERS)
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
        words.append(text)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("maker", [*MAKERS.values(), ledger_table], ids=[*MAKERS, "ledger_table"])
def test_the_browsers_module_fetches_nothing(maker):
    module = maker()._esm
    assert not re.search(r"https?://|\bimport\b|\bfetch\(|XMLHttpRequest|<script", module)
    assert module.count("export default") == 1


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("axis_explorer", {"norm": "weight"}, "norm must be one of batch, layer, .*: got 'weight'"),
        (
            "normalize_row",
            {"controls": ("offset", "colour")},
            "controls must be among offset, scale",
        ),
        ("batch_neighbours", {"batch": 3}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got 3"),
        ("running_average", {"momentum": 0.3}, "momentum must be"),
        ("gradient_projection", {"features": 9}, "features must be"),
        (
            "chance_by_eye",
            {"seeds": 6},
            "seeds must be one of 2, 3, 4, 5, 7, 10, 15, 20, 30: got 6",
        ),
        ("sync_cost", {"ranks": 7}, "ranks must be one of 2, 4, 8"),
        (
            "least_time",
            {"dtype": "int8"},
            "dtype must be one of float64, float32, bfloat16, float16: got 'int8'",
        ),
        ("encoding_by_distance", {"encoding": "rope"}, "encoding must be"),
        ("encoding_by_distance", {"heads": 4, "head": 5}, "head must be one of 1, 2, 3, 4: got 5"),
        ("normalized_shape", {"shape": "W"}, "shape must be one of C, T,C, B,T,C, T: got 'W'"),
        ("rope_shapes", {"cos": "T"}, "cos must be one of T,D, T,1,D: got 'T'"),
        ("scan_rounds", {"done": 4}, "done must be one of 0, 1, 2, 3: got 4"),
        ("launch_queue", {"kernel": 4}, "kernel must be one of 1, 2, 3, 5"),
        ("large_feature", {"value": 2}, "value must be one of 1, 3, 10"),
        ("broken_llama", {"mistake": "none"}, "mistake must be one of pairs interleaved, base"),
        ("kernel_blocks", {"block": 3}, "block must be one of 2, 4, 8, 16: got 3"),
        (
            "where_they_part",
            {"offset": 3},
            "offset must be one of 0, 1, 10, 100, 1000, 10000: got 3",
        ),
        ("rope_clocks", {"reach": 65}, "reach must be one of 64, 512, 4096: got 65"),
        ("rope_scaling", {"methods": ("linear", "magic")}, "methods must be among linear, abf"),
    ],
)
def test_an_argument_that_no_control_reaches_is_refused_by_name(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        MAKERS[name](**arguments)
