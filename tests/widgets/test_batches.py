"""The neighbours of a batch and the running average, against PyTorch's batch norm."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import widgets
from course_utils.widgets import batches


def test_the_browser_draws_independent_standard_normal_numbers_anew_for_each_seed(in_browser):
    draw = "(...a) => Array.from(module.normals(...a))"
    calls = [[1, 100_000], [2, 100_000], [30_064, 7], [77, 0]]
    drawn, other, *few = map(np.array, in_browser("batch_neighbours", draw, calls))
    for call, values in zip(calls, (drawn, other, *few), strict=True):  # and Python the same
        np.testing.assert_allclose(batches.normals(*call), values, rtol=1e-9, atol=1e-12)
    for values in (drawn, drawn**2 - 1, drawn[1:] * drawn[:-1], drawn * other):
        assert abs(values.mean()) < 4 * values.std() / math.sqrt(len(values))
    below = [(drawn < edge).mean() for edge in (-2, -1, 1, 2)]
    assert below == pytest.approx([0.0228, 0.1587, 0.8413, 0.9772], abs=0.005)


def running_through(layer, values):
    """A batch norm's outputs for the first sample, and its running statistics before each batch and
    at the end."""
    held, outputs = [[layer.running_mean.item(), layer.running_var.item()]], []
    for batch in values:
        outputs.append(layer(batch[:, None])[0].item())
        held.append([layer.running_mean.item(), layer.running_var.item()])
    return outputs, np.transpose(held)


def test_outputs_and_running_statistics_of_the_neighbours_are_those_of_pytorchs_batch_norm(
    figures,
):
    count, answers = batches.BATCHES, figures("batch_neighbours", "neighbourFigure", 16)
    for state, answer in answers:
        batch, pixels = state["batch"], state["pixels"]
        drawn = batches.normals(1000 * state["seed"] + batch, count * (batch - 1) * pixels)
        aside = torch.cat([torch.zeros(1).double(), batches.normals(batches.OWN_SEED, pixels - 1)])
        own = (batches.SAMPLE[0] + aside).expand(count, pixels)
        neighbours = state["loudness"] * drawn.view(count, (batch - 1) * pixels)
        values = torch.cat([own, neighbours], dim=1)
        layer = nn.BatchNorm1d(1, momentum=state["momentum"], affine=False).double()
        if batch * pixels == 1:
            with pytest.raises(ValueError, match="more than 1 value per channel"):
                layer(values[0, :, None])
            outputs, held = [], np.repeat([[0.0], [1.0]], count + 1, axis=1)
        else:
            outputs, held = running_through(layer, values)
        if state["mode"] == "eval":
            mean, variance = held[:, state["steps"]]
            outputs = [(batches.SAMPLE[0] - mean) / math.sqrt(variance + layer.eps)] * count
        np.testing.assert_allclose(answer["outputs"][str(batch)], outputs, rtol=1e-9, atol=1e-9)
        running = [answer["running"]["mean"], answer["running"]["variance"]]
        np.testing.assert_allclose(running, held, rtol=1e-9, atol=1e-9)
        sample = torch.tensor(batches.SAMPLE, dtype=torch.float64)[:, None] + aside
        layer_norm = F.layer_norm(sample, sample.shape)[0, 0].item()
        assert answer["layerNorm"] == pytest.approx(layer_norm, abs=1e-12)
        widget = widgets.batch_neighbours()
        widget.state = state
        assert torch.equal(widget.x, values[0].view(batch, pixels))


@pytest.mark.parametrize("loudness", [0.5, 5])
def test_the_average_batch_is_what_many_batches_average_to(loudness, figures):
    sizes = [(1, 1), (2, 1), (8, 1), (64, 1), (1, 4), (2, 16)]
    states = [{"batch": b, "pixels": pixels, "loudness": loudness} for b, pixels in sizes]
    (_, alone), *trained = figures("batch_neighbours", "neighbourFigure", states)
    assert alone["expectedMean"] is None
    for state, answer in trained:
        pixels = state["pixels"]
        shape = (5000, (state["batch"] - 1) * pixels)
        drawn = loudness * np.random.default_rng(1).standard_normal(shape)
        own = np.tile(batches.SAMPLE[0] + batches.own_pixels(pixels), (5000, 1))
        values = np.concatenate([own, drawn], axis=1)
        expected = (answer["expectedMean"], answer["expectedVariance"])
        for measured, average in zip(
            (values.mean(1), values.var(1, ddof=1)), expected, strict=True
        ):
            standard_error = measured.std() / math.sqrt(len(measured))
            assert abs(measured.mean() - average) < 4 * standard_error + 1e-12


def test_a_batch_of_one_is_refused_in_training_in_pytorchs_words():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel") as refusal:
        nn.BatchNorm1d(4)(torch.zeros(1, 4))
    alone = widgets.batch_neighbours(1)
    assert alone.data["refusal"] == f"ValueError: {refusal.value}"
    assert alone.data["refusal"] in alone.picture()[1]


def test_the_estimate_is_pytorchs_running_mean_in_both_conventions(figures):
    for state, answer in figures("running_average", "runningFigure", 15):
        new = state["momentum"] if state["convention"] == "torch" else 1 - state["momentum"]
        layer = nn.BatchNorm1d(1, momentum=new, affine=False).double()
        means = np.array(answer["batchMeans"])
        widget = widgets.running_average()
        widget.state = state
        np.testing.assert_allclose(widget.x, means, rtol=1e-12)
        _, (held, _) = running_through(
            layer, torch.tensor(np.stack([means - 1, means + 1], axis=1))
        )
        weights = (1 - new) ** np.arange(len(means))
        if state["corrected"]:  # no trace of the start: a weighted mean of what has come so far
            held = [np.average(means[: n + 1], weights=weights[n::-1]) for n in range(len(means))]
        else:
            held = held[1:]
        np.testing.assert_allclose(answer["estimate"], held, rtol=1e-8)
        np.testing.assert_allclose(
            answer["weights"], new * weights[: len(answer["weights"])], rtol=1e-9, atol=1e-12
        )
        assert answer["startWeight"] == pytest.approx(
            0 if state["corrected"] else (1 - new) ** len(means)
        )
        assert answer["memory"] == pytest.approx(1 / new)


def test_lag_and_scatter_are_those_of_a_long_run(figures):
    states = [{"momentum": momentum, "batch": 4, "drift": 4} for momentum in (0.05, 0.2, 0.5)]
    for state, answer in figures("running_average", "runningFigure", states):
        drift = 0.04 * np.arange(40_000)
        held, average = [], 0.0
        for mean in drift + np.random.default_rng(1).standard_normal(len(drift)) / 2:
            average += state["momentum"] * (mean - average)
            held.append(average)
        behind = (drift - held)[1000:]
        # neighbouring errors are correlated over `memory` steps, so that many fewer are independent
        standard_error = answer["scatter"] / math.sqrt(len(behind) / answer["memory"])
        assert behind.mean() == pytest.approx(answer["lag"], abs=4 * standard_error)
        assert behind.std() == pytest.approx(answer["scatter"], rel=0.06)
