"""The widget of chapter 13: clocks, and the score of rotated vectors."""

import numpy as np
import pytest
import torch
from widget_states import random_states

from chapters.c13_rope.widgets import rope_clocks
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq


def rotated(vector, position, state):
    cos_sin = rope_cos_sin(
        torch.tensor([position]), rope_inv_freq(state["dim"], state["base"]), dtype=torch.float64
    )
    return apply_rope(vector[None], *cos_sin)[0]


def vectors_of(state):
    """A query and a key (dim,) in the half layout that the words of the widget describe."""
    count = state["dim"] // 2
    if state["vectors"] == "random":
        random = torch.tensor(rope_clocks().data["random"], dtype=torch.float64)
        query, key, angle = random[:, :count]
        return torch.cat((query * angle.cos(), query * angle.sin())), torch.cat((key, 0 * key))
    query = torch.ones(state["dim"], dtype=torch.float64)
    return query, rotated(query, state["reach"] // 2, state) if state[
        "vectors"
    ] == "aimed" else query


def test_the_score_and_the_hands_are_those_of_rotated_vectors(figures):
    for state, answer in figures("rope_clocks", "clockFigure", 60):
        position, distance = state["position"], state["distance"]
        q, k = vectors_of(state)
        length = q.norm() * k.norm()
        score = rotated(q, position + distance, state) @ rotated(k, position, state) / length
        # angles of up to 135,000 radians are rounded to 1.5e-11
        assert answer["score"] == pytest.approx(score.item(), abs=1e-10), state
        assert len(answer["scores"]) == state["reach"] + 1
        far = rotated(q, state["reach"], state) @ k / length
        assert answer["scores"][-1] == pytest.approx(far.item(), abs=1e-10), state
        right = torch.cat((torch.ones(state["dim"] // 2), torch.zeros(state["dim"] // 2))).double()
        for hands, at in (("key", position), ("query", position + distance), ("between", distance)):
            x, y = rotated(right, at, state).chunk(2)
            np.testing.assert_allclose(
                [np.cos(answer[hands]), np.sin(answer[hands])], [x, y], atol=1e-10
            )


def test_a_click_on_a_clock_picks_it_and_a_drag_along_the_score_is_the_distance(in_browser):
    everywhere = """(state) => {
        const { clocks, score } = module.panels(720);
        const count = state.dim / 2;
        const grid = module.gridOf(count, clocks);
        const clicked = (k) => module.pickAt(...grid.centre(k), state, 720, false).picked;
        const drag = (x, held) => module.pickAt(x, score.top + 9, state, 720, held).distance;
        const middle = (score.left + score.right) / 2;
        return [Array.from({ length: count }, (_, k) => clicked(k)),
            drag(score.left, false), drag(middle, true), drag(score.right, true), drag(2, true)];
    }"""
    states = list(random_states("rope_clocks", 30, seed=9))
    answers = in_browser("rope_clocks", everywhere, [[state] for state in states])
    for state, (picked, *distances) in zip(states, answers, strict=True):
        assert picked == list(range(state["dim"] // 2))
        assert distances == [0, state["reach"] // 2, state["reach"], 0]
