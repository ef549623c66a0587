"""Every study of the course: its record, the same result from the same seed, and `course train`."""

import pytest
import torch
from studies import TOY, nothing, record, toy

from chapters import records_of
from chapters import train as command
from chapters.contents import FOLDER
from chapters.train import STUDIES
from course_utils.experiments import run_study, study


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_record_of_some_seeds_made_by_its_present_plan(name):
    study, rows = STUDIES[name], record(name)
    for plan in (study.reduced, study.full):
        assert len({str(settings) for settings in plan}) == len(plan)
    least = 2 if name == "without-norms" else 3  # which chooses the rates for without-seeds
    assert len(rows.values("excerpt" if "excerpt" in rows[0] else "seed")) >= least
    in_record = [
        {key: row[key] for key in settings} for settings, row in zip(study.full, rows, strict=True)
    ]
    assert in_record == study.full


def test_every_record_of_the_course_is_that_of_a_study():
    recorded = {path.stem for path in FOLDER.glob("c*/recorded/*.jsonl")}
    assert recorded - {"cpu", "h100"} == set(STUDIES)


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
        (
            lambda: records_of("08")("toy"),
            "name must be .*: got 'toy', there are: batch-size, .*, vit-depth",
        ),
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


def test_what_another_run_began_is_one_line_and_an_interruption_says_how_to_go_on(
    tmp_path, capsys, monkeypatch
):
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


@pytest.mark.parametrize("name", TOY)
def test_a_seed_gives_the_same_result_whatever_the_global_state(name):
    study, results = STUDIES[name], []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        results.append(study.run(dict(TOY[name]), nothing))
        assert torch.initial_seed() == global_seed
    assert results[0] == results[1]
    assert study.run({**TOY[name], "seed": 1}, nothing) != results[0]


@pytest.mark.parametrize(
    ("name", "field", "same", "other"),
    [("lstm-length", "gamma", 1.0, 2.0), ("vit-depth", "init", "torch", "Xavier")],
)
def test_a_first_size_of_the_weights_changes_the_run_and_the_usual_one_does_not(
    name, field, same, other
):
    run = STUDIES[name].run
    usual = run(dict(TOY[name]), nothing)
    assert run({**TOY[name], field: same}, nothing) == usual
    assert run({**TOY[name], field: other}, nothing) != usual
