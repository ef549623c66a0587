"""Experiments: seeds, progress, going on after an interruption; right tasks, and the same from the same seed."""

import math

import pytest
import torch

from chapters import records_of
from chapters import train as command
from chapters.c07_norms_at_work import batch_size, lstm_length, norm_placement
from chapters.contents import FOLDER
from chapters.train import STUDIES
from course_utils import data, experiments
from course_utils.experiments import Difference, Rows, Spread, Study, at_best, paired_difference, run_study, study
from course_utils.experiments.adding_problem import adding_problem
from course_utils.experiments.power_law import power_law
from course_utils.experiments.study import grid


def toy(run=None):
    def own(settings, progress):
        progress(0.5)
        return {"loss": settings["seed"] + (10.0 if settings["arm"] == "b" else 0.0)}

    full, reduced = grid(arm="ab", seed=range(3)), grid(arm="ab", seed=range(2))
    return Study("toy", "does the toy run?", run or own, full, reduced)


def test_every_run_gives_a_row_of_its_settings_and_its_result():
    rows = run_study(toy(), progress=False)
    assert [dict(row) for row in rows] == [
        {"arm": "a", "seed": 0, "loss": 0.0},
        {"arm": "a", "seed": 1, "loss": 1.0},
        {"arm": "b", "seed": 0, "loss": 10.0},
        {"arm": "b", "seed": 1, "loss": 11.0},
    ]
    assert rows.origin == ""


def test_rows_know_mean_standard_deviation_and_extremes_over_seeds():
    rows = run_study(toy(), "full", progress=False)
    assert rows.mean_and_spread("loss", ("arm",)) == {
        "a": Spread(1.0, 1.0, 0.0, 2.0, (0.0, 1.0, 2.0)),
        "b": Spread(11.0, 1.0, 10.0, 12.0, (10.0, 11.0, 12.0)),
    }
    assert set(rows.mean_and_spread("loss", ("arm", "seed"))) == {(arm, seed) for arm in "ab" for seed in range(3)}
    assert len(rows.select(arm="b")) == 3
    assert rows.table("loss", "arm", "seed").cells[1] == ["b", "10", "11", "12"]


