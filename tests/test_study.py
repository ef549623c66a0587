"""Experiments as data: seeds, progress, resuming after whatever ended a run, records that cannot be edited."""

import json

import pytest
import torch

from course_utils import experiments
from course_utils.experiments import Rows, Spread, Study, archive, command, run_study, study
from course_utils.recorded import RecordError


def toy(run=None, sizes=("reduced", "full")):
    def cells(size):
        return [{"arm": arm, "seed": seed} for arm in ("a", "b") for seed in range(2 if size == "reduced" else 3)]

    def own(cell, progress):
        progress(0.5)
        return {"loss": cell["seed"] + (10.0 if cell["arm"] == "b" else 0.0)}

    return Study("toy", "does the toy run?", cells, run or own, sizes)


def test_every_cell_gives_a_row_of_its_settings_and_its_result():
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


def test_a_field_alone_stands_for_a_tuple_of_it():
    rows = run_study(toy(), progress=False)
    assert rows.mean_and_spread("loss", "arm") == rows.mean_and_spread("loss", ("arm",))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda rows: rows.select(arm="A"), "arm must be one of 'a', 'b': got 'A'"),
        (lambda rows: rows.select(seed="0"), "seed must be one of 0, 1: got '0'"),
        (lambda rows: rows.select(arms="a"), "field must be one of arm, seed, loss: got 'arms'"),
        (lambda rows: rows.values("arms"), "field must be one of arm, seed, loss: got 'arms'"),
        (lambda rows: rows.unfold("step"), "field must be one of arm, seed, loss: got 'step'"),
        (lambda rows: rows.mean_and_spread("los", "arm"), "field must be one of arm, seed, loss: got 'los'"),
        (lambda rows: rows.mean_and_spread("loss", ("ar",)), "field must be one of arm, seed, loss: got 'ar'"),
        (lambda rows: rows.table("loss", "arm", "sed"), "field must be one of arm, seed, loss: got 'sed'"),
    ],
)
def test_fields_and_values_that_no_row_has_are_refused_with_those_there_are(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(run_study(toy(), progress=False))


def test_a_message_lists_a_dozen_values_at_most():
    with pytest.raises(ValueError, match=r"seed must be one of 0, 1, .*, 11, …: got 99$"):
        Rows([{"seed": seed} for seed in range(50)]).select(seed=99)


def test_values_that_never_meet_in_a_row_select_none():
    rows = Rows([{"seed": 0, "arm": "a"}, {"seed": 1, "arm": "b"}]).select(seed=0, arm="b")
    assert list(rows) == list(rows.select(seed=2)) == []


def test_rows_with_lists_unfold_into_one_row_a_place():
    rows = Rows([{"seed": 0, "steps": [0, 10], "loss": [2.0, 1.0]}]).unfold("steps", "loss")
    assert list(rows) == [{"seed": 0, "steps": 0, "loss": 2.0}, {"seed": 0, "steps": 10, "loss": 1.0}]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    calls = []

    def interrupted(cell, progress):
        calls.append((cell["arm"], cell["seed"]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"loss": float(len(calls))}

    out = tmp_path / "toy.json"
    with pytest.raises(KeyboardInterrupt):
        run_study(toy(interrupted), out=out, progress=False)
    assert not out.exists()
    rows = run_study(toy(interrupted), out=out, progress=False)
    assert calls == [("a", 0), ("a", 1), ("b", 0), ("b", 0), ("b", 1)]
    assert [row["loss"] for row in rows] == [1.0, 2.0, 4.0, 5.0]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_what_another_plan_began_is_not_continued(tmp_path):
    out = tmp_path / "toy.json"

    def stops(cell, progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(toy(stops), "reduced", out, progress=False)
    with pytest.raises(RecordError, match=r"toy\.json\.partial was begun with size reduced"):
        run_study(toy(), "full", out, progress=False)


def test_a_run_that_gives_no_finite_number_is_refused_by_name(tmp_path):
    diverged = toy(lambda cell, progress: {"loss": float("nan")})
    with pytest.raises(ValueError, match=r"toy must give finite numbers: got loss=nan for .*'arm': 'a'"):
        run_study(diverged, out=tmp_path / "toy.json", progress=False)


def test_an_edited_record_is_refused(tmp_path):
    out = tmp_path / "toy.json"
    run_study(toy(), out=out, command="course train toy", progress=False)
    assert "`course train toy` on " in archive.read(out).origin
    content = json.loads(out.read_text())
    content["rows"][0]["loss"] = 0.001
    out.write_text(json.dumps(content))
    with pytest.raises(RecordError, match="the checksum does not match"):
        archive.read(out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="course bench"), "`course train` did not write it"),
        (lambda c: c.update(rows=[]), "'rows' a list that is not empty"),
        (lambda c: c["provenance"].pop("torch"), "no 'torch'"),
        (lambda c: c["provenance"].update(date="yesterday"), "'date' that is none"),
        (lambda c: c["rows"][1].pop("seed"), r"rows\[1\] must be an object with a 'seed'"),
        (lambda c: c["rows"][1].update(more=1), r"rows\[1\] has other fields.*more"),
    ],
)
def test_a_record_without_its_parts_is_refused(tmp_path, change, message):
    out = tmp_path / "toy.json"
    run_study(toy(), out=out, progress=False)
    content = json.loads(out.read_text())
    change(content)
    out.write_text(json.dumps(content))
    with pytest.raises(RecordError, match=message):
        archive.read(out)


