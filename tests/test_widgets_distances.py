"""What an encoding tells attention about a distance: numpy, the codes themselves and transformers are the witnesses."""

import numpy as np
import pytest
import torch
from in_node import call_in_node
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from widget_states import random_distance_states

from course_utils import widgets
from course_utils.rope import sinusoidal
from course_utils.widgets.distances import STOPS, DistanceState, encoding_by_distance_values


@pytest.mark.parametrize("dim", STOPS["dim"])
@pytest.mark.parametrize("base", STOPS["base"])
def test_the_sinusoids_curve_is_the_product_of_two_codes_wherever_they_stand(dim, base):
    values = encoding_by_distance_values(DistanceState("sinusoidal", dim=dim, base=base, reach=128))
    code = sinusoidal(torch.arange(300, 429), dim, base, dtype=torch.float64)
    np.testing.assert_allclose(values, (code @ code[0] / (dim / 2)).numpy(), atol=1e-12)


@pytest.mark.parametrize("heads", [1, 6, 8, 12, 16])
def test_alibis_curve_is_what_bloom_adds_for_each_head(heads):
    keys = build_alibi_tensor(torch.ones(1, 33), heads, torch.float32)[:, 0]  # (H, K), larger for later keys
    for head in range(1, heads + 1):
        values = encoding_by_distance_values(DistanceState("alibi", heads=heads, head=head, reach=32))
        expected = (keys[head - 1] - keys[head - 1, -1]).flip(0)
        np.testing.assert_allclose(values, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("max_distance", STOPS["max_distance"])
def test_t5s_curve_is_the_bucket_of_transformers(max_distance):
    values = encoding_by_distance_values(DistanceState("t5", max_distance=max_distance, reach=512))
    expected = T5Attention._relative_position_bucket(-torch.arange(513), False, 32, max_distance)
    assert values == expected.tolist()


@pytest.mark.parametrize("max_distance", STOPS["max_distance"])
def test_the_description_says_where_t5s_last_bucket_starts(max_distance):
    widget = widgets.encoding_by_distance("t5", max_distance=max_distance, reach=512)
    bucket = T5Attention._relative_position_bucket(-torch.arange(513), False, 32, max_distance)
    assert f"last bucket from distance {(bucket == 31).nonzero()[0].item()} " in widget.describe()


def test_without_an_encoding_every_distance_looks_alike():
    assert encoding_by_distance_values(DistanceState("none", reach=128)) == [0.0] * 129


def test_every_state_has_a_value_for_each_distance_on_the_axis():
    for state in random_distance_states(300, seed=1):
        values = encoding_by_distance_values(state)
        assert len(values) == state.reach + 1
        assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoding": "rope"}, "encoding must be one of none, sinusoidal, t5, alibi: got 'rope'"),
        ({"heads": 4, "head": 5}, "head must be a whole number from 1 to 4: got 5"),
        ({"head": 1.0}, r"head must be a whole number from 1 to 8: got 1\.0"),
        ({"heads": 8.0}, r"heads must be one of 1, 2, .*: got 8\.0"),
        ({"dim": 64.0}, r"dim must be one of 2, 4, 8, 16, 32, 64, 128: got 64\.0"),
        ({"dim": 7}, "dim must be one of 2, 4, 8, 16, 32, 64, 128: got 7"),
        ({"reach": 33}, "reach must be one of 32, 128, 512: got 33"),
    ],
)
def test_what_no_control_can_produce_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.encoding_by_distance(**arguments)


@pytest.fixture
def in_browser(tmp_path):
    """Call a function of the widget's module with each of a list of argument lists."""
    return lambda function, calls: call_in_node(tmp_path, widgets.encoding_by_distance()._esm, function, calls)


def test_the_browser_has_the_same_curve_as_python(in_browser):
    states, data = list(random_distance_states(200, seed=2)), widgets.encoding_by_distance().data
    answers = in_browser("module.distanceValues", [[vars(state), data] for state in states])
    for state, values in zip(states, answers, strict=True):
        np.testing.assert_allclose(values, encoding_by_distance_values(state), rtol=1e-12, atol=1e-12)


def test_a_head_beyond_the_last_makes_room_and_fewer_heads_take_it_back(in_browser):
    state = vars(DistanceState("alibi", heads=4, head=2))
    more, fewer = in_browser("module.change", [[state, "head", 6], [{**state, "head": 4}, "heads", 3]])
    assert (more["heads"], more["head"]) == (6, 6)
    assert (fewer["heads"], fewer["head"]) == (3, 3)
    for control in ("heads", "head", "dim", "base", "max_distance", "reach"):
        for stop in STOPS.get(control, range(1, 17)):
            DistanceState(**in_browser("module.change", [[state, control, str(stop)]])[0])


def test_the_facts_and_the_summary_say_what_the_curve_shows(in_browser):
    data = widgets.encoding_by_distance().data
    states = [
        DistanceState("alibi"),
        DistanceState("t5", reach=512),
        DistanceState("none"),
        DistanceState("sinusoidal"),
    ]
    calls = [[vars(state), data] for state in states]
    facts = in_browser("module.facts", calls)
    # slope 1/2: e^(-d/2) halves every 2 ln 2 tokens; T5 gives distances 0 to 15 a bucket each
    assert facts[0] == [["slope", "0.5"], ["the weight halves every", "1.39 tokens"]]
    last = T5Attention._relative_position_bucket(-torch.arange(200), False, 32, 128).tolist().index(31)
    assert facts[1] == [["a bucket each", "distances 0 to 15"], ["one bucket for all", f"from distance {last}"]]
    summaries = in_browser("module.summary", calls)
    different = "Distances 0 to {}: {} different numbers for {} distances."
    assert summaries[0] == different.format(32, 33, 33)
    assert summaries[1] == different.format(512, 32, 513)
    assert summaries[2] == "Distances 0 to 32: one number for all, so they all look alike."
    assert summaries[3] == different.format(32, 33, 33)
    assert facts[3] == [["shortest wave", "6.28 tokens"], ["longest wave", "47,100 tokens"]]  # 2π·10000^(62/64)
