"""Records: a run is there as soon as it ends, what was cut short is no run, and another origin is
refused."""

import pytest

from course_utils import runs
from course_utils.runs import RecordError

ORIGIN = {"device": "abacus", "sizes": (1, 2), "command": "make it", "date": "2026-01-01"}


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "mine.jsonl"
    assert runs.begin(path, ORIGIN) == []
    runs.append(path, {"seed": 0, "loss": float("nan")})
    runs.append(path, {"seed": 1, "name": "×2"})
    return path


def test_a_line_that_was_cut_short_is_no_run_and_the_next_one_begins_a_line_of_its_own(record):
    record.write_bytes(record.read_bytes()[:-4])
    (first,) = runs.begin(record, ORIGIN)
    assert first["seed"] == 0
    assert first["loss"] != first["loss"]
    runs.append(record, {"seed": 2})
    assert [run["seed"] for run in runs.read(record)[1]] == [0, 2]


def test_what_another_machine_began_is_refused_by_what_differs_and_another_day_goes_on(record):
    with pytest.raises(
        RecordError, match=r"^mine\.jsonl was begun with another device, sizes: delete it or choose"
    ):
        runs.begin(record, {**ORIGIN, "device": "slide rule", "sizes": (1, 3)})
    assert len(runs.begin(record, {**ORIGIN, "command": "go on", "date": "2026-01-02"})) == 2
    assert runs.read(record)[0]["command"] == "make it"


@pytest.mark.parametrize("text", ["[1, 2]", '{"seed": 0}', '{"provenance": {', "", "3"])
def test_a_damaged_record_is_one_line_that_names_it(record, text):
    record.write_text(text)
    for use in (runs.read, lambda path: runs.begin(path, ORIGIN)):
        with pytest.raises(RecordError, match=r"^mine\.jsonl is damaged.*$"):
            use(record)


def test_an_error_while_writing_leaves_the_old_file(record):
    before = record.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        runs.write(record, ORIGIN, [{"seed": object()}])
    assert record.read_bytes() == before
