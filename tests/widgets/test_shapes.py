"""The shapes that RoPE takes: each cell turns as the layouts say, and right is what the library
computes."""

import torch
from widget_states import random_states, refused

from course_utils import widgets
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq


def test_rope_turns_what_the_cells_say_and_right_is_what_the_library_computes(in_browser):
    widget = widgets.rope_shapes()
    states = list(random_states("rope_shapes", 120))
    found = in_browser("rope_shapes", "module.ropeFigure", [[state] for state in states])
    verdicts = in_browser(
        "rope_shapes", "module.verdictOn", [list(pair) for pair in zip(states, found, strict=True)]
    )
    for state, figure, verdict in zip(states, found, verdicts, strict=True):
        time, whole = state["sizes"]["T"], state["sizes"]["D"]
        dim = max(2, int(whole * state["share"]) // 2 * 2)  # what turns
        full = torch.randn(figure["shape"], dtype=torch.float64)
        x = full[..., :dim]
        theta = rope_inv_freq(dim)
        columns = (
            torch.cat([theta, theta]) if state["laid"] == "half" else theta.repeat_interleave(2)
        )
        angles = torch.arange(time)[:, None] * columns  # (T, D)
        angles = angles if state["cos"] == "T,D" else angles[:, None]
        assert figure["cosShape"] == list(angles.shape)
        widget.state = state
        torch.testing.assert_close(widget.cos, angles.cos().float())
        torch.testing.assert_close(widget.sin, angles.sin().float())
        assert list(widget.x.shape) == figure["shape"]
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
        flat, computed = full.flatten(), []
        expected = torch.cat([expected, full[..., dim:]], dim=-1)
        for place, cell in enumerate(figure["elements"]):
            if cell["pair"] is None:
                assert cell["at"]["D"] >= dim
                computed.append(flat[place])
                continue
            angle = cell["position"][0] * theta[cell["speed"]]
            partner = flat[place - cell["at"]["D"] + cell["partner"]]
            computed.append(flat[place] * angle.cos() + cell["sign"] * partner * angle.sin())
        torch.testing.assert_close(torch.stack(computed).view_as(full), expected)
        cos_sin = rope_cos_sin(time, theta, dtype=torch.float64)
        if state["order"] == "B,H,T,D":
            right = apply_rope(x, *cos_sin, state["pairs"])
        else:
            right = apply_rope(x.transpose(1, 2), *cos_sin, state["pairs"]).transpose(1, 2)
        right = torch.cat([right, full[..., dim:]], dim=-1)
        if verdict.startswith("Right"):
            torch.testing.assert_close(expected, right)
        elif time > 1:  # a single position is 0, and turns nothing
            assert not torch.allclose(expected, right), state


def test_query_heads_share_key_heads_as_repeat_interleave_gives_them_out(in_browser):
    calls = [[{"sizes": {"H": heads}, "keys": keys}, 0] for heads in (2, 4) for keys in (1, 2, 4)]
    calls = [[state, head] for state, _ in calls for head in range(state["sizes"]["H"])]
    found = in_browser("rope_shapes", "module.keyHeadOf", calls)
    for (state, head), key in zip(calls, found, strict=True):
        heads, keys = state["sizes"]["H"], state["keys"]
        wanted = torch.arange(keys).repeat_interleave(heads // keys) if heads % keys == 0 else None
        assert key == (None if wanted is None else wanted[head])
