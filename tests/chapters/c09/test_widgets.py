"""The widget of chapter 09: messages and bytes of the exchanges, played one by one."""

import pytest

from chapters.c09_batch_norm_across_machines.cost import gather, reduce
from chapters.c09_batch_norm_across_machines.widgets import RANKS


def test_messages_bytes_and_times_are_those_of_the_chapters_cost(figures):
    for state, answer in figures("sync_cost", "costFigure", 40):
        ranks, latency = state["ranks"], state["latency"]
        forward, backward = (
            cost(state["channels"], ranks, route=state["route"]) for cost in (gather, reduce)
        )
        for name, traffic in (("forward", forward), ("backward", backward)):
            assert answer[name]["messages"] == traffic.messages
            assert answer[name]["bytes"] == pytest.approx(traffic.bytes, rel=1e-12)
        step = forward + backward
        step_ms = state["layers"] * step.time_ms(latency, state["bandwidth"])
        assert answer["stepMs"] == pytest.approx(step_ms)
        waiting_ms = state["layers"] * step.messages * latency / 1e3
        assert answer["waiting"] == pytest.approx(waiting_ms / step_ms)
        at = RANKS.index(ranks)
        assert answer["forwardMs"][at] + answer["backwardMs"][at] == pytest.approx(step_ms)
        assert answer["bothMs"][at] == pytest.approx(step_ms)
        assert answer["forwardMs"] == sorted(answer["forwardMs"])
