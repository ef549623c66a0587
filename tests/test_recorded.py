"""Records: what is refused and in which words, what is written, and what those that come with the course hold."""

import copy
import json
import os

import pytest

from course_utils import recorded
from course_utils.recorded import RecordError
from course_utils.recorded.journal import Journal


def result(implementation="built-in", **changes):
    values = {
        "operation": "layer_norm",
        "direction": "forward",
        "shape": [4096, 1024],
        "dtype": "float32",
        "implementation": implementation,
        "errors": {"y": 6e-8},
        "tolerances": {"y": 1e-5},
        "bytes_moved": 40_000_000,
        "median_ms": 2.0,
        "p10_ms": 1.5,
        "range_ms": [0.5, 10.0],
        "runs": 30,
        "launch_ms": None,
        "copy_gbps": 40.0,
        "session": 0,
    }
    return {**values, **changes}


def content(*results, **changes):
    values = {
        "provenance": {
            "device": "A Processor",
            "device_type": "cpu",
            "driver": None,
            "processes": 1,
            "threads": 2,
            "allocator": "the system's",
            "platform": "Linux x86_64",
            "python": "3.11.2",
            "torch": "2.13.0",
            "triton": None,
            "peers": {},
            "course": "0.1.0",
            "command": "course bench --device cpu --out here.json",
            "seed": 0,
            "quick": False,
        },
        "sessions": [{"date": "2026-01-02T03:04:05+00:00", "copy_gbps": {"float32": 50.0}}],
        "results": list(results) or [result()],
        "left_out": [],
    }
    return {**values, **changes}


@pytest.fixture
def path(tmp_path):
    recorded.write(content(result(), result("compiled", median_ms=1.0, p10_ms=1.0)), tmp_path / "mine.json")
    return tmp_path / "mine.json"


def edited(path, edit):
    """Write the record at ``path`` again after ``edit``, as someone with an editor would."""
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    return path


# -- reading


def test_what_was_written_is_read_back(path):
    record = recorded.read(path)
    assert record.name == "mine"
    assert record.provenance["device"] == "A Processor"
    assert [r["implementation"] for r in record.results] == ["built-in", "compiled"]
    assert record.origin == "A Processor (torch 2.13.0, 2026-01-02)"
    assert recorded.read(str(path)) == record


def test_the_driver_of_a_gpu_is_part_of_where_it_was_measured(tmp_path):
    provenance = {**content()["provenance"], "device": "A GPU", "driver": "570.1"}
    recorded.write(content(provenance=provenance), str(tmp_path / "mine.json"))
    assert recorded.read(tmp_path / "mine.json").origin == "A GPU (torch 2.13.0, driver 570.1, 2026-01-02)"


def test_a_result_without_any_error_is_sound(tmp_path):
    recorded.write(content(result(errors={"y": 0.0}, tolerances={"y": 0.0})), tmp_path / "mine.json")
    assert recorded.read(tmp_path / "mine.json").table().rows[0][-1] == 0.0


@pytest.mark.parametrize(
    ("where", "key"),
    [
        (lambda data: data, "results"),
        (lambda data: data, "checksum"),
        (lambda data: data["provenance"], "driver"),
        (lambda data: data["provenance"], "command"),
        (lambda data: data["sessions"][0], "copy_gbps"),
        (lambda data: data["results"][1], "p10_ms"),
        (lambda data: data["results"][0], "errors"),
    ],
)
def test_a_missing_key_is_named(path, where, key):
    edited(path, lambda data: where(data).pop(key))
    with pytest.raises(RecordError, match=f"mine.json is no sound record: .* lacks '{key}'"):
        recorded.read(path)


def test_a_figure_that_was_changed_is_noticed(path):
    edited(path, lambda data: data["results"][1].update(median_ms=1.0000001))
    with pytest.raises(RecordError, match="figures are not those that were measured"):
        recorded.read(path)


