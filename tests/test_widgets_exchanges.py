"""What synchronising costs, and the widget that shows it: an exchange played message by message is the witness."""

import pytest
from widget_states import random_sync_states

from course_utils import widgets
from course_utils.parallel.cost import Traffic, gather, layer_step, reduce
from course_utils.widgets.exchanges import RANKS, SyncState, sync_cost_figure


def ring_gather(ranks, size):
    """Play an all-gather around a ring: every step each rank hands on the block that it got last."""
    has, handed, messages = [{rank} for rank in range(ranks)], list(range(ranks)), 0
    while any(len(blocks) < ranks for blocks in has):
        handed = [handed[rank - 1] for rank in range(ranks)]
        for rank, block in enumerate(handed):
            has[rank].add(block)
        messages += 1
    return messages, messages * size


def doubling_gather(ranks, size):
    """Play an all-gather by recursive doubling: partners at distance 1, 2, 4, ... swap all that they have."""
    has, messages, numbers, distance = [{rank} for rank in range(ranks)], 0, 0, 1
    while distance < ranks:
        numbers += len(has[0]) * size
        has = [has[rank] | has[rank ^ distance] for rank in range(ranks)]
        messages, distance = messages + 1, 2 * distance
    assert all(len(blocks) == ranks for blocks in has)
    return messages, numbers


@pytest.mark.parametrize("ranks", [2, 4, 8, 64, 512])
@pytest.mark.parametrize(("route", "play"), [("ring", ring_gather), ("doubling", doubling_gather)])
def test_the_gather_takes_the_messages_and_bytes_of_the_algorithm(ranks, route, play):
    messages, numbers = play(ranks, 2 * 6 + 1)
    assert gather(6, ranks, itemsize=8, route=route) == Traffic(messages, 8 * numbers)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64, 512])
def test_the_reduce_is_a_scatter_and_a_gather_of_pieces(ranks):
    for route, play in (("ring", ring_gather), ("doubling", doubling_gather)):
        messages, pieces = play(ranks, 1)  # one piece of n / P numbers from each rank
        assert reduce(ranks, ranks, itemsize=4, route=route) == Traffic(2 * messages, 2 * pieces * 2 * 4)


def test_one_rank_sends_nothing_and_the_time_adds_up():
    assert layer_step(64, 1) == Traffic(0, 0)
    assert Traffic(3, 2e6).time_ms(latency_us=100, bandwidth_gbps=2) == pytest.approx(0.3 + 1.0)
    for ranks in (3, 5, 6):  # not a power of two: one message more than the next smaller one
        assert gather(4, ranks, route="doubling").messages == {3: 2, 5: 3, 6: 3}[ranks]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gather(4, 2, route="star"), "route must be one of ring, doubling: got 'star'"),
        (lambda: reduce(0, 2), "channels and ranks must be at least 1: got channels=0, ranks=2"),
        (lambda: widgets.sync_cost(7), "ranks must be one of 2, 4, 8"),
        (lambda: widgets.sync_cost(8.0, route="doubling"), r"ranks must be one of 2, 4, 8, .*: got 8\.0"),
        (lambda: widgets.sync_cost(route="star"), "route must be one of ring, doubling"),
        (lambda: widgets.sync_cost(bandwidth=3), "bandwidth must be one of 0.1"),
    ],
)
def test_what_no_network_and_no_control_has_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_chosen_ranks_lie_on_the_curves_and_waiting_is_a_part_of_the_time():
    for state in random_sync_states(200):
        data = sync_cost_figure(state)
        at = RANKS.index(state.ranks)
        assert data.forward_ms[at] + data.backward_ms[at] == pytest.approx(data.step_ms)
        assert data.forward_ms == sorted(data.forward_ms)
        assert 0 < data.waiting < 1


def test_latency_rules_many_ranks_on_a_ring_and_bytes_rule_a_slow_link():
    ring = sync_cost_figure(SyncState(ranks=512))
    assert ring.waiting > 0.9
    assert sync_cost_figure(SyncState(ranks=512, route="doubling")).step_ms < ring.step_ms / 4
    assert sync_cost_figure(SyncState(ranks=512, route="doubling", channels=4096, bandwidth=0.1)).waiting < 0.01
