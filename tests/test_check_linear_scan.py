"""The check of chapter 07: right ways to compute the recurrence pass."""

import pytest
import torch

from course_utils.check.linear_scan_check import linear_scan
from course_utils.models import recurrence


def backwards_doubling(a, b, h0=None):
    """Blelloch's way: pair up neighbours, scan the pairs, fill in the rest."""
    if h0 is not None:
        b = torch.cat([a[:, :1] * h0.unsqueeze(1) + b[:, :1], b[:, 1:]], dim=1)
    length = b.shape[1]
    if length == 1:
        return b
    odd = b[:, 1::2] + a[:, 1::2] * b[:, 0 : length - 1 : 2]
    pairs = backwards_doubling(a[:, 1::2] * a[:, 0 : length - 1 : 2], odd)
    even = torch.cat([b[:, :1], b[:, 2::2] + a[:, 2::2] * pairs[:, : (length - 1) // 2]], dim=1)
    states = torch.empty_like(b)
    states[:, 0::2], states[:, 1::2] = even, pairs
    return states


def loop(a, b, h0=0.0):
    h, states = 0.0 if h0 is None else h0, []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


@pytest.mark.parametrize("function", [recurrence.linear_scan, recurrence.linear_recurrence, backwards_doubling, loop])
def test_right_ways_pass(function):
    report = linear_scan(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_an_unknown_mistake_is_shown_on_a_small_input():
    report = linear_scan(lambda a, b, h0=None: recurrence.linear_scan(a, b, h0) + (b > 8), record=False)
    assert not report.passed
    assert report.misconception is None
    assert report.evidence is not None


def test_every_mistake_is_told_in_sentences():
    for mistake in linear_scan.catalogue.values():
        assert not mistake.title.endswith(".")
        assert len({mistake.title, mistake.wrong, mistake.matters, mistake.hint}) == 4
        for sentence in (mistake.wrong, mistake.matters, mistake.hint):
            assert sentence[-1] in ".?"
            assert 15 < len(sentence) < 400
