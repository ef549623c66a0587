"""The exercises of chapter 12 want few calls, whatever the number of steps."""

import time

import pytest
import torch

from chapters import check
from course_utils.check.sandbox import Sandbox
from course_utils.models import linear_recurrence


def step_by_step(a, q, k, v, L=64):
    H, y = 0.0, []
    for a_t, q_t, k_t, v_t in zip(a, q, k, v, strict=True):
        H = a_t * H + torch.outer(k_t, v_t)
        y.append(q_t @ H)
    return torch.stack(y)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("linear_scan", lambda a, b, h0=None: linear_recurrence(a, b, h0)),
        ("in_chunks", step_by_step),
    ],
)
def test_a_loop_is_told_how_many_calls_it_makes(name, loop):
    report = check[name](loop, record=False)
    assert not report.passed
    assert "Right on every probe, but a loop" in report.message
    assert not report.mistakes


def test_what_cannot_be_counted_in_time_is_a_loop():
    def slow(a, b, h0=None):
        time.sleep(0.2 * (a.shape[1] == 1024))
        return check.linear_scan.oracle(a, b, h0)

    report = check.linear_scan.exercise.judge(slow, Sandbox(limit_s=0.05))
    assert not report.passed
    assert "a loop: more than 0.05 s for 1,024 steps" in report.message
