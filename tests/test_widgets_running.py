"""A running mean that follows a drifting channel: PyTorch's batch norm and long runs are the witnesses."""

import numpy as np
import pytest
import torch
from torch import nn
from widget_states import random_running_states

from course_utils import plots, widgets
from course_utils.widgets import running
from course_utils.widgets.neighbours import normals
from course_utils.widgets.running import RunningState, running_average_figure


def layers_running_mean(momentum, batch_means, start=0.0):
    """What PyTorch's layer holds after each batch, (steps,); two samples around the mean make a batch."""
    layer = nn.BatchNorm1d(1, momentum=momentum, affine=False).double()
    layer.running_mean.fill_(start)
    held = []
    for mean in batch_means:
        layer(torch.tensor([[mean - 1.0], [mean + 1.0]], dtype=torch.float64))
        held.append(layer.running_mean.item())
    return held


@pytest.mark.parametrize(("convention", "momentum"), [("torch", 0.1), ("torch", 0.9), ("keras", 0.9), ("keras", 0.99)])
def test_the_estimate_is_pytorchs_running_mean(convention, momentum):
    figure = running_average_figure(RunningState(momentum, convention, batch=4, drift=2, seed=3))
    in_torch = momentum if convention == "torch" else 1 - momentum
    np.testing.assert_allclose(figure.estimate, layers_running_mean(in_torch, figure.batch_means), rtol=1e-12)


def test_a_corrected_estimate_has_no_trace_of_the_start():
    corrected = running_average_figure(RunningState(0.01, corrected=True))
    weights = 0.99 ** np.arange(running.STEPS)[::-1]
    expected = [np.average(corrected.batch_means[:n], weights=weights[-n:]) for n in range(1, running.STEPS + 1)]
    np.testing.assert_allclose(corrected.estimate, expected, rtol=1e-12)
    assert corrected.start_weight == 0
    plain = running_average_figure(RunningState(0.01))
    assert plain.start_weight == pytest.approx(0.99**running.STEPS)
    assert plain.estimate[0] < 0.05 < 2 < corrected.estimate[0]


def test_the_two_conventions_are_mirror_images():
    a, b = running_average_figure(RunningState(0.1, "torch")), running_average_figure(RunningState(0.9, "keras"))
    np.testing.assert_allclose(a.estimate, b.estimate, rtol=1e-12)
    mixed_up = running_average_figure(RunningState(0.9, "torch"))
    assert (a.memory, mixed_up.memory) == pytest.approx((10, 10 / 9))


@pytest.mark.parametrize("momentum", [0.05, 0.2, 0.9])
def test_lag_and_scatter_are_those_of_a_long_run(momentum):
    state = RunningState(momentum, batch=4, drift=4)
    count = 40_000
    drift = state.drift / 100 * np.arange(count)
    held = np.asarray(layers_running_mean(momentum, drift + normals(1, count) / 2))
    behind = (drift - held)[1000:]
    figure = running_average_figure(state)
    # neighbouring errors are correlated over `memory` steps, so that many fewer are independent
    standard_error = figure.scatter / np.sqrt(len(behind) / figure.memory)
    assert behind.mean() == pytest.approx(figure.lag, abs=4 * standard_error)
    assert behind.std() == pytest.approx(figure.scatter, rel=0.06)


@pytest.mark.parametrize("momentum", [0.1, 0.5, 0.99])
def test_the_weights_are_what_a_single_batch_leaves_behind(momentum):
    figure = running_average_figure(RunningState(momentum))
    impulse = layers_running_mean(momentum, [1.0] + [0.0] * (running.AGES - 1))
    np.testing.assert_allclose(figure.weights, impulse, atol=1e-12)
    assert sum(momentum * (1 - momentum) ** age for age in range(10_000)) == pytest.approx(1)


def test_every_state_has_finite_numbers_and_a_picture_for_some():
    states = list(random_running_states(200, seed=1))
    for state in states:
        figure = running_average_figure(state)
        assert np.isfinite([*figure.truth, *figure.batch_means, *figure.estimate, *figure.weights]).all()
        assert len(figure.truth) == len(figure.batch_means) == len(figure.estimate) == running.STEPS
        assert figure.memory >= 1
    for state in states[:2]:
        assert plots.running_average(state, running_average_figure(state)).axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentum": 0.3}, "momentum must be one of 0.01, 0.02"),
        ({"convention": "jax"}, "convention must be one of torch, keras: got 'jax'"),
        ({"batch": 3}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got 3"),
        ({"drift": 100.0}, "drift must be one of"),
        ({"drift": "2"}, "drift must be one of .*: got '2'"),
        ({"corrected": "no"}, "corrected must be True or False: got 'no'"),
    ],
)
def test_what_no_control_can_produce_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.running_average(**arguments)
