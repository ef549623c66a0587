"""Progress is kept where it can be, survives what happens to files, and never stands in a learner's way."""

import json
import multiprocessing
import os
import stat
from datetime import date
from pathlib import Path

import pytest

from course_utils.book import progress

TODAY = date.today().isoformat()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "progress"))
    progress._in_memory.clear()
    yield tmp_path / "progress"
    progress._in_memory.clear()


def test_a_pass_is_kept_with_its_date_and_an_attempt_is_no_pass(folder):
    assert progress.passed() == progress.attempted() == {}
    assert not folder.exists()  # looking leaves no trace
    progress.record("layer_norm", False)
    progress.record("rms_norm", True)
    assert progress.passed() == {"rms_norm": TODAY}
    assert progress.attempted() == {"layer_norm": TODAY, "rms_norm": TODAY}
    assert json.loads((folder / "progress.json").read_text())["rms_norm"]["passed"] == TODAY


def test_what_was_once_passed_stays_passed_with_its_first_date(folder):
    folder.mkdir()
    (folder / "progress.json").write_text('{"layer_norm": {"attempted": "2024-01-01", "passed": "2024-01-02"}}')
    progress.record("layer_norm", False)
    progress.record("layer_norm", True)
    assert progress.passed() == {"layer_norm": "2024-01-02"}
    assert progress.attempted() == {"layer_norm": "2024-01-01"}


def test_reset_forgets_everything(folder):
    progress.record("layer_norm", True)
    progress.reset()
    assert progress.passed() == {}
    assert not (folder / "progress.json").exists()


@pytest.mark.parametrize(
    "content", ["{", "", "[1, 2]", "\x00\xff", '{"rms_norm": {"attempted": "2024-01-01"}, "layer_norm": 3}']
)
def test_a_damaged_file_is_set_aside_and_named(folder, content):
    folder.mkdir()
    (folder / "progress.json").write_bytes(content.encode("latin-1"))
    (folder / "progress.damaged-1.json").write_text("an older one")
    with pytest.warns(UserWarning, match="progress.damaged-2.json"):
        progress.record("layer_norm", True)
    assert progress.passed() == {"layer_norm": TODAY}
    assert (folder / "progress.damaged-2.json").read_bytes() == content.encode("latin-1")
    assert (folder / "progress.damaged-1.json").read_text() == "an older one"


def test_without_a_writable_directory_progress_lasts_as_long_as_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "file" / "progress"))
    assert not progress.is_writable()
    progress.record("layer_norm", True)
    progress.record("rms_norm", False)
    assert progress.passed() == {"layer_norm": TODAY}
    assert progress.attempted() == {"layer_norm": TODAY, "rms_norm": TODAY}

    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "found"))
    progress.record("group_norm", True)
    kept = json.loads((tmp_path / "found" / "progress.json").read_text())
    assert sorted(kept) == ["group_norm", "layer_norm", "rms_norm"]


def test_a_file_that_cannot_be_replaced_does_not_stop_the_course(folder, monkeypatch):
    def refuse(source, target):
        assert Path(source).parent == folder  # from another file system it could not be put in place in one step
        raise PermissionError

    progress.record("layer_norm", True)
    monkeypatch.setattr(os, "replace", refuse)
    progress.record("rms_norm", True)
    assert progress.passed() == {"layer_norm": TODAY, "rms_norm": TODAY}
    assert sorted(path.name for path in folder.iterdir()) == ["progress.json", "progress.lock"]


def test_the_file_is_for_the_learner_only(folder):
    progress.record("layer_norm", True)
    assert not (folder / "progress.json").stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _record_many(worker):
    for number in range(25):
        progress.record(f"exercise-{worker}-{number}", True)


def test_two_kernels_that_record_at_once_lose_nothing():
    workers = [multiprocessing.get_context("fork").Process(target=_record_many, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert len(progress.passed()) == 100
