"""The loop that trains: each step by its rate, a gradient no larger than allowed, and none that is
not finite."""

import pytest
import torch
from torch import nn

from course_utils.experiments import fit


def slope(*steepness):
    """Return a model of one number from 0, its optimizer, and a loss as steep as is said, step
    after step."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    steep = iter(steepness)
    return (
        model,
        lambda model: next(steep) * model.weight.sum(),
        torch.optim.SGD(model.parameters(), lr=1.0),
    )


def test_each_step_has_its_rate_and_a_gradient_no_larger_than_allowed():
    model, loss_of, optimizer = slope(1.0, 1.0, 8.0)
    told = []
    schedule = (0.5, 0.25, 1.0).__getitem__
    history = fit(model, loss_of, optimizer, 3, schedule=schedule, clip=2.0, progress=told.append)
    assert model.weight.item() == pytest.approx(-0.5 - 0.25 - 2.0, abs=1e-5)
    assert history.losses == [0.0, -0.5, -6.0]
    assert history.gradient_norms == [1.0, 1.0, 8.0]
    assert told == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_a_gradient_that_is_not_finite_ends_the_training_and_is_not_applied():
    model, loss_of, optimizer = slope(1.0, float("inf"), 1.0)
    history = fit(model, loss_of, optimizer, 3, clip=float("inf"))
    assert history.diverged
    assert model.weight.item() == -1.0
    assert history.gradient_norms == [1.0]