def test_a_result_that_was_removed_is_noticed(path):
    edited(path, lambda data: data["results"].pop())
    with pytest.raises(RecordError, match="figures are not those that were measured"):
        recorded.read(path)


def test_another_version_of_the_form_is_told_apart(path):
    edited(path, lambda data: data.update(version=7))
    with pytest.raises(RecordError, match="'version' must be 2: got 7"):
        recorded.read(path)


def test_a_file_of_another_kind_is_told_apart(path):
    path.write_text('{"cells": []}')
    with pytest.raises(RecordError, match="'format' must be 'course bench'"):
        recorded.read(path)
    path.write_text("[1, 2]")
    with pytest.raises(RecordError, match="'format' must be 'course bench'"):
        recorded.read(path)


def test_a_file_that_ends_in_the_middle_is_no_json(path):
    path.write_text(path.read_text()[:200])
    with pytest.raises(RecordError, match=r"mine\.json is no JSON"):
        recorded.read(path)


# -- writing


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (result(errors={"y": 1e-4}), "its check failed .built-in, layer_norm .4096, 1024. float32.: error of y 0.0001"),
        (result(errors={"y": float("nan")}), "its check failed"),
        (result(errors={"y": "small"}), "its check failed"),
        (result(tolerances={"y": None}), "its check failed"),
        (result(errors={}, tolerances={}), "at least one"),
        (result(errors={"y": 0.0, "dx": 0.0}), "must have the same names"),
        (result(median_ms=0.0), "median_ms must be a positive number: got 0.0"),
        (result(p10_ms=float("inf")), "p10_ms must be a positive number: got inf"),
        (result(runs=True), "has a 'runs' of the wrong kind: got True"),
        (result(launch_ms=-1.0), "launch_ms must be a positive number"),
        (result(p10_ms=3.0), "p10_ms 3.0 is above median_ms 2.0"),
        (result(range_ms=[0.5, 1.5]), r"median_ms 2.0 lies outside range_ms \[0.5, 1.5\]"),
        (result(range_ms=[2.5, 3.0]), r"median_ms 2.0 lies outside range_ms \[2.5, 3.0\]"),
        (result(range_ms=[2.0]), r"range_ms must be two times: got \[2.0\]"),
        (result(range_ms=[0.0, 3.0]), "range_ms must be a positive number: got 0.0"),
        (result(range_ms=["1", 3.0]), "range_ms must be a positive number: got '1'"),
        (result(session=1), "session 1 is not among the 1 of the record"),
        (result(dtype="bfloat16"), "its session has no copy bandwidth for bfloat16"),
        (result(shape=(4096, 1024)), "has a 'shape' of the wrong kind"),
    ],
)
def test_a_record_that_fails_a_check_is_not_written(tmp_path, bad, message):
    with pytest.raises(RecordError, match=message):
        recorded.write(content(result("compiled"), bad), tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_record_leaves_the_one_that_was_there(path):
    before = path.read_bytes()
    with pytest.raises(RecordError, match="its check failed"):
        recorded.write(content(result(errors={"y": 1.0})), path)
    assert path.read_bytes() == before


def test_the_same_measurement_twice_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"results\[1\] is there twice"):
        recorded.write(content(result(), result(median_ms=9.0)), tmp_path / "mine.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": []}, "must not be empty"),
        ({"sessions": []}, "must not be empty"),
        (
            {"sessions": [{"date": "yesterday", "copy_gbps": {"float32": 1.0}}]},
            "a 'date' that is none: got 'yesterday'",
        ),
        (
            {"sessions": [{"date": "2026-01-02", "copy_gbps": {"float32": 0}}]},
            "copy_gbps of float32 must be a positive",
        ),
        *(
            (
                {"sessions": [{"date": "2026-01-02", "copy_gbps": {"float32": gbps}}]},
                f"copy_gbps of float32 must be a positive number: got {gbps!r}",
            )
            for gbps in ("fast", True)
        ),
        ({"left_out": [{"operation": "rope"}]}, r"left_out\[0\] lacks 'direction'"),
        ({"provenance": {**content()["provenance"], "threads": "two"}}, "provenance has a 'threads' of the wrong kind"),
        ({"results": ["fast"]}, r"results\[0\] must be an object: got str"),
    ],
)
def test_an_impossible_part_is_named(tmp_path, changes, message):
    with pytest.raises(RecordError, match=message):
        recorded.write(content(**changes), tmp_path / "mine.json")


