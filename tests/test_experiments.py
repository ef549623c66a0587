"""The norm experiments at toy size: right tasks, the same from the same seed, nothing left behind, resumable."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from course_utils import data, experiments, plots
from course_utils.experiments import (
    Rows,
    archive,
    batch_size,
    lstm_length,
    norm_placement,
    rnn_time,
    run_study,
)
from course_utils.experiments.tuning import at_best
from course_utils.recorded import RecordError

TOY = {
    "lstm-length": {"arm": "LN-LSTM", "length": 6, "batch": 4, "lr": 0.01, "steps": 25, "seed": 0},
    "batch-size": {
        "net": "CNN", "equal": "updates", "norm": "batch", "batch": 2, "updates": 4, "lr": 0.01, "seed": 0,
    },
    "gradient-depth": {"placement": "pre", "depth": 2, "seed": 0},
    "vit-depth": {"placement": "post", "depth": 1, "lr": 0.001, "warm_up": 2, "updates": 3, "seed": 0},
}  # fmt: skip


def nothing(fraction):
    assert 0 <= fraction <= 1


@pytest.mark.parametrize("name", TOY)
def test_a_seed_gives_the_same_result_whatever_the_global_state(name):
    study, results = experiments.find(name), []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        state = torch.random.get_rng_state()
        results.append(study.run(dict(TOY[name]), nothing))
        assert torch.equal(torch.random.get_rng_state(), state)
    assert results[0] == results[1]
    assert study.run({**TOY[name], "seed": 1}, nothing) != results[0]


@pytest.mark.parametrize("name", TOY)
def test_a_study_that_is_interrupted_goes_on_and_writes_the_same_record(name, tmp_path):
    study = experiments.find(name)
    cells = [{**TOY[name], "seed": seed} for seed in range(3)]
    whole = run_study(dataclasses.replace(study, cells=lambda size: cells), progress=False)

    def interrupted(cell, progress):
        if cell["seed"] == 2:
            raise KeyboardInterrupt
        return study.run(cell, progress)

    out = tmp_path / "record.json"
    stops, goes_on = (dataclasses.replace(study, cells=lambda size: cells, run=run) for run in (interrupted, study.run))
    with pytest.raises(KeyboardInterrupt):
        run_study(stops, out=out, progress=False)
    assert not out.exists()
    assert list(run_study(goes_on, out=out, progress=False)) == list(whole)
    assert archive.read(out).origin


@pytest.mark.parametrize("name", [*TOY, "lstm-batch", "rnn-time"])
def test_both_sizes_have_three_seeds_of_everything_and_no_run_twice(name):
    for size in ("reduced", "full"):
        cells = experiments.find(name).cells(size)
        settings = {}
        for cell in cells:
            key = tuple((field, value) for field, value in cell.items() if field != "seed")
            settings.setdefault(key, set()).add(cell["seed"])
        assert all(len(seeds) >= 3 for seeds in settings.values())
        assert sum(map(len, settings.values())) == len(cells)


def test_every_arm_is_tried_with_the_same_rates():
    for name, arm in (("lstm-length", "arm"), ("batch-size", "norm"), ("vit-depth", "placement")):
        rates = {}
        for cell in experiments.find(name).cells("full"):
            rates.setdefault(cell[arm], set()).add(cell["lr"])
        assert len({frozenset(values) for values in rates.values()}) == 1
        assert len(next(iter(rates.values()))) >= 3


def test_equal_epochs_see_the_same_images_and_equal_updates_step_as_often():
    cells = experiments.find("batch-size").cells("full")
    assert len({cell["updates"] for cell in cells if cell["equal"] == "updates"}) == 1
    seen = {cell["updates"] * cell["batch"] for cell in cells if cell["equal"] == "epochs"}
    assert max(seen) - min(seen) <= 2 * batch_size.EPOCHS * 64  # what is left of an epoch is dropped


def test_the_adding_problem_asks_for_the_sum_of_the_two_marked_numbers():
    x, target = lstm_length.adding_problem(200, 9, torch.Generator().manual_seed(0))
    numbers, marks = x.unbind(-1)
    assert torch.equal(marks.sum(dim=1), torch.full((200,), 2.0))
    assert torch.equal(marks[:, :4].sum(dim=1), torch.ones(200))
    torch.testing.assert_close((numbers * marks).sum(dim=1), target)
    assert marks.sum(dim=0).min() > 0


def test_always_answering_one_gives_the_error_that_is_quoted():
    _, target = lstm_length.adding_problem(200_000, 4, torch.Generator().manual_seed(0))
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
    cell = {**TOY["lstm-length"], "arm": "LSTM, clipped"}
    clipped = lstm_length.run(cell, nothing)
    assert 0 < clipped["clipped"] <= 1
    assert lstm_length.run({**cell, "arm": "LSTM"}, nothing)["clipped"] == 0


def test_an_arm_that_does_not_exist_is_not_taken_for_a_plain_lstm():
    with pytest.raises(ValueError, match=r"arm must be one of 'LSTM', 'LSTM, clipped', 'LN-LSTM': got 'layer norm'"):
        lstm_length.run({**TOY["lstm-length"], "arm": "layer norm"}, nothing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1: got batch=0"),
        ({"steps": 40.5}, "steps must be a whole number of at least 1: got steps=40.5"),
        ({"seed": -1}, "seed must be a whole number of at least 0: got seed=-1"),
        ({"length": 1}, "length must be a whole number of at least 2: got length=1"),
        ({"lr": "0.03"}, "lr must be a positive number: got '0.03'"),
        ({"lr": 0.0}, "lr must be a positive number: got 0.0"),
        ({"rate": 0.03}, "the settings must be arm, lr, length, batch, steps, seed: got .*, rate$"),
    ],
)
def test_an_impossible_setting_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        lstm_length.run({**TOY["lstm-length"], **change}, nothing)


def test_a_missing_setting_is_told():
    with pytest.raises(ValueError, match=r"the settings must be arm, lr, length, batch, steps, seed: got arm$"):
        lstm_length.run({"arm": "LSTM"}, nothing)


@pytest.mark.parametrize("steps", [5, 25, 40])
def test_the_error_is_looked_at_after_the_last_step_too(monkeypatch, steps):
    looked = iter([1.0] * (1 + steps // lstm_length.EVERY - (steps % lstm_length.EVERY == 0)))
    monkeypatch.setattr(lstm_length, "_error", lambda *args, **kwargs: next(looked, 0.0))
    result = lstm_length.run({**TOY["lstm-length"], "arm": "LSTM", "steps": steps}, nothing)
    assert result["solved"]
    assert not result["diverged"]
    assert result["taken"] == result["updates"] == steps


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


def test_looking_at_accuracy_by_batches_changes_nothing_in_the_network():
    from course_utils.models import DigitsCNN

    model = DigitsCNN("batch")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch_size._accuracy_in_batches(model, data.digits().test, 8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_accuracy_is_the_share_of_right_answers():
    class Answers(nn.Module):
        def forward(self, images):
            return nn.functional.one_hot(torch.zeros(len(images), dtype=torch.long), 10).float()

    test = data.digits().test
    zeros = (test.labels == 0).float().mean().item()
    assert batch_size.accuracy(Answers(), test) == pytest.approx(zeros)


def test_gradients_and_sizes_are_given_for_each_layer():
    result = norm_placement.gradients({**TOY["gradient-depth"], "placement": "post"}, nothing)
    assert result["layer"] == [1, 2]
    assert len(result["gradient"]) == len(result["size"]) == 2
    assert (result["first"], result["last"]) == (result["gradient"][0], result["gradient"][-1])
    # a post-norm block ends in a layer norm: the root of the mean square is 1 but for epsilon
    assert result["size"] == pytest.approx([1.0, 1.0], abs=1e-3)


def test_a_power_law_is_recovered_exactly():
    lengths = [10, 20, 40, 80]
    for power in (0.5, 1.0, 2.0):
        assert rnn_time.power_law(lengths, [3 * length**power for length in lengths]) == pytest.approx((power, 1.0))
    noisy_power, fit = rnn_time.power_law(lengths, [1, 3, 3, 9])
    assert 0.5 < noisy_power < 1.5
    assert fit < 0.97


def test_times_are_positive_and_grow():
    cell = {"layer": "LSTM, loop", "repeats": 2, "seed": 0}
    short, long = (rnn_time.run({**cell, "length": length}, nothing)["ms"] for length in (8, 256))
    assert 0 < short < long


def test_every_arm_is_judged_by_its_own_best_rate_chosen_on_another_number():
    rows = Rows(
        [
            {"arm": arm, "lr": lr, "seed": seed, "validation": score + seed, "test": -score}
            for arm, lr, score in (("a", 1, 0.0), ("a", 2, 5.0), ("b", 1, 9.0), ("b", 2, 4.0))
            for seed in (0, 1)
        ]
    )
    best = at_best(rows, "lr", by=("arm",), value="validation")
    assert [(row["arm"], row["lr"], row["seed"]) for row in best] == [
        ("a", 2, 0),
        ("a", 2, 1),
        ("b", 1, 0),
        ("b", 1, 1),
    ]
    lowest = at_best(rows, "lr", by=("arm",), value="validation", lowest=True)
    assert {(row["arm"], row["lr"]) for row in lowest} == {("a", 1), ("b", 2)}


def test_the_rounds_of_a_scan_are_drawn_for_every_length_that_fits():
    for length in range(2, 17):
        labels = [tick.get_text() for tick in plots.scan_rounds(length).axes[0].get_yticklabels()]
        assert len(labels) == 1 + math.ceil(math.log2(length))
    with pytest.raises(ValueError, match="length must be from 2 to 16: got 17"):
        plots.scan_rounds(17)


# -- the form of a record


def record(**changes):
    origin = archive.provenance("toy", "full", 1)
    origin |= {"device": "A Processor", "command": "course train toy", "date": "2026-01-02T03:04:05", "seconds": 1.0}
    content = {"format": archive.FORMAT, "version": archive.VERSION, "provenance": origin, "rows": [{"seed": 0}]}
    return {**content, **changes}


def test_a_record_says_where_and_on_which_day_it_was_made(tmp_path):
    archive.write(record()["provenance"], [{"seed": 0}], tmp_path / "toy.json")
    made = f"`course train toy` on A Processor, torch {torch.__version__}, 2026-01-02"
    assert archive.read(tmp_path / "toy.json").origin == made


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([record()], "`course train` did not write it"),
        (record(version=2), "`course train` did not write it"),
        (record(provenance=["A Processor"]), "'provenance' must be an object"),
        (record(rows={"seed": 0}), "'rows' a list"),
        (record(rows=["seed"]), r"rows\[0\] must be an object with a 'seed'"),
    ],
    ids=["a list", "another version", "provenance", "rows", "a row"],
)
def test_what_has_not_the_form_of_a_record_is_refused_in_words(content, message):
    archive.validate(record())
    with pytest.raises(RecordError, match=message):
        archive.validate(content)


def test_an_unknown_record_is_told_those_there_are(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there are: batch-size, .*, vit-depth$"):
        archive.load("toy")
    monkeypatch.setattr(archive, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match="got 'toy', there are: none"):
        archive.load("toy")
