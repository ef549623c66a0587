"""Work in pieces: what is kept, and what is done anew."""

from threading import Event

from course_utils import runs
from tools.pieces import in_pieces


def test_what_was_done_is_kept_and_a_line_of_another_version_is_done_anew(tmp_path):
    record, provenance = tmp_path / "runs.jsonl", {"device": "a machine"}
    runs.begin(record, provenance)
    runs.append(record, {"key": "kept", "result": {"red": 0}})
    runs.append(record, {"key": "older", "red": 0})
    tasks = {"kept": lambda: 1 / 0, "older": lambda: {"red": 1}}
    done = in_pieces(tasks, record, provenance, 1, Event())
    assert done == {"kept": {"red": 0}, "older": {"red": 1}}