def test_a_number_that_json_does_not_have_is_refused_wherever_it_stands(tmp_path):
    provenance = {**content()["provenance"], "peers": {"liger": float("nan")}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        recorded.write(content(provenance=provenance), tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []


# -- using


def test_results_are_selected_by_their_fields(path):
    record = recorded.read(path)
    assert [r["median_ms"] for r in record.select(implementation="compiled", shape=(4096, 1024))] == [1.0]
    assert list(record.select(dtype="float16")) == []
    with pytest.raises(ValueError, match=r"fields must be among operation, .* got features"):
        record.select(features=1024)


def test_the_table_shows_the_largest_error_and_the_share_in_whole_per_cent(tmp_path):
    errors, tolerances = {"y": 2e-7, "dx": 5e-7}, {"y": 1e-5, "dx": 1e-5}
    recorded.write(content(result(errors=errors, tolerances=tolerances, copy_gbps=20.5)), tmp_path / "mine.json")
    assert recorded.read(tmp_path / "mine.json").table().rows[0][-2:] == (98, 5e-7)  # 20 of 20.5 GB/s


def test_the_table_shows_each_result_beside_the_copy_of_its_own_rounds(path):
    table = recorded.read(path).table(implementation="built-in")
    assert table.caption == "mine: measured on A Processor (torch 2.13.0, 2026-01-02)"
    ((case, implementation, median, between, p10, gbps, share, error),) = table.rows
    assert (case, implementation) == ("layer_norm (4096, 1024) float32 forward", "built-in")
    assert (median, between, p10, gbps, share, error) == (2.0, "", 1.5, 20.0, 50, 6e-8)


def test_the_table_of_several_processes_shows_between_which_times_they_lay(tmp_path):
    provenance = {**content()["provenance"], "processes": 3}
    recorded.write(content(provenance=provenance), tmp_path / "mine.json")
    ((_, _, median, between, *_),) = recorded.read(tmp_path / "mine.json").table().rows
    assert (median, between) == (2.0, "0.5 to 10")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"operation": "layernorm"}, "operation must be one of 'layer_norm': got 'layernorm'"),
        ({"implementation": "fast"}, "implementation must be one of 'built-in', 'compiled': got 'fast'"),
        ({"shape": (1, 2)}, r"shape must be one of \[4096, 1024\]: got \[1, 2\]"),
    ],
)
def test_a_table_of_what_no_result_has_is_refused_with_what_there_is(path, wanted, message):
    with pytest.raises(ValueError, match=message):
        recorded.read(path).table(**wanted)


def test_of_many_values_a_dozen_are_listed(tmp_path):
    recorded.write(content(*(result(shape=[n, 8]) for n in range(1, 14))), tmp_path / "mine.json")
    with pytest.raises(ValueError, match=r"\[11, 8\], \[12, 8\], …: got \[0, 8\]"):
        recorded.read(tmp_path / "mine.json").table(shape=(0, 8))
    recorded.write(content(*(result(shape=[n, 8]) for n in range(1, 13))), tmp_path / "mine.json")
    with pytest.raises(ValueError, match=r"\[12, 8\]: got \[0, 8\]"):
        recorded.read(tmp_path / "mine.json").table(shape=(0, 8))


def test_every_record_that_comes_with_the_course_is_sound():
    for name in recorded.available():
        record = recorded.load(name)
        assert record.results
        assert not record.provenance["quick"]


