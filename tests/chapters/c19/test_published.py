"""What chapter 19 says of published packages: recorded, short, and shown where a package is
installed."""

import pytest

from chapters.c19_other_peoples_code import packages, published

RUNS = published.runs()


def test_enough_layers_are_in_the_tables():
    assert len(published.layers()) >= 50
    assert len({row["package"] for row in published.layers()}) >= 15
    for kind in ("norm", "rotation"):
        table = published.table(kind)
        named = [row for row in published.layers() if row["name"] in str(table)]
        assert len(table.rows) >= 25 <= len(named)
        assert table.rows[0][0]  # a package's first row names it and its version
    assert len(published.table("norm", "RMSNorm").rows) < len(published.table("norm").rows)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["key"])
def test_a_defect_is_a_run_of_at_most_ten_lines_that_was_made(run):
    assert len(run["code"].strip().splitlines()) <= 10
    assert run["printed"].strip()
    assert run["version"][0].isdigit()
    assert run["date"] >= "2026"
    shown = published.defect(run["key"]).data
    assert run["version"] in shown
    assert run["printed"].strip() in shown
    assert run["thread"][1:] in shown  # as it is written: names keep their capitals
    assert "Here, in" not in shown


def test_where_the_package_is_installed_its_run_is_made_here(monkeypatch):
    here = {**RUNS[0], "key": "here", "package": "torch", "code": "print(6 * 7)"}
    broken = {**here, "key": "broken", "code": "1 / 0"}
    monkeypatch.setattr(published, "runs", lambda: [here, broken])
    assert "Here, in" in published.defect("here").data
    assert "```text\n42\n```" in published.defect("here").data
    assert "ZeroDivisionError: division by zero" in published.defect("broken").data


def test_make_packages_says_what_has_changed_and_keeps_what_cannot_run(capsys):
    layer = {"package": "torch", "module": "torch.nn", "make": "RMSNorm(C, eps=1e-6)"}
    layer["shape"] = "3, 5, C"
    row = packages._diagnosed(layer)
    old = {**row, "answers": {**row["answers"], "ε": "1e-05 inside the root"}}
    assert packages._changes(old, row) == ["ε: 1e-06 inside the root, was 1e-05 inside the root"]
    lost = {**RUNS[0], "code": "import no_such_package"}
    assert packages._run_again(lost) is lost
    assert "kept, for it does not run here" in capsys.readouterr().out
    again = packages._run_again({**RUNS[0], "code": "print(1)"})
    assert (again["printed"], again["key"]) == ("1\n", RUNS[0]["key"])
    assert "'1\\n', was" in capsys.readouterr().out
