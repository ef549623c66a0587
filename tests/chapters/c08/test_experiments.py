"""The experiments of chapter 08: equal work for every arm, right tasks, runs that break."""

import math

import pytest
import torch
from studies import TOY, nothing, record

from chapters.c08_norms_at_work import batch_size, lstm_length, norm_placement
from chapters.train import STUDIES
from course_utils import data
from course_utils.experiments import at_best
from course_utils.experiments.adding_problem import adding_problem


def test_equal_epochs_see_the_same_images_and_equal_updates_step_as_often():
    plan = STUDIES["batch-size"].full
    assert len({settings["updates"] for settings in plan if settings["equal"] == "updates"}) == 1
    images = {
        settings["updates"] * settings["batch"]
        for settings in plan
        if settings["equal"] == "epochs"
    }
    # what is left of an epoch is dropped
    epochs = 2
    assert max(images) <= epochs * len(data.digits().train.labels)
    assert max(images) - min(images) <= 2 * epochs * 64


def test_always_answering_one_gives_the_error_that_is_quoted():
    _, target = adding_problem(200_000, 4, torch.Generator().manual_seed(0))
    # the standard error of a mean of 200,000 squares with variance 7/180 is 4e-4
    assert abs((target - 1).square().mean().item() - lstm_length.ALWAYS_ONE) < 2e-3


def test_both_kinds_of_lstm_begin_with_the_same_weights_and_an_open_forget_gate():
    built = []
    for layer_norm in (False, True):
        torch.manual_seed(0)
        built.append(lstm_length.Adder(layer_norm, hidden=4).lstm)
    plain, normed = (dict(lstm.named_parameters()) for lstm in built)
    for name in plain:
        assert torch.equal(plain[name], normed[name])
    assert torch.equal(plain["bias_ih_l0"][4:8], torch.ones(4))


def test_clipping_bounds_what_is_applied_and_says_how_often():
    settings = {**TOY["lstm-length"], "arm": "LSTM, clipped"}
    clipped = lstm_length.run(settings, nothing)
    assert 0 < clipped["clipped"] <= 1
    assert lstm_length.run({**settings, "arm": "LSTM"}, nothing)["clipped"] == 0


def test_a_run_that_breaks_counts_as_unsolved():
    broken = lstm_length.run({**TOY["lstm-length"], "arm": "LSTM", "lr": 1e30}, nothing)
    assert not broken["solved"]
    assert broken["taken"] == 25
    assert broken["diverged"]
    assert 0 < broken["updates"] < 5
    assert broken["error"] == 1.0
    assert all(math.isfinite(value) for value in broken.values())


def test_an_epoch_holds_every_image_once_in_a_new_order():
    batches = list(batch_size.index_batches(10, 5, 4, torch.Generator().manual_seed(0)))
    first, second = torch.cat(batches[:2]), torch.cat(batches[2:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert not torch.equal(first, second)
    uneven = list(batch_size.index_batches(10, 4, 6, torch.Generator().manual_seed(0)))
    assert all(len(batch) == 4 for batch in uneven)


def test_gradients_and_sizes_are_given_for_each_layer():
    result = norm_placement.gradients({**TOY["gradient-depth"], "placement": "post"}, nothing)
    assert result["layer"] == [1, 2]
    assert len(result["gradient"]) == len(result["size"]) == 2
    assert (result["first"], result["last"]) == (result["gradient"][0], result["gradient"][-1])
    # a post-norm block ends in a layer norm: the root of the mean square is 1 but for epsilon
    assert result["size"] == pytest.approx([1.0, 1.0], abs=1e-3)


def new_rates(net, budget):
    """Yield each batch size and norm that the new seeds ran, with the rates at which they did."""
    rates = {}
    for settings in STUDIES["digits-seeds"].full:
        if (settings["net"], settings["budget"]) == (net, budget):
            arm = settings["batch"], settings["norm"]
            rates.setdefault(arm, set()).add(settings["lr"])
    assert rates
    for (batch, norm), planned in rates.items():
        yield batch, norm, planned


def test_new_seeds_ran_at_the_rates_that_the_old_ones_chose():
    studies = {
        ("CNN", "updates"): ("batch-size", "200 updates"),
        ("CNN", "epochs"): ("batch-size", "2 epochs"),
        ("CNN", 15): ("cnn-long", "15 epochs"),
        ("MLP", 2): ("mlp-rates", "2 epochs"),
    }
    for (net, budget), (name, words) in studies.items():
        rows = record(name)
        rows = rows.select(net=net, equal=budget) if name == "batch-size" else rows.select(net=net)
        best = at_best(rows, "lr", by=("batch", "norm"), value="validation", level=1 / 240)
        rates = {(row["batch"], row["norm"]): row["lr"] for row in best}
        for batch, norm, planned in new_rates(net, words):
            assert rates[batch, norm] in planned
            assert len(planned) == 1 or words == "15 epochs"  # where the rates beside it ran too
