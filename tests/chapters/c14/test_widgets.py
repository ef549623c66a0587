"""The widget of chapter 14: clocks, and the score of rotated vectors."""

import numpy as np
import pytest
import torch
from widget_states import random_states

from chapters.c14_rope.widgets import rope_clocks
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq


def turning(state):
    return max(2, 2 * int(state["dim"] * state["share"] / 2))  # entries of the head


def rotated(vector, position, state, layout="half"):
    """The first entries of the head turned, the others as they are."""
    part = turning(state)
    cos_sin = rope_cos_sin(
        torch.tensor([position]), rope_inv_freq(part, state["base"]), dtype=torch.float64
    )
    return torch.cat([apply_rope(vector[None, :part], *cos_sin, layout)[0], vector[part:]])


def laid_out(first, second, state):
    """The two numbers of each pair in the half layout of what turns, the others behind it."""
    turn = turning(state) // 2
    rest = torch.stack([first[turn:], second[turn:]], dim=1).flatten()
    return torch.cat([first[:turn], second[:turn], rest])


def pairs_of(vector, state):
    """Undo ``laid_out``: (2, dim / 2)."""
    part = turning(state)
    return torch.cat([vector[:part].view(2, -1), vector[part:].view(-1, 2).T], dim=1)


def vectors_of(state):
    """A query and a key (dim,) in the half layout that the words of the widget describe."""
    count = state["dim"] // 2
    if state["vectors"] == "random":
        random = torch.tensor(rope_clocks().data["random"], dtype=torch.float64)
        query, key, angle = random[:, :count]
        turned = key * angle.cos(), -key * angle.sin()
        return laid_out(query, 0 * query, state), laid_out(*turned, state)
    query = laid_out(torch.ones(count).double(), torch.zeros(count).double(), state)
    aim = state["reach"] // 2 if state["vectors"] == "aimed" else 0
    return query, rotated(query, aim, state)


def test_the_score_and_the_hands_are_those_of_rotated_vectors(figures):
    for state, answer in figures("rope_clocks", "clockFigure", 60):
        position, distance = state["position"], state["distance"]
        q, k = (v / v.norm() for v in vectors_of(state))
        query, key = rotated(q, position + distance, state), rotated(k, position, state)
        # angles of up to 135,000 radians are rounded to 1.5e-11
        assert answer["score"] == pytest.approx((query @ key).item(), abs=1e-10), state
        assert len(answer["scores"]) == state["reach"] + 1
        far = rotated(q, state["reach"], state) @ k
        assert answer["scores"][-1] == pytest.approx(far.item(), abs=1e-10), state
        for name, vector in (("query", query), ("key", key)):
            angle, length = answer[name], answer["lengths"][name]
            hand = [length * np.cos(angle), length * np.sin(angle)]
            np.testing.assert_allclose(hand, pairs_of(vector, state), atol=1e-10)
        ahead = np.subtract(answer["query"], answer["key"]) - answer["between"]
        np.testing.assert_allclose(np.cos(ahead), 1, atol=1e-10)


def test_x_is_the_query_and_the_key_of_the_hands_in_either_layout(figures, in_browser):
    widget = rope_clocks()
    for state, answer in figures("rope_clocks", "clockFigure", 30):
        widget.state = state
        np.testing.assert_allclose(widget.scores, answer["scores"], atol=1e-10)
        calls = [[state, pair] for pair in range(state["dim"] // 2)]
        entries = in_browser("rope_clocks", "module.entriesOf", calls)
        assert sorted(entry for pair in entries for entry in pair) == list(range(state["dim"]))
        for name, vector in zip(("query", "key"), widget.x, strict=True):
            angle, length = answer[name], answer["lengths"][name]
            hand = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
            np.testing.assert_allclose(vector[torch.tensor(entries)], hand, atol=1e-9)


def test_a_click_on_a_clock_picks_it_and_a_drag_along_the_score_is_the_distance(in_browser):
    everywhere = """(state) => {
        const { clocks, score } = module.panels(720, state.dim / 2);
        const count = state.dim / 2;
        const grid = module.gridOf(count, clocks);
        const clicked = (k) => module.pickAt(...grid.centre(k), state, 720, {}, false).picked;
        const drag = (x, held) => module.pickAt(x, score.top + 9, state, 720, {}, held).distance;
        const middle = (score.left + score.right) / 2;
        return [Array.from({ length: count }, (_, k) => clicked(k)),
            drag(score.left, false), drag(middle, true), drag(score.right, true), drag(2, true)];
    }"""
    states = list(random_states("rope_clocks", 30, seed=9))
    answers = in_browser("rope_clocks", everywhere, [[state] for state in states])
    for state, (picked, *distances) in zip(states, answers, strict=True):
        assert picked == list(range(state["dim"] // 2))
        assert distances == [0, state["reach"] // 2, state["reach"], 0]
