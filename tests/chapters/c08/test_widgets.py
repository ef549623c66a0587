"""The widget of chapter 08: messages and bytes of the exchanges, played one by one."""

import pytest

from chapters.c08_batch_norm_across_machines.cost import gather, reduce
from chapters.c08_batch_norm_across_machines.widgets import RANKS


def play_gather(route, ranks):
    """Play an all-gather message by message; return the messages, and the blocks that a rank sends
    in them."""
    has, handed, messages, blocks, distance = (
        [{rank} for rank in range(ranks)],
        list(range(ranks)),
        0,
        0,
        1,
    )
    while any(len(mine) < ranks for mine in has):
        if route == "ring":  # every step each rank hands on the block that it got last
            blocks += 1
            handed = [handed[rank - 1] for rank in range(ranks)]
            for rank, block in enumerate(handed):
                has[rank].add(block)
        else:  # partners at distance 1, 2, 4, ... swap all that they have
            blocks += len(has[0])
            has = [has[rank] | has[rank ^ distance] for rank in range(ranks)]
            distance *= 2
        messages += 1
    return messages, blocks


def test_the_exchanges_take_the_messages_and_bytes_of_the_algorithms(figures):
    for state, answer in figures("sync_cost", "costFigure", 40):
        ranks, channels, layers = (state[name] for name in ("ranks", "channels", "layers"))
        messages, blocks = play_gather(state["route"], ranks)
        assert answer["forward"] == {"messages": messages, "bytes": blocks * (2 * channels + 1) * 4}
        # a scatter of sums and a gather of pieces: n / P numbers in each block, twice
        bytes_back = pytest.approx(2 * blocks * 2 * channels / ranks * 4, rel=1e-12)
        assert answer["backward"] == {"messages": 2 * messages, "bytes": bytes_back}
        for function, key in ((gather, "forward"), (reduce, "backward")):
            traffic = function(channels, ranks, route=state["route"])
            assert (traffic.messages, traffic.bytes) == (
                answer[key]["messages"],
                pytest.approx(answer[key]["bytes"]),
            )
        waiting = layers * 3 * messages * state["latency"] / 1e3
        sending = (
            layers
            * (answer["forward"]["bytes"] + answer["backward"]["bytes"])
            / state["bandwidth"]
            / 1e6
        )
        assert answer["stepMs"] == pytest.approx(waiting + sending)
        assert answer["waiting"] == pytest.approx(waiting / (waiting + sending))
        at = RANKS.index(ranks)
        assert answer["forwardMs"][at] + answer["backwardMs"][at] == pytest.approx(answer["stepMs"])
        assert answer["forwardMs"] == sorted(answer["forwardMs"])
