"""The scaling widget: transformers is the witness for the wavelengths, a walk along the positions for the reach."""

import json
import math
import re
import time
import warnings

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from widget_states import random_states

from course_utils import plots, widgets
from course_utils.rope import from_config, rope_frequencies
from course_utils.widgets.scaling_examples import EXAMPLES, PUBLISHED
from course_utils.widgets.scaling_figure import (
    KINDS,
    METHODS,
    STOPS,
    ScalingState,
    first_new_position,
    rope_scaling_figure,
    summary_of,
)


def random_scaling_states(count, seed=0):
    return [ScalingState(**state) for state in random_states("rope_scaling", count, seed)]


def by_name(state):
    return {method.name: method for method in rope_scaling_figure(state).methods}


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("head_dim", [32, 128])
def test_the_wavelengths_are_those_of_transformers(head_dim, share):
    state = ScalingState(tuple(METHODS), head_dim=head_dim, share=share)
    shown = by_name(state)
    options = {
        "linear": {},
        "dynamic": {},
        "yarn": {"original_max_position_embeddings": 4096},
        "llama3": {"original_max_position_embeddings": 4096, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "proportional": {},
    }
    for name, extra in options.items():
        parameters = {"rope_type": name, "rope_theta": 1e4, "factor": 8.0, "partial_rotary_factor": share, **extra}
        config = LlamaConfig(
            head_dim=head_dim, hidden_size=2 * head_dim, num_attention_heads=2, max_position_embeddings=4096
        )
        config.rope_parameters = parameters
        inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[name](config, seq_len=8 * 4096)
        assert shown[name].attention_factor == pytest.approx(attention_factor, abs=1e-9)
        expected = [2 * math.pi / f if f else None for f in inv_freq.tolist()]
        assert shown[name].wavelengths == [None if w is None else pytest.approx(w, rel=3e-6) for w in expected]


def test_every_state_has_a_picture_whose_parts_fit_together():
    for state in random_scaling_states(300, seed=1):
        data = rope_scaling_figure(state)
        assert bool(data.problem) == (state.config == "not JSON")
        names = [method.name for method in data.methods]
        assert names == [*state.methods, *(["config"] if state.config in EXAMPLES.values() else [])]
        assert data.length == state.length * data.window
        assert len(data.trained) <= data.pairs
        for method in data.methods:
            assert len(method.wavelengths) == len(method.kinds) <= data.pairs
            assert set(method.kinds) <= set(KINDS)
            assert [wavelength is None for wavelength in method.wavelengths] == [k == "still" for k in method.kinds]
            assert method.reach is None or method.reach >= 1
            assert method.attention_factor >= 1
        json.dumps(vars(data) | {"methods": [vars(method) for method in data.methods]}, allow_nan=False)


def bands(method):
    return [method.kinds.count(kind) for kind in ("kept", "blended", "stretched")]


def test_pairs_are_told_kept_blended_or_stretched_as_the_methods_define_it():
    shown = by_name(ScalingState(("linear", "ntk"), config=EXAMPLES["Llama 3.1 8B"]))
    assert bands(shown["linear"]) == [0, 0, 64]
    assert bands(shown["ntk"]) == [1, 62, 1]  # the first is as it was, the last divided by the whole factor
    # Llama 3.1: more than 4 turns in 8,192 positions, between, less than 1
    turned = 8192 * 500_000.0 ** (-torch.arange(64, dtype=torch.float64) / 64) / (2 * math.pi)
    assert bands(shown["config"]) == [(turned > 4).sum(), ((turned <= 4) & (turned >= 1)).sum(), (turned < 1).sum()]
    assert bands(by_name(ScalingState(("linear",), factor=1))["linear"]) == [64, 0, 0]


def seen_and_not(trained, stretched, window, position):
    """Whether some pair's angle at a position lies outside the arc that 0 ≤ m < window swept: the definition."""
    arc, angle = window * trained, position * stretched
    return bool(((arc < 2 * math.pi) & (angle >= arc * (1 - 1e-9))).any())


@pytest.mark.parametrize("rope_type", ["default", "linear", "ntk", "yarn", "llama3", "proportional"])
def test_the_reach_is_the_first_position_at_which_an_angle_is_new(rope_type):
    options = {"factor": 4.0} if rope_type != "default" else {}
    if rope_type in ("yarn", "llama3"):
        options["original_max_position_embeddings"] = 64
    if rope_type == "llama3":
        options |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    plain = {"rope_type": "proportional" if rope_type == "proportional" else "default"}
    trained, _ = rope_frequencies(plain, 32, 64)
    stretched, _ = rope_frequencies({"rope_type": rope_type, **options}, 32, 256)
    walked = next(m for m in range(10_000) if seen_and_not(trained, stretched, 64, m))
    assert first_new_position(trained, stretched, 64) == walked


def test_where_every_pair_finishes_a_turn_no_angle_is_new():
    trained = torch.tensor([1.0, 0.5, 0.2], dtype=torch.float64)
    assert first_new_position(trained, trained, 64) is None
    assert first_new_position(trained, trained, 16) == 16  # the last has made half a turn
    assert first_new_position(trained, trained * torch.tensor([1.0, 1.0, 0.0]), 16) is None  # and now it stands still


def test_position_interpolation_reaches_the_factor_times_the_window_and_ntk_falls_short():
    shown = by_name(ScalingState(("linear", "ntk", "yarn", "llama3")))
    assert {name: shown[name].reach for name in ("linear", "yarn", "llama3")} == dict.fromkeys(
        ("linear", "yarn", "llama3"), 32_768
    )
    assert 16_000 < shown["ntk"].reach < 20_000


def test_a_larger_base_reaches_further_without_a_factor():
    reach = [by_name(ScalingState(("abf",), new_base=base))["abf"].reach for base in STOPS["new_base"]]
    assert reach == sorted(reach)
    assert by_name(ScalingState(("abf",), base=10_000_000, new_base=20_000))["abf"].kinds[1:] == ["faster"] * 63


def test_dynamic_scaling_is_untouched_in_the_window_and_grows_beyond():
    short, long = (by_name(ScalingState(("dynamic",), length=length))["dynamic"] for length in (1, 8))
    assert set(short.kinds) == {"kept"}
    assert short.reach == 4096
    assert long.reach > 32_768


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_published_configuration_is_drawn_as_it_is_read(name):
    data = rope_scaling_figure(ScalingState((), config=EXAMPLES[name]))
    assert data.problem == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = from_config(PUBLISHED[name])
    (own,) = data.methods
    inv_freq, attention_factor = read.frequencies(data.length)
    assert own.wavelengths == [2 * math.pi / f if f else None for f in inv_freq.tolist()]
    assert own.attention_factor == attention_factor
    assert data.window == read.main.trained_length
    assert 2 * data.pairs == read.head_dim


def test_gemma_4_meets_no_new_angle_because_its_slow_pairs_stand_still():
    (own,) = rope_scaling_figure(ScalingState((), config=EXAMPLES["Gemma 4 E2B"])).methods
    assert own.kinds == ["kept"] * 64 + ["still"] * 192
    assert own.reach is None


@pytest.mark.parametrize(
    "text",
    [
        '"rope_theta": 500000.0,\n"rope_scaling": {"rope_type": "linear", "factor": 4.0},',
        '{"rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}',
        '{"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}',
        '  {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}}  ',
    ],
)
def test_a_part_of_a_file_is_enough_and_what_it_lacks_is_said(text):
    data = rope_scaling_figure(ScalingState((), config=text, head_dim=64, window=512))
    assert data.problem == ""
    assert data.methods[0].wavelengths[1] == pytest.approx(4 * 2 * math.pi * 500_000 ** (2 / 64))
    assert any("head_dim=64, where the text gives none" in remark for remark in data.remarks)
    assert any("max_position_embeddings=512, where the text gives none" in remark for remark in data.remarks)


def test_a_window_that_is_not_used_is_not_said_to_be_taken():
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    data = rope_scaling_figure(ScalingState((), config=json.dumps({"rope_scaling": scaling, "rope_theta": 1e6})))
    assert data.window == 32_768
    assert not any("max_position_embeddings" in remark for remark in data.remarks)


def test_the_layers_that_are_shown_are_called_by_their_name():
    layers = {name: {"rope_type": "default", "rope_theta": 1e4} for name in ("hybrid", "hybrid_sliding")}
    data = rope_scaling_figure(ScalingState((), config=json.dumps({"head_dim": 16, "rope_parameters": layers})))
    assert "shown are the layers of type hybrid, of hybrid, hybrid_sliding" in data.remarks
    shown = rope_scaling_figure(ScalingState((), config=EXAMPLES["Gemma 4 E2B"])).remarks
    assert "shown are the layers of type full_attention, of full_attention, sliding_attention" in shown


def test_gemma_3_reaches_eight_times_the_window_that_it_was_trained_with():
    data = rope_scaling_figure(ScalingState((), config=EXAMPLES["Gemma 3 27B"]))
    assert (data.window, data.methods[0].reach) == (32_768, 262_144)  # and its file states 131,072


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "This is not JSON"),
        ("{'rope_theta': 1}", "This is not JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ('{"rope_scaling": {"rope_type": "nkt", "factor": 2}}', "one of default, .*: got rope_type='nkt'"),
        ('{"rope_scaling": {"rope_type": "linear", "factor": 0.5}}', "factor must be a number of at least 1"),
        (
            '{"rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [1]}}',
            "a list of 64 positive",
        ),
        ('{"head_dim": 15, "rope_theta": 100}', "whole pairs within the head"),
        ('{"rope_theta": "big", "head_dim": 16}', "rope_theta must be a number above 1"),
        ("/etc/hostname", "This is not JSON"),
        ("[1, 2]", r"This must be a JSON object: got \[1, 2\]"),
        ("null", "This must be a JSON object: got null"),
        ('"linear"', 'This must be a JSON object: got "linear"'),
        ('{"a":' * 100_000, "This is not JSON"),
    ],
)
def test_a_bad_paste_is_a_sentence_in_the_figure(text, words):
    data = rope_scaling_figure(ScalingState(config=text))
    assert re.search(words, data.problem), data.problem
    assert [method.name for method in data.methods] == ["linear", "ntk", "yarn"]  # the rest of the picture stays
    widget = widgets.rope_scaling(config=text)
    assert data.problem in widget.picture()[1]


