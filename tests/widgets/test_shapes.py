"""The shapes that RoPE takes: each cell turns as the layouts say, and right is what transformers
computes."""

import torch
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from widget_states import random_states, refused


def by_transformers(x, angles, order, pairs, **_):
    """Queries turned as Llama or GPT-J turn them; angles are (1, T, D/2)."""
    heads_first = order == "B,H,T,D"
    if pairs == "half":
        both = angles.repeat(1, 1, 2)
        dim = 1 if heads_first else 2
        return modeling_llama.apply_rotary_pos_emb(x, x, both.cos(), both.sin(), unsqueeze_dim=dim)[
            0
        ]
    tokens = x.transpose(1, 2) if heads_first else x  # (B, T, H, D)
    turned = modeling_gptj.apply_rotary_pos_emb(tokens, angles.sin(), angles.cos())
    return turned.transpose(1, 2) if heads_first else turned


def test_rope_turns_what_the_cells_say_and_right_is_what_transformers_computes(in_browser):
    states = list(random_states("rope_shapes", 300))
    found = in_browser("rope_shapes", "module.ropeFigure", [[state] for state in states])
    verdicts = in_browser(
        "rope_shapes", "module.verdictOn", [list(pair) for pair in zip(states, found, strict=True)]
    )
    for state, figure, verdict in zip(states, found, verdicts, strict=True):
        time, dim = state["sizes"]["T"], state["sizes"]["D"]
        x = torch.randn(figure["shape"], dtype=torch.float64)
        theta = 10_000 ** (-torch.arange(dim // 2, dtype=torch.float64) * 2 / dim)
        columns = (
            torch.cat([theta, theta]) if state["laid"] == "half" else theta.repeat_interleave(2)
        )
        angles = torch.arange(time)[:, None] * columns  # (T, D)
        angles = angles if state["cos"] == "T,D" else angles[:, None]
        assert figure["cosShape"] == list(angles.shape)
        assert figure["error"] == refused(lambda x=x, a=angles: x * a), state
        if figure["error"] or figure["result"] != list(x.shape):
            assert "wrong" in verdict or "refuses" in verdict
            continue
        half = torch.cat([-x[..., dim // 2 :], x[..., : dim // 2]], -1)
        turned = (
            half
            if state["pairs"] == "half"
            else torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        )
        expected = x * angles.cos() + turned * angles.sin()
        flat, computed = x.flatten(), []
        for place, cell in enumerate(figure["elements"]):
            angle = cell["position"][0] * theta[cell["speed"]]
            partner = flat[place - cell["at"]["D"] + cell["partner"]]
            computed.append(flat[place] * angle.cos() + cell["sign"] * partner * angle.sin())
        torch.testing.assert_close(torch.stack(computed).view_as(x), expected)
        right = by_transformers(x, (torch.arange(time)[:, None] * theta)[None], **state)
        if verdict.startswith("Right"):
            torch.testing.assert_close(expected, right)
        elif time > 1:  # a single position is 0, and turns nothing
            assert not torch.allclose(expected, right), state