def test_an_unknown_name_lists_those_there_are(monkeypatch, path):
    monkeypatch.setattr(recorded, "FOLDER", path.parent)
    with pytest.raises(FileNotFoundError, match="got 'norms_h300', there are: mine"):
        recorded.load("norms_h300")
    monkeypatch.setattr(recorded, "FOLDER", path.parent / "empty")
    with pytest.raises(FileNotFoundError, match="there are: none"):
        recorded.load("mine")


def test_what_is_recorded_is_said_and_what_is_not_is_said_as_plainly(monkeypatch, path):
    monkeypatch.setattr(recorded, "FOLDER", path.parent)
    assert recorded.available() == recorded.available("cpu") == ["mine"]
    assert recorded.available("cuda") == []
    assert recorded.describe("cpu") == "Recorded: mine, measured on A Processor (torch 2.13.0, 2026-01-02)."
    assert recorded.describe("cuda") == (
        "No result of a GPU is recorded in this copy of the course. "
        "`course bench --device cuda --out FILE` measures one where there is such a device."
    )


# -- the journal

PLAN = {"device": "A Processor", "cases": ["one", "two"]}


def test_a_journal_goes_on_where_it_stopped(tmp_path):
    Journal(tmp_path / "j", PLAN).append({"case": "one"})
    again = Journal(tmp_path / "j", copy.deepcopy(PLAN))
    assert again.entries == [{"case": "one"}]
    again.append({"case": "two"})
    assert again.entries == Journal(tmp_path / "j", PLAN).entries == [{"case": "one"}, {"case": "two"}]
    assert Journal(tmp_path / "j", {**PLAN, "cases": ("one", "two")}).entries == again.entries  # as in the file
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_is_appended_is_on_disk_at_once(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    journal, sizes = Journal(tmp_path / "j", PLAN), []
    for case in ("one", "two"):
        journal.append({"case": case})
        sizes.append((tmp_path / "j").stat().st_size)
    assert synced[-2:] == sizes


@pytest.mark.parametrize("kept", range(1, 14))
def test_a_line_that_was_being_written_is_dropped_wherever_it_broke(tmp_path, kept):
    journal = Journal(tmp_path / "j", PLAN)
    journal.append({"case": "one"})
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole + b'{"case": "two"}\n'[:kept])

    again = Journal(tmp_path / "j", PLAN)
    assert again.entries == [{"case": "one"}]
    again.append({"case": "two"})
    assert Journal(tmp_path / "j", PLAN).entries == [{"case": "one"}, {"case": "two"}]


def test_a_journal_that_broke_in_its_first_line_starts_anew(tmp_path):
    (tmp_path / "j").write_text('{"device": "A Pro')
    assert Journal(tmp_path / "j", PLAN).entries == []
    assert Journal(tmp_path / "j", PLAN).entries == []


def test_a_journal_of_another_run_is_refused_with_what_differs(tmp_path):
    Journal(tmp_path / "j", PLAN).append({"case": "one"})
    with pytest.raises(RecordError, match="j was begun with device A Processor: delete it or choose another file"):
        Journal(tmp_path / "j", {**PLAN, "device": "Another"})
    with pytest.raises(RecordError, match="is no journal of this command"):
        Journal(tmp_path / "j", {"device": "A Processor"})
    Journal(tmp_path / "long", {"cases": [80 * "x"]})
    with pytest.raises(RecordError, match="long was begun with cases another: delete it"):
        Journal(tmp_path / "long", {"cases": []})


def test_a_file_that_is_no_journal_is_left_alone(tmp_path):
    (tmp_path / "j").write_text("my notes\n")
    with pytest.raises(RecordError, match="j is no journal of a run"):
        Journal(tmp_path / "j", PLAN)
    assert (tmp_path / "j").read_text() == "my notes\n"
    (tmp_path / "j").write_text("3\n")  # a line of JSON, and yet no plan
    with pytest.raises(RecordError, match="j is no journal of this command"):
        Journal(tmp_path / "j", PLAN)
