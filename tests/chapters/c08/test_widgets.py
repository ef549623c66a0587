"""What chance looks like by eye, in the browser and in Python, and against what is known of it."""

import numpy as np
import pytest
import torch
from widget_states import MAKERS

from course_utils.experiments import Difference


def test_runs_shares_and_verdicts_of_the_browser_are_those_of_python(figures):
    widget = MAKERS["chance_by_eye"]()
    for state, answer in figures("chance_by_eye", "chanceFigure", 12):
        widget.state = state
        np.testing.assert_allclose(widget.x, answer["x"], atol=1e-9)
        assert widget.shares() == answer["shares"]
        one, other = map(torch.tensor, answer["x"])
        assert answer["verdicts"]["paired"] == Difference.of((other - one).tolist()).decided


@pytest.mark.parametrize("shared", [-0.5, 0, 0.5, 0.9])
def test_a_paired_rule_errs_once_in_twenty_times_and_finds_what_pairing_lets_it(shared):
    widget = MAKERS["chance_by_eye"](shared=shared)
    never = widget.shares()
    # the standard error of a share of 0.05 in 500 is 0.01
    assert never["paired"] == pytest.approx([0.05] * 9, abs=0.04)
    assert never["eye"][-1] < 0.02
    widget.state = {**widget.state, "difference": 0.5}
    there = widget.shares()
    # a difference of 0.5 with 30 seeds: its standard error is √((1 − shared) · 2 / 30)
    assert there["paired"][-1] > {-0.5: 0.2, 0: 0.4}.get(shared, 0.7)
    assert (there["paired"][-1] > there["unpaired"][-1] + 0.2) == (shared > 0)
    assert (there["paired"][-1] < there["unpaired"][-1] - 0.05) == (shared < 0)


def test_three_runs_of_each_arm_do_not_overlap_by_chance_once_in_ten_times():
    # of the 20 ways in which three of six runs can be the first arm's, two leave no overlap
    never = MAKERS["chance_by_eye"]().shares()
    assert never["overlap"][1] == pytest.approx(0.1, abs=0.04)


def test_the_share_of_the_seed_is_the_correlation_of_the_arms():
    for shared in (-0.5, 0, 0.9):
        one, other = MAKERS["chance_by_eye"](shared=shared)._runs().flatten(1)
        found = torch.corrcoef(torch.stack([one, other]))[0, 1].item()
        assert found == pytest.approx(shared, abs=0.03)
