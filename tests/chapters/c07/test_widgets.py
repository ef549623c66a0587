"""The widget of chapter 07: one large feature, and what a norm makes of its row."""

import pytest
import torch

from chapters.c07_norms_of_models.widgets import FEATURE, _sizes, large_feature
from course_utils import data


def test_the_browser_normalizes_as_pytorch_does(figures):
    widget = large_feature()
    values = widget.data["stops"]["value"]
    for state, answer in figures("large_feature", "largeFigure", 20):
        widget.state = state
        torch.testing.assert_close(torch.tensor(answer["normed"]).double(), widget.normed())
        assert tuple(answer["before"].values()) == pytest.approx(_sizes(widget.x))
        assert tuple(answer["after"].values()) == pytest.approx(_sizes(widget.normed()))
        assert answer["overValues"][values.index(state["value"])] == answer["after"]


def test_its_row_is_the_models():
    widget = large_feature()
    assert widget.x.abs().argmax() == FEATURE
    assert widget.x[FEATURE] == data.smollm2_stream()[12][0, FEATURE]