def test_rows_with_lists_unfold_into_one_row_a_place():
    rows = Rows([{"seed": 0, "steps": [0, 10], "loss": [2.0, 1.0]}]).unfold("steps", "loss")
    assert list(rows) == [{"seed": 0, "steps": 0, "loss": 2.0}, {"seed": 0, "steps": 10, "loss": 1.0}]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    calls = []

    def interrupted(settings, progress):
        calls.append((settings["arm"], settings["seed"]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"loss": float(len(calls))}

    out = tmp_path / "toy.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_study(toy(interrupted), out=out, progress=False)
    rows = run_study(toy(interrupted), out=out, progress=False)
    assert calls == [("a", 0), ("a", 1), ("b", 0), ("b", 0), ("b", 1)]
    assert [row["loss"] for row in rows] == [1.0, 2.0, 4.0, 5.0]
    assert run_study(toy(interrupted), out=out, progress=False) == rows
    assert len(calls) == 5


def record(name):
    return experiments.read(next(FOLDER.glob(f"c*/recorded/{name}.jsonl")))


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_record_of_at_least_three_seeds_made_by_its_present_plan(name):
    study, rows = STUDIES[name], record(name)
    for plan in (study.reduced, study.full):
        assert len({str(settings) for settings in plan}) == len(plan)
    assert len(rows.values("excerpt" if "excerpt" in rows[0] else "seed")) >= 3
    in_record = [{key: row[key] for key in settings} for settings, row in zip(study.full, rows, strict=True)]
    assert in_record == study.full


def test_every_record_of_the_course_is_that_of_a_study():
    assert {path.stem for path in FOLDER.glob("c*/recorded/*.jsonl")} - {"cpu"} == set(STUDIES)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: run_study(toy(), "gpu"), "size must be one of reduced, full for toy: got 'gpu'"),
        (
            lambda: run_study(STUDIES["long-context"]),
            "size must be full for long-context, which has no reduced",
        ),
        (lambda: ROWS.select(arm="A"), "arm must be one of 'a', 'b': got 'A'"),
        (lambda: ROWS.select(arms="a"), "field must be one of arm, seed, loss: got 'arms'"),
        (lambda: records_of("07")("toy"), "name must be .*: got 'toy', there are: batch-size, .*, vit-depth"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(ask, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ask()


def exit_status(*arguments):
    with pytest.raises(SystemExit) as stopped:
        command.main([*map(str, arguments)])
    return stopped.value.code


def test_the_command_writes_a_record_and_says_where(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(STUDIES, "toy", TOY_STUDY)
    out = tmp_path / "t.jsonl"
    assert command.main(["toy", "--size", "reduced", "--out", str(out)]) == 0
    assert "4 runs in" in capsys.readouterr().out
    made = f"`course train toy --size reduced --out {out}` on "
    assert study.read(out).origin.startswith(made)
    assert f"torch {torch.__version__}, 20" in study.read(out).origin
    assert exit_status("toy", "--out", tmp_path / "no" / "t.jsonl") == 2
    assert "--out must be a file in a folder that exists" in capsys.readouterr().err


def test_what_another_run_began_is_one_line_and_an_interruption_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(STUDIES, "toy", STOPS)
    out = tmp_path / "t.jsonl"
    assert exit_status("toy", "--size", "reduced", "--out", out) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert exit_status("toy", "--size", "full", "--out", out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "t.jsonl was begun with another size: delete it" in line


def stops_at_the_second(settings, progress):
    if settings["seed"]:
        raise KeyboardInterrupt
    return {"loss": 1.0}


TOY_STUDY, STOPS = toy(), toy(stops_at_the_second)
ROWS = run_study(TOY_STUDY, progress=False)


# -- the experiments

TOY = {
    "lstm-length": {"arm": "LN-LSTM", "length": 6, "batch": 4, "lr": 0.01, "steps": 25, "seed": 0},
    "batch-size": {"net": "CNN", "equal": "updates", "norm": "batch", "batch": 2, "updates": 4, "lr": 0.01, "seed": 0},
    "gradient-depth": {"placement": "pre", "depth": 2, "seed": 0},
    "extrapolation": {"encoding": "rope", "lag": 1, "steps": 3, "tested": 16, "multiples": [1], "seed": 0},
    "qk-norm": {"qk_norm": True, "lr": 0.01, "norm": "layer norm", "depth": 1, "steps": 3, "seed": 0},
    "vit-depth": {"placement": "post", "depth": 1, "lr": 0.001, "warm_up": 2, "updates": 3, "seed": 0},
}  # fmt: skip


def nothing(fraction):
    assert 0 <= fraction <= 1


@pytest.mark.parametrize("name", TOY)
def test_a_seed_gives_the_same_result_whatever_the_global_state(name):
    study, results = STUDIES[name], []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        results.append(study.run(dict(TOY[name]), nothing))
        assert torch.initial_seed() == global_seed
    assert results[0] == results[1]
    assert study.run({**TOY[name], "seed": 1}, nothing) != results[0]


def test_equal_epochs_see_the_same_images_and_equal_updates_step_as_often():
    plan = STUDIES["batch-size"].full
    assert len(data.digits().train.labels) == batch_size.IMAGES
    assert len({settings["updates"] for settings in plan if settings["equal"] == "updates"}) == 1
    images = {settings["updates"] * settings["batch"] for settings in plan if settings["equal"] == "epochs"}
    assert max(images) - min(images) <= 2 * batch_size.EPOCHS * 64  # what is left of an epoch is dropped


def test_the_adding_problem_asks_for_the_sum_of_the_two_marked_numbers():
    x, target = adding_problem(200, 9, torch.Generator().manual_seed(0))
    numbers, marks = x.unbind(-1)
    assert torch.equal(marks.sum(dim=1), torch.full((200,), 2.0))
    assert torch.equal(marks[:, :4].sum(dim=1), torch.ones(200))
    torch.testing.assert_close((numbers * marks).sum(dim=1), target)
    assert marks.sum(dim=0).min() > 0


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


@pytest.mark.parametrize(
    ("name", "field", "same", "other"), [("lstm-length", "gamma", 1.0, 2.0), ("vit-depth", "init", "torch", "Xavier")]
)
def test_a_first_size_of_the_weights_changes_the_run_and_the_usual_one_does_not(name, field, same, other):
    run = STUDIES[name].run
    usual = run(dict(TOY[name]), nothing)
    assert run({**TOY[name], field: same}, nothing) == usual
    assert run({**TOY[name], field: other}, nothing) != usual


def test_a_power_law_is_recovered_exactly():
    lengths = [10, 20, 40, 80]
    for power in (0.5, 1.0, 2.0):
        assert power_law(lengths, [3 * length**power for length in lengths]) == pytest.approx((power, 1.0))
    noisy_power, fit = power_law(lengths, [1, 3, 3, 9])
    assert 0.5 < noisy_power < 1.5
    assert fit < 0.97


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


def test_of_rates_that_are_level_the_middle_one_is_taken():
    right = {"a": (706, 707, 707, 707, 679), "b": (705, 704, 703, 699, 447), "c": (683, 703, 700, 705, 686)}
    rows = Rows(
        {"arm": name, "lr": lr, "seed": 0, "validation": images / 720}
        for name, counts in right.items()
        for lr, images in zip((5, 4, 3, 2, 1), counts[::-1], strict=True)
    )
    level = at_best(rows, "lr", by=("arm",), value="validation", level=3 / 720)
    assert [row["lr"] for row in level] == [2, 2, 2]  # of 1 to 4, of 1 to 3, of 2 and 4
    exact = at_best(rows, "lr", by=("arm",), value="validation", level=0.0)
    assert [row["lr"] for row in exact] == [3, 1, 4]


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
        for (chosen_net, chosen_words, batch), chosen in batch_size.CHOSEN.items():
            if (chosen_net, chosen_words) == (net, words):
                assert chosen == {norm: rates[batch, norm] for norm in chosen}


def arm(values, start=0):
    return Rows([{"seed": seed, "loss": value} for seed, value in enumerate(values, start)])


def test_a_difference_is_taken_seed_by_seed_with_its_own_standard_error():
    # both arms spread by 100, and differ by 1, 2 and 3: s = 1, over the root of 3
    one, other = arm([1.0, 102.0, 203.0]), arm([0.0, 100.0, 200.0])
    found = paired_difference(one, Rows(reversed(other)), "loss")
    assert (found.mean, found.values) == (2.0, (1.0, 2.0, 3.0))
    assert found.error == pytest.approx(1 / 3**0.5)
    assert found.t == pytest.approx(2 * 3**0.5)
    assert not found.decided  # 3.46 of 4.30
    assert repr(found) == "2 ± 0.6: t = 3.5 of 4.3, undecided"
    assert paired_difference(other, one, "loss").mean == -2.0
    assert Difference.of([1.0, 2.0, 3.0, 2.0]).decided  # 4.9 of 3.2


@pytest.mark.parametrize(("values", "decided"), [([1.0], False), ([1.0, 1.0], True), ([0.0, 0.0], False)])
def test_one_seed_decides_nothing_and_equal_differences_all(values, decided):
    assert Difference.of(values).decided is decided


def test_runs_are_paired_in_several_fields_and_refused_where_they_are_no_pairs():
    one, other = (Rows([{"batch": b, **row} for b in (16, 64) for row in arm(v)]) for v in ([1.0, 2.0], [0.0, 0.0]))
    assert paired_difference(one, other, "loss", by=("batch", "seed")).values == (1.0, 2.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="one must have one run for each seed: got 4 for 2"):
        paired_difference(one, other, "loss")
    with pytest.raises(ValueError, match="must have the same seed"):
        paired_difference(arm([1.0, 2.0]), arm([1.0, 2.0], start=1), "loss")
    with pytest.raises(ValueError, match="must have the same seed"):
        paired_difference(Rows([]), Rows([]), "loss")


@pytest.mark.parametrize("seeds", [2, 3, 10, 11, 31])
def test_chance_alone_is_called_a_difference_once_in_twenty_times(seeds):
    rng = torch.Generator().manual_seed(seeds)
    draws = torch.randn(200_000, seeds, generator=rng, dtype=torch.float64)
    t = draws.mean(1).abs() / (draws.std(1) / seeds**0.5)
    needed = Difference.of([float(k) for k in range(seeds)]).t_needed
    assert (t > needed).double().mean().item() == pytest.approx(0.05, abs=2e-3)  # four standard errors of the share
