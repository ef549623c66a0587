"""Starting processes from a notebook or a test: what comes back, and what is said when one of them dies."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import distributed_programs as programs
import pytest

from course_utils.parallel import processes as launching
from course_utils.parallel.processes import RanksFailed, launch

CONTACT = r"LostContact: SyncBatchNorm was {} with 1 other rank when one of them died, raised an error, or did not get"


# Every rank takes the connections of the others late, which a busy machine does now and then.
LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include <sys/socket.h>

int accept(int listener, struct sockaddr *address, socklen_t *length) {
    int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    usleep(1500000);
    return real(listener, address, length);
}
"""


@pytest.fixture
def joining_late(tmp_path, monkeypatch):
    """The ranks of this test are slow to join one another, where there is a C compiler to arrange it."""
    source, library = tmp_path / "late.c", tmp_path / "late.so"
    source.write_text(LATE)
    if sys.platform == "linux" and (compiler := shutil.which("cc")):
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        monkeypatch.setenv("LD_PRELOAD", str(library))


@pytest.mark.usefixtures("joining_late")
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


def test_a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout(tmp_path):
    with pytest.raises(RanksFailed, match=CONTACT.format("exchanging statistics")):
        launch(programs.one_rank_comes_late, 2, timeout_s=2, folder=str(tmp_path))
    assert not (tmp_path / "came").exists()


def test_a_run_that_does_not_end_is_ended_at_the_limit_with_no_process_left(tmp_path):
    start = time.monotonic()
    with pytest.raises(RanksFailed, match=r"still running after 25 s, in File .*distributed_programs.*never_ends"):
        launch(programs.never_ends, 2, limit_s=25, folder=str(tmp_path))
    assert time.monotonic() - start < 25 + launching._GRACE_S  # each process keeps the limit by itself
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


def sleeping(folder, first=""):
    """Return the command of a process that leaves its number in ``folder`` and sleeps for a minute."""
    program = f"import os, pathlib, signal, time; {first}"
    program += f"pathlib.Path({str(folder)!r}, str(os.getpid())).touch(); time.sleep(60)"
    return [sys.executable, "-c", program]


def assert_ended(folder):
    (begun,) = folder.iterdir()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.name), 0)


def test_an_interrupted_run_ends_what_it_has_started(tmp_path):
    interrupted = []

    def interrupt_when_begun():
        while not [*tmp_path.iterdir()]:
            time.sleep(0.05)
        interrupted.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_when_begun, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        launching._run(sleeping(tmp_path), 60)
    assert time.monotonic() - interrupted[0] < launching._GRACE_S  # asked to end, and not only forced to
    assert_ended(tmp_path)


@pytest.mark.parametrize("first", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "], ids=["asked", "forced"])
def test_what_has_not_begun_within_the_limit_is_ended_and_said(tmp_path, monkeypatch, first):
    monkeypatch.setattr(launching, "_GRACE_S", 1.5)
    monkeypatch.setattr(launching, "command", lambda ranks, folder: sleeping(tmp_path, first))
    with pytest.raises(RanksFailed, match=r"no rank began within 2\.5 s"):
        launch(programs.port_and_rank, 1, timeout_s=0.5, limit_s=2.5)
    assert_ended(tmp_path)


def test_every_rank_that_failed_has_a_line_and_those_that_only_lost_contact_come_last(tmp_path):
    stuck = 'Timeout (0:00:25)!\nThread 0x7 (most recent first):\n  File "a.py", line 3 in f\n  File "b.py", line 5'
    for rank, words in enumerate(["LostContact: one died", "", stuck, "KeyError: 'label'", "", ""]):
        (tmp_path / f"rank{rank}.error").write_text(words)
    log = "".join(  # as torchrun puts it
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 99)\n  error_file: <N/A>\n"
        for rank, code in ((0, 1), (1, -signal.SIGHUP), (3, 1), (4, 1))
    )
    assert launching._explain(tmp_path, 7, 1, log, 25.0).splitlines() == [
        "5 of 7 ranks failed",
        "rank 1: died without a word (killed by SIGHUP)",
        'rank 2: still running after 25 s, in File "a.py", line 3 in f',
        "rank 3: KeyError: 'label'",
        "rank 4: died without a word (exit code 1)",
        "rank 0: LostContact: one died",
    ]


def test_ranks_that_never_began_leave_torchruns_own_words(monkeypatch):
    monkeypatch.setattr(
        launching, "command", lambda ranks, folder: ["python3", "-c", "print('no such module'); exit(2)"]
    )
    with pytest.raises(RanksFailed, match="no rank began:\nno such module"):
        launch(programs.port_and_rank, 2)


def test_what_cannot_be_sent_is_refused_by_name(tmp_path):
    with pytest.raises(TypeError, match=r"arguments must be tensors.*: got folder \(PosixPath\), n \(int\)"):
        launch(programs.never_ends, 2, folder=tmp_path, n=1)
    with pytest.raises(TypeError, match=r"what function returns must be tensors.*: got PosixPath"):
        launching._save(tmp_path, tmp_path / "rank0.pt", "what function returns", type(tmp_path).__name__)


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
