"""The methods that scale RoPE: what the browser draws is what the course computes, with a kernel
and without."""

import json
import math
import re

import pytest
import torch
from widget_states import random_states

from course_utils import widgets
from course_utils.rope import from_config, rope_frequencies, yarn_paper_ramp
from course_utils.widgets import scaling
from course_utils.widgets.scaling_examples import EXAMPLES, PUBLISHED


def by_course(name, state):
    """The frequencies and the attention factor of a method of the widget, by course_utils.rope."""
    keys = {"rope_type": name, "rope_theta": state["base"], "partial_rotary_factor": state["share"]}
    if name == "abf":
        return rope_frequencies(
            {**keys, "rope_type": "default", "rope_theta": state["new_base"]}, state["head_dim"]
        )
    length, original = (
        state["length"] * state["window"],
        {"original_max_position_embeddings": state["window"]},
    )
    keys["factor"] = state["factor"]
    if name in ("yarn", "yarn_paper", "llama3"):
        keys |= original
    if name == "llama3":
        keys |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if name == "yarn_paper":
        trained, _ = rope_frequencies(
            {**keys, "rope_type": "default"} | {"factor": None}, state["head_dim"]
        )
        kept = yarn_paper_ramp(trained, state["window"])
        _, factor = rope_frequencies(
            {**keys, "rope_type": "yarn"}, state["head_dim"], state["window"]
        )
        return kept * trained + (1 - kept) * trained / state["factor"], factor
    return rope_frequencies(keys, state["head_dim"], state["window"], length)


@pytest.mark.filterwarnings("ignore::course_utils.rope.RopeWarning")
def test_the_browsers_methods_are_those_of_the_course(figures):
    compared = 0
    states = [
        {**state, "config": "", "methods": list(scaling.METHODS)}
        for state in random_states("rope_scaling", 80)
    ]
    for state, figure in figures("rope_scaling", "scalingFigure", states):
        for method in figure["methods"]:
            inv_freq, attention_factor = by_course(method["name"], state)
            expected = [2 * math.pi / f if f else 0 for f in inv_freq.tolist()]
            lengths = [length or 0 for length in method["wavelengths"]]
            assert lengths == pytest.approx(expected, rel=1e-12), method["name"]
            assert method["attentionFactor"] == pytest.approx(attention_factor, rel=1e-12)
            compared += 1
    assert compared > 400


def test_pairs_are_kept_blended_or_stretched_as_the_methods_define_it(figures):
    def bands(method):
        return [method["kinds"].count(kind) for kind in ("kept", "blended", "stretched")]

    llama = {
        "base": 500_000,
        "window": 8192,
        "head_dim": 128,
        "methods": ["linear", "ntk", "llama3"],
        "share": 1.0,
    }
    faster = {"base": 10_000_000, "new_base": 20_000, "methods": ["abf"], "share": 1.0}
    (_, first), (_, second) = figures("rope_scaling", "scalingFigure", [llama, faster])
    linear, ntk, llama3 = first["methods"]
    assert bands(linear) == [0, 0, 64]
    assert bands(ntk) == [1, 62, 1]  # the first is as it was, the last divided by the whole factor
    # Llama 3.1: more than 4 turns in 8,192 positions, between, less than 1
    turned = 8192 * 500_000.0 ** (-torch.arange(64, dtype=torch.float64) / 64) / (2 * math.pi)
    assert bands(llama3) == [
        (turned > 4).sum(),
        ((turned <= 4) & (turned >= 1)).sum(),
        (turned < 1).sum(),
    ]
    assert second["methods"][0]["kinds"][1:] == ["faster"] * 63


def seen_and_not(trained, scaled, window, position):
    """Whether some pair's angle at a position lies outside the arc that 0 ≤ m < window swept: the
    definition."""
    arc, angle = window * trained, position * scaled
    return bool(((arc < 2 * math.pi) & (scaled > 0) & (angle >= arc * (1 - 1e-9))).any())


