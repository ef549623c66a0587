"""The figures of chapter 01: nothing is clipped, and the picture shows what it is given."""

import numpy as np
import pytest
import torch
from clipping import assert_nothing_is_clipped

from chapters.c01_why_normalize.figures import by_depth, layer_by_layer, mark_band, valleys
from course_utils.plots import heatmap


def depth_figure():
    sizes = {
        "too large": 10.0 ** np.arange(40),
        "overflow": [1.0] * 20 + [float("inf")] * 20,
        "kept": [1.0] * 40,
    }
    return by_depth(sizes, "layer", "spread", band=(0.5, 2.0))


def layers_figure():
    values = [torch.linspace(-1, 1, 100)] * 11
    return layer_by_layer(dict.fromkeys("ABCD", (values, values)))


def valley_figure(steps=30):
    round_, narrow = torch.eye(2, dtype=torch.float64), torch.full((2, 2), 9.0).double()
    return valleys({"valley": narrow + round_, "bowl": round_}, steps)


@pytest.mark.parametrize("figure", [depth_figure, layers_figure, valley_figure])
def test_nothing_is_clipped(figure):
    assert_nothing_is_clipped(figure())


def test_the_way_down_ends_at_the_minimum_of_a_bowl_and_not_of_a_valley():
    valley, bowl = (ax.lines[0].get_xydata()[-1] for ax in valley_figure().axes)
    assert np.abs(bowl).max() < 1e-12 < 0.1 < np.abs(valley).max()


def test_the_band_is_marked_at_the_rates_that_bring_a_ratio_into_it():
    figure = heatmap(np.zeros((3, 4)), "network", "rate")
    mark_band(figure, [0.1, 1e-3, 1e9], rates=(1e-2, 1e-1, 1.0, 10.0), band=(1e-3, 1e-2))
    marked = figure.axes[0].collections[-1].get_segments()
    ends = [segment[:, 0] for segment in marked]
    np.testing.assert_allclose(ends, [[0, 1], [2, 3], [-0.5, -0.5]], atol=1e-9)