def test_a_method_that_a_tiny_head_cannot_have_is_left_out_with_a_word():
    data = rope_scaling_figure(ScalingState(("linear", "ntk"), config='{"head_dim": 2, "rope_theta": 100.0}'))
    assert [method.name for method in data.methods] == ["linear", "config"]
    assert any("NTK-aware is left out: the rotary dimension must be above 2" in remark for remark in data.remarks)


def test_a_suspicious_configuration_says_so_below_the_picture():
    text = json.dumps({**PUBLISHED["Llama 3.1 8B"], "rope_mystery": 1})
    assert "rope_mystery: not known and ignored" in rope_scaling_figure(ScalingState(config=text)).remarks


def test_the_widget_answers_each_request_with_the_figure():
    widget = widgets.rope_scaling()
    assert widget.answer["request"] == 0
    with widget.hold_sync():
        widget.set_trait("request", 5)
        widget.state = {**widget.state, "factor": 16, "config": "nonsense"}
    assert widget.answer["request"] == 5
    assert widget.answer["problem"].startswith("This is not JSON")
    assert [method["name"] for method in widget.answer["methods"]] == ["linear", "ntk", "yarn"]


def test_the_kernels_part_of_an_answer_leaves_most_of_the_tenth_of_a_second_to_the_way():
    times = []
    for state in random_scaling_states(40, seed=2):
        start = time.perf_counter()
        rope_scaling_figure(state)
        times.append(time.perf_counter() - start)
    assert sorted(times)[len(times) // 2] < 0.03


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ("linear", "magic")}, "methods must be among linear, abf, .*: got 'magic'"),
        ({"methods": "yarn"}, r"methods must be among .*: got the text 'yarn'; for a single one, pass \('yarn',\)"),
        ({"methods": None}, "methods must be among .*, in a list or tuple: got None"),
        ({"window": 128.0}, r"window must be one of 64, 128, .*: got 128\.0"),
        ({"factor": 3}, "factor must be one of 1, 1.5, 2, .*: got 3"),
        ({"window": 5}, "window must be one of 64, .*: got 5"),
        ({"config": "", "share": 0.3}, "share must be one of .*: got 0.3"),
    ],
)
def test_the_widget_refuses_what_no_control_can_produce(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.rope_scaling(**arguments)


def test_the_static_picture_has_a_strip_for_every_method():
    data = rope_scaling_figure(ScalingState(("linear", "yarn", "llama3")))
    figure = plots.rope_scaling(data)
    words = [text.get_text().strip() for axes in figure.axes for text in axes.texts]
    for method in data.methods:
        assert method.label in words
    assert "trained window, 4,096" in words
    plots.rope_scaling(rope_scaling_figure(ScalingState(())))


def test_a_summary_counts_every_pair():
    for method in rope_scaling_figure(ScalingState(tuple(METHODS))).methods:
        counted = sum(int(part.split()[0]) for part in summary_of(method).split(";")[0].split(", "))
        assert counted == 64
