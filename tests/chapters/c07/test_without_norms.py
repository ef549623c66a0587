"""The networks without norms of chapter 07: each begins as its paper says."""

import pytest
import torch

from chapters.c07_norms_of_models import without_norms
from chapters.c07_norms_of_models.without_norms import (
    ARMS,
    WIDTH,
    Block,
    StandardizedLinear,
    network,
)
from chapters.train import STUDIES
from course_utils.experiments.study import seeded


def start(arm, depth=6):
    with seeded(0):
        return network(arm, depth), torch.randn(32, 1, 8, 8)


@pytest.mark.parametrize("arm", ["batch norm, γ = 0", "SkipInit", "Fixup"])
def test_its_blocks_begin_as_the_identity(arm):
    model, images = start(arm)
    x = model[1](model[0](images))
    for block in model[2:-2]:
        assert torch.equal(block(x), x)


@pytest.mark.parametrize(
    "arm", ["batch norm", "layer norm", "dynamic tanh", "none", "LayerScale", "standardized"]
)
def test_the_others_do_not(arm):
    model, images = start(arm)
    x = model[1](model[0](images))
    assert not torch.allclose(model[2](x), x)


def test_standardized_rows_keep_mean_and_variance_whatever_the_weights_are():
    layer = StandardizedLinear(WIDTH, gain=1.5)
    with torch.no_grad():
        layer.weight.mul_(40).add_(3)
        layer.bias.zero_()
        rows = layer(torch.eye(WIDTH)).T
    assert rows.mean(1).abs().max() < 1e-6
    assert torch.allclose(rows.square().mean(1), torch.tensor(1.5**2 / WIDTH), rtol=1e-3)


def test_the_stream_of_standardized_blocks_grows_as_their_beta_says():
    with seeded(0):
        blocks = [Block("standardized", index, 16) for index in range(16)]
        x = torch.randn(512, WIDTH)
    for index, block in enumerate(blocks):
        assert x.square().mean().sqrt() == pytest.approx(block.beta, rel=0.15), index
        x = block(x).detach()


@pytest.mark.parametrize("name", ["without-norms", "without-seeds"])
def test_every_network_has_the_same_seeds_and_budget(name):
    plan = STUDIES[name].full
    assert {run["arm"] for run in plan} == set(ARMS)
    budgets = {
        arm: {(run["seed"], run["depth"], run["updates"]) for run in plan if run["arm"] == arm}
        for arm in ARMS
    }
    assert len(set(map(frozenset, budgets.values()))) == 1


def test_a_network_that_diverged_is_marked():
    settings = {"arm": "none", "depth": 4, "lr": 1e20, "seed": 0, "updates": 5}
    assert (
        without_norms.run(settings, lambda fraction: None)["validation"] == without_norms.DIVERGED
    )
