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
        return laid_out(query * angle.cos(), query * angle.sin(), state), laid_out(
            key, 0 * key, state
        )
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
        count = state["dim"] // 2
        right = laid_out(torch.ones(count).double(), torch.zeros(count).double(), state)
        for hands, at in (("key", position), ("query", position + distance), ("between", distance)):
            x, y = pairs_of(rotated(right, at, state), state)
            np.testing.assert_allclose(
                [np.cos(answer[hands]), np.sin(answer[hands])], [x, y], atol=1e-10
            )


def test_x_is_a_query_and_a_key_of_length_1_whose_product_is_the_score_in_either_layout(
    figures, in_browser
):
    widget = rope_clocks()
    for state, answer in figures("rope_clocks", "clockFigure", 30):
        widget.state = state
        np.testing.assert_allclose(widget.scores, answer["scores"], atol=1e-10)
        count = state["dim"] // 2
        calls = [[state, pair] for pair in range(count)]
        entries = in_browser("rope_clocks", "module.entriesOf", calls)
        assert sorted(entry for pair in entries for entry in pair) == list(range(state["dim"]))
        query, key = widget.x
        torch.testing.assert_close(widget.x.norm(dim=1), torch.ones(2).double())
        assert (query @ key).item() == pytest.approx(answer["score"], abs=1e-9), state
        turned = key[torch.tensor(entries)]  # (count, 2): by the angle of the hand
        angles = torch.tensor(answer["key"], dtype=torch.float64)
        shown = torch.stack([angles.cos(), angles.sin()], dim=1)
        torch.testing.assert_close(
            turned, turned.norm(dim=1, keepdim=True) * shown, atol=1e-9, rtol=0
        )


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
