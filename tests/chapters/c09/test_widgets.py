"""The widget of chapter 09: messages and bytes of the exchanges, and the time they take."""

import pytest

from chapters.c09_batch_norm_across_machines.cost import layer_step
from chapters.c09_batch_norm_across_machines.widgets import RANKS


def test_messages_bytes_and_times_are_those_of_the_chapters_cost(figures):
    for state, answer in figures("sync_cost", "costFigure", 40):
        at = answer["at"]
        assert RANKS[at] == state["ranks"]
        for route in ("ring", "doubling"):
            step = layer_step(state["channels"], state["ranks"], route=route)
            assert answer["sent"][route] == step.messages
            assert answer["sent"]["bytes"] == pytest.approx(step.bytes, rel=1e-12)
            times = answer[f"{route}Ms"]
            step_ms = state["layers"] * step.time_ms(state["latency"], state["bandwidth"])
            assert times[at] == pytest.approx(step_ms)
            assert times == sorted(times)
            bytes_ms = state["layers"] * step.time_ms(0, state["bandwidth"])
            assert answer["bytesMs"][at] == pytest.approx(bytes_ms)
