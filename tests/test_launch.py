"""Starting processes from a notebook or a test: what comes back, and what is said when one of them dies."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import distributed_programs as programs
import pytest

from course_utils import launch as launching
from course_utils.launch import RanksFailed, launch

CONTACT = r"LostContact: SyncBatchNorm was {} with 1 other rank when one of them died, raised an error, or did not get"


def test_two_launches_side_by_side_use_two_ports_and_one_thread_a_rank():
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: launch(programs.port_and_rank, 2), range(2))
    for ranks in (first, second):
        assert [rank for _, rank, _, _ in ranks] == [0, 1]
        assert {(threads, variable) for _, _, threads, variable in ranks} == {(1, "1")}
    assert first[0][0] != second[0][0]


@pytest.mark.parametrize(
    ("program", "arguments", "messages"),
    [
        (
            programs.one_rank_is_killed,
            {"backward": False},
            [r"rank 1: died without a word \(killed by SIGKILL\)", CONTACT.format("exchanging statistics")],
        ),
        (
            programs.one_rank_is_killed,
            {"backward": True},
            [r"rank 1: died without a word \(killed by SIGKILL\)", CONTACT.format("adding up gradients")],
        ),
        (programs.one_rank_raises, {}, ["rank 0: KeyError: 'label'", CONTACT.format("exchanging statistics")]),
    ],
    ids=["killed before forward", "killed before backward", "raises"],
)
def test_a_rank_that_dies_ends_the_run_at_once_and_is_named_first(program, arguments, messages):
    start = time.monotonic()
    with pytest.raises(RanksFailed) as failed:
        launch(program, 2, timeout_s=60, limit_s=60, **arguments)
    assert time.monotonic() - start < 60  # the others do not wait for the collective's timeout
    heading, first, *others = str(failed.value).splitlines()
    assert re.match(r"\d of 2 ranks failed", heading)
    assert re.match(messages[0], first)
    for other in others:  # torchrun may have stopped it before it could say so
        assert re.search(messages[1], other)


def test_a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout():
    with pytest.raises(RanksFailed, match=CONTACT.format("exchanging statistics")):
        launch(programs.one_rank_comes_late, 2, timeout_s=2)


def test_a_run_that_does_not_end_is_ended_at_the_limit_with_no_process_left(tmp_path):
    with pytest.raises(RanksFailed, match=r"still running after 25 s, in File .*distributed_programs.*never_ends"):
        launch(programs.never_ends, 2, limit_s=25, folder=str(tmp_path))
    left = [int(path.name) for path in tmp_path.iterdir()]
    assert len(left) == 2
    for process in left:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_function_of_a_notebook_is_sent_as_its_source(tmp_path, monkeypatch):
    def outer():
        return None

    monkeypatch.setattr(programs.port_and_rank, "__module__", "__main__")
    assert launching._where_to_find(programs.port_and_rank, tmp_path) == {"module": "", "name": "port_and_rank"}
    module = launching._module("", tmp_path)
    assert module.port_and_rank.__code__.co_names == programs.port_and_rank.__code__.co_names
    with pytest.raises(ValueError, match="outside of any other"):
        launch(outer, 2)


def test_ranks_that_never_began_leave_torchruns_own_words(monkeypatch):
    monkeypatch.setattr(
        launching, "command", lambda ranks, folder: ["python3", "-c", "print('no such module'); exit(2)"]
    )
    with pytest.raises(RanksFailed, match="no rank began:\nno such module"):
        launch(programs.port_and_rank, 2)


@pytest.mark.parametrize(
    ("ranks", "times", "message"),
    [
        (0, {}, "ranks must be a whole number of at least 1: got 0"),
        (2.0, {}, "ranks must be a whole number of at least 1: got 2.0"),
        (2, {"limit_s": 0}, "limit_s must be above 0: got 0"),
        (2, {"timeout_s": -1.0}, "timeout_s must be above 0: got -1.0"),
    ],
)
def test_an_impossible_argument_starts_no_process(ranks, times, message):
    with pytest.raises(ValueError, match=message):
        launch(programs.port_and_rank, ranks, **times)