def test_a_run_leaves_threads_and_the_global_generator_as_they_were():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    seen = []
    run_study(toy(lambda cell, progress: seen.append(torch.get_num_threads()) or {"loss": 0.0}), progress=False)
    assert set(seen) == {1}
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_unknown_sizes_and_studies_are_named():
    with pytest.raises(ValueError, match="size must be one of reduced, full for toy: got 'gpu'"):
        run_study(toy(), "gpu")
    with pytest.raises(ValueError, match=r"study must be a Study, such as find\('lstm-length'\): got 'batch-size'"):
        run_study("batch-size")
    with pytest.raises(ValueError, match=r"name must be one of .*: got 'toy'"):
        experiments.find("toy")
    with pytest.raises(FileNotFoundError, match="must be a recorded experiment: got 'toy'"):
        experiments.load("toy")
    with pytest.raises(ValueError, match="must differ"):
        run_study(Study("toy", "", lambda size: [{"seed": 0}] * 2, lambda cell, progress: {}))


@pytest.mark.parametrize("name", study.STUDIES)
def test_every_study_has_a_record_of_at_least_three_seeds_made_by_its_present_plan(name):
    found, rows = experiments.find(name), experiments.load(name)
    assert found.name == name
    for size in found.sizes:
        assert all("seed" in cell for cell in found.cells(size))
    assert len(rows.values("seed")) >= 3
    cells = found.cells("full")
    assert [{key: row[key] for key in cell} for cell, row in zip(cells, rows, strict=True)] == cells


def test_the_command_writes_a_record_and_says_where(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(study.STUDIES, "toy", f"{__name__}:TOY")
    assert command.main(["toy", "--size", "reduced", "--out", str(tmp_path / "t.json")]) == 0
    assert "4 runs in" in capsys.readouterr().out
    assert command.main(["toy", "--out", str(tmp_path / "no" / "t.json")]) == 2
    assert "--out must be a file in a folder that exists" in capsys.readouterr().err


TOY = toy()


def test_values_that_are_not_finite_show_in_the_mean():
    assert Spread.of([1.0, float("inf")]).mean == float("inf")
    with pytest.raises(ValueError, match="at least one number"):
        Spread.of([])
    assert repr(Rows([{"seed": 0}], "here")) == "1 run (here)"
