"""One sample amid its neighbours: PyTorch's batch norm is the witness."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import widgets
from course_utils.widgets import neighbours
from course_utils.widgets.neighbours import NeighbourState, batch_neighbours_figure


def batches_of(state, batch):
    """The batches themselves, (BATCHES, batch), the sample first."""
    sample = np.full((neighbours.BATCHES, 1), neighbours.SAMPLE[0])
    return torch.tensor(np.concatenate([sample, neighbours.neighbours(state, batch)], axis=1))


@pytest.mark.parametrize("momentum", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("batch", [2, 8, 64])
def test_outputs_and_running_statistics_are_those_of_pytorchs_batch_norm(batch, momentum):
    state = NeighbourState(batch, seed=3, loudness=2.0, momentum=momentum, steps=60)
    data = batch_neighbours_figure(state)
    layer = nn.BatchNorm1d(1, momentum=momentum, affine=False).double()
    outputs = []
    for step, values in enumerate(batches_of(state, batch)):
        assert data.running_mean[step] == pytest.approx(layer.running_mean.item(), abs=1e-12)
        assert data.running_variance[step] == pytest.approx(layer.running_var.item(), abs=1e-12)
        if step == state.steps:
            evaluated = layer.eval()(values[:1, None]).item()
            layer.train()
        outputs.append(layer(values[:, None])[0].item())
    np.testing.assert_allclose(data.outputs[batch], outputs, atol=1e-12)
    in_evaluation = batch_neighbours_figure(NeighbourState(batch, 3, 2.0, momentum, 60, "eval")).outputs[batch]
    np.testing.assert_allclose(in_evaluation, evaluated, atol=1e-12)


def test_the_output_scatters_in_training_less_in_larger_batches_and_not_at_all_in_evaluation():
    training = batch_neighbours_figure(NeighbourState()).outputs
    spreads = {batch: neighbours.spread_of(training[batch]) for batch in (16, 64)}
    assert spreads[16] > 0.2
    assert 0.4 < spreads[64] / spreads[16] < 0.65  # a mean of four times as many scatters half as much
    evaluation = batch_neighbours_figure(NeighbourState(mode="eval")).outputs
    assert {neighbours.spread_of(outputs) for outputs in evaluation.values()} == {0.0}


def test_a_batch_of_two_tells_only_which_of_the_two_is_larger():
    state = NeighbourState(loudness=10)
    outputs = np.asarray(batch_neighbours_figure(state).outputs[2])
    larger = neighbours.SAMPLE[0] - neighbours.neighbours(state, 2)[:, 0]
    far = np.abs(larger) > 0.1  # nearer, epsilon is felt
    np.testing.assert_allclose(outputs[far], np.sign(larger[far]), atol=0.003)
    assert far.sum() > 190


def test_layer_norm_of_the_sample_is_pytorchs():
    sample = torch.tensor([neighbours.SAMPLE], dtype=torch.float64)
    expected = F.layer_norm(sample, (len(neighbours.SAMPLE),))[0, 0].item()
    assert batch_neighbours_figure(NeighbourState()).layer_norm == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loudness", [0.5, 5])
@pytest.mark.parametrize("batch", [2, 8, 64])
def test_the_average_batch_is_what_many_batches_average_to(batch, loudness):
    seeds = range(neighbours.LIMITS["seed"][1] + 1)
    drawn = torch.cat([batches_of(NeighbourState(batch, seed, loudness), batch) for seed in seeds])
    data = batch_neighbours_figure(NeighbourState(batch, 0, loudness))
    for measured, expected in ((drawn.mean(1), data.expected_mean), (drawn.var(1), data.expected_variance)):
        standard_error = measured.std() / len(measured) ** 0.5
        assert abs(measured.mean() - expected) < 4 * standard_error


def test_a_batch_of_one_is_refused_in_training_as_pytorch_refuses_it_and_evaluated_all_the_same():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel") as refusal:
        nn.BatchNorm1d(4)(torch.zeros(1, 4))
    assert widgets.batch_neighbours(1).data["refusal"] == f"ValueError: {refusal.value}"
    assert batch_neighbours_figure(NeighbourState(1)).outputs[1] == []
    # nothing was trained, so mean 0 and variance 1 still stand
    untouched = neighbours.SAMPLE[0] / math.sqrt(1 + 1e-5)
    assert batch_neighbours_figure(NeighbourState(1, mode="eval")).outputs[1] == pytest.approx([untouched] * 200)


def scalar_uniforms(seed, count):
    """mulberry32 as published, one number at a time in Python's integers."""
    word = 0xFFFFFFFF
    state, drawn = seed, []
    for _ in range(count):
        state = (state + 0x6D2B79F5) & word
        t = ((state ^ (state >> 15)) * (state | 1)) & word
        t = ((t + (((t ^ (t >> 7)) * (t | 61)) & word)) & word) ^ t
        drawn.append((t ^ (t >> 14)) / 2**32)
    return drawn


@pytest.mark.parametrize("seed", [0, 8, 30064])
def test_the_random_numbers_are_mulberry32_made_normal(seed):
    uniform = scalar_uniforms(seed, 10)
    expected = []
    for first, second in zip(uniform[::2], uniform[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(1 - first))
        expected += [radius * math.cos(2 * math.pi * second), radius * math.sin(2 * math.pi * second)]
    np.testing.assert_allclose(neighbours.normals(seed, 9), expected[:9], atol=1e-12)


def test_the_random_numbers_are_standard_normal():
    drawn = neighbours.normals(1, 100_000)
    assert abs(drawn.mean()) < 0.015
    assert abs(drawn.std() - 1) < 0.01
    assert abs((np.abs(drawn) < 1).mean() - 0.6827) < 0.006


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 3}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got 3"),
        ({"batch": 8.0}, r"batch must be one of 1, 2, 4, 8, 16, 32, 64: got 8\.0"),
        ({"batch": "8"}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got '8'"),
        ({"batch": True}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got True"),
        ({"momentum": 0.3}, "momentum must be one of"),
        ({"momentum": True}, "momentum must be one of .*: got True"),
        ({"steps": 201}, "steps must be a whole number from 0 to 200: got 201"),
        ({"steps": 50.0}, r"steps must be a whole number from 0 to 200: got 50\.0"),
        ({"mode": "test"}, "mode must be one of train, eval: got 'test'"),
    ],
)
def test_the_neighbours_refuse_what_no_control_can_produce(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.batch_neighbours(**arguments)
