"""The clocks of a rotary embedding: rotating whole vectors, as the course and transformers do, is the witness."""

import math

import numpy as np
import pytest
import torch
from clipping import assert_nothing_is_clipped
from widget_states import random_clock_states

from course_utils import plots, widgets
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq
from course_utils.widgets import clocks
from course_utils.widgets.clocks import ClockState, rope_clocks_figure


def rotated(vector, position, state):
    cos_sin = rope_cos_sin(torch.tensor([position]), rope_inv_freq(state.dim, state.base), dtype=torch.float64)
    return apply_rope(vector[None], *cos_sin)[0]


def vectors_of(state):
    """A query and a key (dim,) in the half layout that the words of the widget describe."""
    count = state.dim // 2
    if state.vectors == "random":
        random = torch.tensor(widgets.rope_clocks().data["random"], dtype=torch.float64)
        query, key, angle = random[:, :count]
        return torch.cat((query * angle.cos(), query * angle.sin())), torch.cat((key, 0 * key))
    query = torch.ones(state.dim, dtype=torch.float64)
    return query, rotated(query, state.reach // 2, state) if state.vectors == "aimed" else query


def test_the_score_is_that_of_two_rotated_vectors_at_the_two_positions():
    for state in random_clock_states(300):
        q, k = vectors_of(state)
        query, key = rotated(q, state.position + state.distance, state), rotated(k, state.position, state)
        expected = (query @ key) / (q.norm() * k.norm())
        # angles of up to 135,000 radians are rounded to 1.5e-11
        assert rope_clocks_figure(state).score == pytest.approx(expected.item(), abs=1e-10), state


def test_the_curve_is_the_score_at_every_distance_whatever_the_position():
    for state in random_clock_states(40, seed=1):
        figure = rope_clocks_figure(state)
        assert len(figure.scores) == state.reach + 1
        assert max(map(abs, figure.scores)) <= 1 + 1e-12
        moved = rope_clocks_figure(ClockState(**{**vars(state), "position": 0}))
        assert moved.scores == figure.scores
        assert moved.between == figure.between


def test_the_hands_stand_at_the_angle_of_the_rotated_unit_vector():
    for state in random_clock_states(200, seed=2):
        figure = rope_clocks_figure(state)
        right = torch.cat((torch.ones(state.dim // 2), torch.zeros(state.dim // 2))).double()
        for hands, position in ((figure.key, state.position), (figure.query, state.position + state.distance)):
            x, y = rotated(right, position, state).chunk(2)
            np.testing.assert_allclose(np.cos(hands), x, atol=1e-10)
            np.testing.assert_allclose(np.sin(hands), y, atol=1e-10)
            assert all(0 <= hand < 2 * math.pi for hand in hands)


def test_an_aimed_key_scores_most_half_way_along_the_axis():
    for reach in clocks.STOPS["reach"]:
        figure = rope_clocks_figure(ClockState(vectors="aimed", reach=reach, dim=64))
        assert int(np.argmax(figure.scores)) == reach // 2
        assert figure.scores[reach // 2] == pytest.approx(1)


def test_a_larger_base_slows_every_clock_but_the_first():
    small, large = (rope_clocks_figure(ClockState(base=base)).theta for base in (10_000, 500_000))
    assert small[0] == large[0] == 1
    assert all(fast > slow for fast, slow in zip(small[1:], large[1:], strict=True))


@pytest.mark.parametrize("dim", clocks.STOPS["dim"])
def test_the_static_picture_shows_every_clock_and_clips_nothing(dim):
    state = ClockState(dim=dim, vectors="random", reach=512)
    figure = plots.rope_clocks(state, rope_clocks_figure(state))
    assert_nothing_is_clipped(figure)
    assert len(figure.axes[0].patches) == dim  # a circle and a wedge for each pair


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"controls": ("base", "colour")}, "controls must be among position, .*: got 'colour'"),
        ({"controls": "position"}, r"controls must be among .*: got the text 'position'; .* pass \('position',\)"),
        ({"dim": 16.0}, r"dim must be one of 2, 4, .*: got 16\.0"),
        ({"dim": "16"}, "dim must be one of 2, 4, .*: got '16'"),
        ({"position": True}, "position must be a whole number from 0 to 131071: got True"),
        ({"base": 7}, "base must be one of 10, 100, .*: got 7"),
        ({"dim": 12}, "dim must be one of 2, 4, .*: got 12"),
        ({"reach": 100}, "reach must be one of 64, 512, 4096: got 100"),
        ({"distance": 65}, "distance must be a whole number from 0 to 64: got 65"),
        ({"position": -1}, "position must be a whole number from 0 to 131071: got -1"),
        ({"position": 1.5}, "position must be a whole number"),
        ({"vectors": "kind"}, "vectors must be one of equal, aimed, random: got 'kind'"),
    ],
)
def test_it_refuses_what_no_control_can_produce(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.rope_clocks(**arguments)


def test_a_base_may_be_a_float():
    assert widgets.rope_clocks(base=1e4).state == widgets.rope_clocks().state


def test_a_bound_and_scores_are_drawn_by_distance_and_named():
    figure = plots.attenuation({"base 100": [3.0, 2.0, 1.0]}, {"one": [1.0, 0.5, 0.2], "other": [0.0, 0.1, 0.2]})
    figure.draw_without_rendering()
    assert [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()] == [
        "base 100",
        "one",
        "other",
    ]
    with pytest.raises(ValueError, match="'other' must have one value per position"):
        plots.attenuation({"a": [1.0]}, {"one": [1.0, 0.5], "other": [0.0]})