def test_the_reach_is_the_first_position_at_which_an_angle_is_new(figures):
    state = {
        "head_dim": 32,
        "window": 64,
        "factor": 4,
        "length": 4,
        "share": 0.5,
        "methods": list(scaling.METHODS),
    }
    ((whole, figure),) = figures("rope_scaling", "scalingFigure", [state])
    for method in figure["methods"]:
        scaled, _ = by_course(method["name"], whole)
        trained = rope_frequencies({"rope_theta": 1e4, "partial_rotary_factor": 0.5}, 32)[0]
        if method["name"] == "proportional":
            trained = rope_frequencies(
                {"rope_type": "proportional", "partial_rotary_factor": 0.5}, 32
            )[0]
        walked = next((m for m in range(10_000) if seen_and_not(trained, scaled, 64, m)), None)
        assert method["reach"] == walked, method["name"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_published_configuration_is_drawn_as_it_is_read(name, in_browser):
    widget = widgets.rope_scaling((), config=PUBLISHED[name])
    (figure,) = in_browser(
        "rope_scaling", "module.scalingFigure", [[widget.state, widget.data, widget.answer]]
    )
    read = from_config(PUBLISHED[name])
    inv_freq, attention_factor = read.frequencies(figure["length"])
    (method,) = figure["methods"]
    expected = [2 * math.pi / f if f else 0 for f in inv_freq.tolist()]
    assert [length or 0 for length in method["wavelengths"]] == pytest.approx(expected)
    assert method["attentionFactor"] == pytest.approx(attention_factor)
    assert 2 * figure["pairs"] == read.head_dim
    windows = {
        "Llama 3.1 8B": 8192,
        "gpt-oss 20B": 4096,
        "DeepSeek-V3": 4096,
        "Gemma 3 27B": 32_768,
    }
    assert figure["window"] == windows.get(name, figure["window"])
    if name == "Gemma 4 E2B":  # it meets no new angle, because its slow pairs stand still
        assert method["kinds"] == ["kept"] * 64 + ["still"] * 192
        assert method["reach"] is None
        assert (
            "shown are the layers of type full_attention, of full_attention, sliding_attention"
            in figure["remarks"]
        )


PLAIN = {
    "a part of a "
    "file": '"rope_theta": 500000.0,\n"rope_scaling": {"rope_type": "linear", "factor": 4.0},',
    "today's keys": '{"rope_parameters": {"rope_type": "yarn", "factor": 4, '
    '"original_max_position_embeddings": 256}}',
    "a whole one": json.dumps(
        {
            "head_dim": 32,
            "max_position_embeddings": 128,
            "rope_theta": 1e6,
            "rope_parameters": {
                "rope_type": "dynamic",
                "factor": 2.0,
                "partial_rotary_factor": 0.5,
            },
        }
    ),
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_a_paste_is_read_without_a_kernel_as_with_one(text, in_browser):
    widget = widgets.rope_scaling((), config=text, head_dim=64, window=512)
    with_kernel = [widget.state, widget.data, widget.answer]
    without = [widget.state, {**widget.data, "readings": {}}, {}]
    first, second = in_browser("rope_scaling", "module.scalingFigure", [with_kernel, without])
    assert first["problem"] == second["problem"] == ""
    assert first["methods"] == second["methods"]
    assert set(first["remarks"]) <= set(second["remarks"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'rope_theta': 1}", "This is not JSON"),
        ('{"rope_scaling": {"rope_type": "nkt", "factor": 2}}', "rope_type"),
        ('{"rope_scaling": {"rope_type": "linear"}}', "factor must be given"),
        ("[1, 2]", r"This must be a JSON object: got \[1, 2\]"),
    ],
)
def test_a_bad_paste_is_a_sentence_in_the_figure_and_the_rest_of_it_stays(text, words, in_browser):
    widget = widgets.rope_scaling(config=text)
    calls = [
        [widget.state, widget.data, widget.answer],
        [widget.state, {**widget.data, "readings": {}}, {}],
    ]
    for figure in in_browser("rope_scaling", "module.scalingFigure", calls):
        assert re.search(words, figure["problem"])
        assert [method["name"] for method in figure["methods"]] == ["linear", "ntk", "yarn"]
    assert widget.answer["problem"] in widget.picture()[1]


def test_the_stored_picture_draws_a_head_of_one_pair_and_a_pasted_method():
    assert widgets.rope_scaling(config={"head_dim": 2, "max_position_embeddings": 64}).picture()
    scaled = {"head_dim": 16, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    assert list(widgets.rope_scaling((), config=scaled).wavelengths) == ["as trained", "config"]
