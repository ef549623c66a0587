"""Experiments: a row for every run, seeds, and going on after an interruption."""

import pytest
from studies import toy

from course_utils.experiments import Spread, run_study


def test_rows_know_mean_standard_deviation_and_extremes_over_seeds():
    rows = run_study(toy(), "full", progress=False)
    assert rows.mean_and_spread("loss", ("arm",)) == {
        "a": Spread(1.0, 1.0, 0.0, 2.0, (0.0, 1.0, 2.0)),
        "b": Spread(11.0, 1.0, 10.0, 12.0, (10.0, 11.0, 12.0)),
    }
    assert set(rows.mean_and_spread("loss", ("arm", "seed"))) == {
        (arm, seed) for arm in "ab" for seed in range(3)
    }
    assert len(rows.select(arm="b")) == 3
    assert rows.table("loss", "arm", "seed").cells[1] == ["b", "10", "11", "12"]


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
