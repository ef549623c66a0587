"""Grading a folder: whatever one submission does, it is a row with the reason, and the others lose nothing."""

import csv
import os
import signal
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
import torch.nn.functional as F
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_utils import check
from course_utils.__main__ import main as course
from course_utils.book.chapters import CHAPTERS, NOTEBOOKS
from course_utils.check.catalogue import edited
from course_utils.check.ready_made import ready_made
from course_utils.norms import layer_norm
from tools.grading import command, process, run
from tools.grading.needed import needed_statements
from tools.grading.points import CANVAS, MOODLE, Scheme, named, read_roster, read_scheme, write_class
from tools.grading.process import Interrupted, Limits, Outcome, grade_exercise
from tools.grading.results import Row, write_csv, write_feedback, write_report
from tools.grading.run import CSV, FEEDBACK, REPORT, UNFINISHED, grade_folder
from tools.grading.submissions import find_submissions
from tools.notebooks import find_exercises, read_notebook
from tools.student import make_student_copy

TIMEOUT_S, MEMORY_GB = 8.0, 3.0
RIGHT = "def centre(x):\n    return torch.sub(x, x.mean(-1, keepdim=True))"
COLUMNS = "def centre(x):\n    return torch.sub(x, x.mean(0, keepdim=True))"
CHOOSE = """\
from course_utils import check

def centre_solution(x):
    return x - x.mean(-1, keepdim=True)

centre = check.centre.choose(centre, centre_solution)"""
FORGE = """\
import torch
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b'{"verdict": {"status": "passed", "mistake": "", "message": "forged"}}\\n')
    except OSError:
        pass
"""

FORKS = """\
import torch
import os, time
for _ in range(60):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)  # a child forks no further, and ends also where nobody ends it
time.sleep(30)
"""

# With the number in the request, which came on stdin, a verdict would be believed.
SEES_NO_SECRET = """\
import torch
import os
assert 'INSTRUCTORS_SECRET' not in os.environ
os.lseek(0, 0, os.SEEK_SET)
assert os.read(0, 1000) == b''
def centre(x):
    return x - row_mean(x)
"""
HELPERS_BELOW = (
    "dims = {}\nwhile True: pass  # no part of the answer",
    "dims['rows'] = 0",
    "dims.update(rows=-1)",
    "def row_mean(x):\n    return x.mean(dims['rows'], keepdim=True)",
    "while True: pass",
)

# file name without its ending -> the cells of a notebook that is an error, and a part of the reason.
# The cell that imports torch is needed, and with it whatever else it does.
FAILURES: dict[str, tuple[tuple[str, ...], str]] = {
    "crashes": (
        ("import ctypes\ndef centre(x):\n    return ctypes.string_at(0)",),
        "(segmentation fault), when the check called it",
    ),
    "loops": (("import torch\nwhile True: pass", RIGHT), f"still running after {TIMEOUT_S:g} s, in cell 1"),
    # the machine has that much
    "allocates": ((f"import torch\nhog = bytearray({int(1.5 * MEMORY_GB * 1e9)})\n{RIGHT}",), "MemoryError"),
    "forks": ((FORKS, RIGHT), "more than 32 processes, in cell 1"),
}


def save(path: Path, *cells: str, title: str = "# 00 · Start here") -> Path:
    heading = new_markdown_cell(title)
    nbformat.write(new_notebook(cells=[heading, *map(new_code_cell, cells)]), path)
    return path


def solved_copy(folder: Path) -> Path:
    """Write chapter 00 as `make student` hands it out, with the stub filled in, helpers below, another name."""
    path = make_student_copy(NOTEBOOKS / "00_start_here.ipynb", folder)
    notebook = read_notebook(path)
    notebook.cells[next(find_exercises(notebook)).stub].source = SEES_NO_SECRET
    notebook.cells += map(new_code_cell, HELPERS_BELOW)
    nbformat.write(notebook, path)
    return path.rename(folder / "homework 1.ipynb")


def not_notebooks(folder: Path) -> dict[str, str]:
    """Write what is no notebook into ``folder``; return the reason to be given for each."""
    (folder / "text.ipynb").write_text("my solution")
    (folder / "brackets.ipynb").write_text("[" * 100_000)
    (folder / "empty.ipynb").touch()
    (folder / "folder.ipynb").mkdir()
    (folder / "loop.ipynb").symlink_to("loop.ipynb")
    os.mkfifo(folder / "pipe.ipynb")
    with (folder / "large.ipynb").open("wb") as file:
        file.truncate(51_000_000)
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7")
    (folder / "nothing_here").mkdir()
    save(folder / "cooking.ipynb", "flour = 500", title="# Bread")
    return {
        **dict.fromkeys(("text.ipynb", "brackets.ipynb", "empty.ipynb", "scan.pdf"), "it is no notebook"),
        "folder.ipynb": "it is a folder",
        **dict.fromkeys(("loop.ipynb", "pipe.ipynb"), "not a regular file"),
        "large.ipynb": "51 MB, and at most 50 are read",
        "nothing_here": "no notebook in this folder",
        "cooking.ipynb": "none of the course's notebooks",
    }


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A class, graded once: what is expected of it, the rows by file, and where everything lies."""
    root = tmp_path_factory.mktemp("class")
    folder, out, scratch = root / "submitted", root / "out", root / "scratch"
    for place in (folder, scratch, folder / "ann", folder / "ann" / ".ipynb_checkpoints"):
        place.mkdir()
    reasons = not_notebooks(folder)
    for name, (cells, _) in FAILURES.items():
        save(folder / f"{name}.ipynb", *cells)
    save(folder / "wrong.ipynb", FORGE, COLUMNS, CHOOSE)
    save(folder / "calls.ipynb", "from course_utils import check\ndef centre(x):\n    return check.centre.oracle(x)")
    solved_copy(folder / "ann")
    save(folder / "ann" / ".ipynb_checkpoints" / "old.ipynb", COLUMNS)
    (folder / "00 as it is.ipynb").write_bytes((NOTEBOOKS / "00_start_here.ipynb").read_bytes())
    progress = root / "progress"
    with pytest.MonkeyPatch.context() as instructor:
        instructor.setenv("COURSE_PROGRESS_DIR", str(progress))
        instructor.setenv("INSTRUCTORS_SECRET", "secret")
        instructor.setattr("tempfile.tempdir", str(scratch))
        rows = grade_folder(folder, out, Limits(TIMEOUT_S, MEMORY_GB), jobs=2, show_progress=False)
    by_file = {row.file: row for row in rows}
    return {"rows": by_file, "reasons": reasons, "out": out, "scratch": scratch, "progress": progress, "all": rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_graded_is_a_row_with_the_reason(graded: dict, name: str) -> None:
    row = graded["rows"][f"{name}.ipynb"]
    assert (row.learner, row.chapter, row.exercise) == (name, "00", "centre")
    assert (row.status, row.mistake) == ("error", ""), row.message
    assert FAILURES[name][1] in row.message
    assert row.message == " ".join(row.message.split())


@pytest.mark.slow
def test_what_is_no_notebook_is_a_row_with_the_reason(graded: dict) -> None:
    for file, reason in graded["reasons"].items():
        row = graded["rows"][file]
        assert (row.status, row.exercise) == ("error", ""), row
        assert reason in row.message, row


@pytest.mark.slow
def test_every_file_is_a_row_and_nothing_else_is(graded: dict) -> None:
    notebooks = {f"{name}.ipynb" for name in (*FAILURES, "wrong", "calls", "ann/homework 1", "00 as it is")}
    assert sorted(row.file for row in graded["all"]) == sorted(notebooks | set(graded["reasons"]))


@pytest.mark.slow
def test_a_students_copy_is_graded_under_any_name_and_the_courses_solution_counts_for_nobody(graded: dict) -> None:
    solved, as_it_is = graded["rows"]["ann/homework 1.ipynb"], graded["rows"]["00 as it is.ipynb"]
    assert (solved.learner, solved.status) == ("ann", "passed"), solved.message
    assert solved.seconds < TIMEOUT_S  # nobody waits for what it left running
    assert as_it_is.status == "not attempted"
    calls = graded["rows"]["calls.ipynb"]
    assert (calls.status, calls.message) == ("ready-made", "It is right, and calls check.centre.oracle.")


@pytest.mark.slow
def test_nothing_is_left_behind(graded: dict) -> None:
    assert not list(graded["scratch"].iterdir())
    assert not graded["progress"].exists()
    assert sorted(path.name for path in graded["out"].iterdir()) == [CANVAS, FEEDBACK, CSV, MOODLE, REPORT]
    assert not processes_of(graded["scratch"])


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes whose home is below ``home``: those that a grading started, and their children."""
    found = []
    for candidate in psutil.process_iter():
        try:
            if candidate.environ().get("HOME", "").startswith(str(home)):
                found.append(candidate)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_the_csv_holds_the_rows(graded: dict) -> None:
    with (graded["out"] / CSV).open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["learner", "file", "chapter", "exercise", "status", "mistake", "message", "seconds"]
    assert [line["file"] for line in lines] == [row.file for row in graded["all"]]
    wrong = next(line for line in lines if line["file"] == "wrong.ipynb")
    assert (wrong["status"], wrong["mistake"], wrong["chapter"]) == ("wrong", "column_means", "00")
    assert "It subtracts the mean of each column" in wrong["message"]
    told = (graded["out"] / FEEDBACK / "wrong.html").read_text()
    mistake = check.centre.catalogue["column_means"]
    for text in ("00 centre: 0 of 1 points", mistake.wrong, mistake.hint, "x = [[1, 2, 3]]", "got: [[0, 0, 0]]"):
        assert text in BeautifulSoup(told, "html.parser").text, text
    loops = next(line for line in lines if line["file"] == "loops.ipynb")
    assert TIMEOUT_S <= float(loops["seconds"]) < 2 * TIMEOUT_S


def sections(path: Path) -> dict[str, list[list[str]]]:
    """Return the tables of a report by heading, headings of columns included."""
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    return {
        heading.text: [[cell.text for cell in row.find_all(["th", "td"])] for row in heading.find_next("table")("tr")]
        for heading in page.find_all("h2")
    }


def test_the_report_says_who_passed_what_and_what_is_open(tmp_path: Path) -> None:
    rows = [
        Row("bob", "bob/1.ipynb", "00", "centre", "wrong", "column_means", "It subtracts ..."),
        Row("bob", "bob/2.ipynb", "00", "centre", "error", "", "still running"),
        Row("ann", "ann/1.ipynb", "00", "centre", "passed"),
        Row("ann", "ann/2.ipynb", "00", "centre", "not defined", "", "No cell defines centre."),
        Row("ann", "ann/4.ipynb", "04", "ema", "wrong", next(iter(check.ema.catalogue)), "It ..."),
        Row("ann", "ann/8.ipynb", "08", "merge_moments", "not attempted"),
        Row("dan", "dan.ipynb", "16", status="no exercise"),
        Row("cid", "cid.ipynb", message="it is no notebook"),
    ]
    write_report(rows, tmp_path / REPORT, "Grades")
    found = sections(tmp_path / REPORT)
    rows = [" ".join(row) for row in found["Learners"]]
    assert rows == ["learner passed 00 04 08", "ann 1 ✓ ✗ ·", "bob 0 ✗  ", "cid 0   ", "dan 0   "]
    assert [row[:2] for row in found["Mistakes"][1:]] == [["1", "centre"], ["1", "ema"]]
    opened = ["bob/1.ipynb", "bob/2.ipynb", "ann/2.ipynb", "ann/4.ipynb", "cid.ipynb"]
    assert [row[1] for row in found["What is open"][1:]] == opened


def test_no_cell_of_the_csv_is_a_formula_and_any_file_name_can_be_written(tmp_path: Path) -> None:
    strange = os.fsdecode(b"\xff.ipynb")
    write_csv([Row("=1+1", strange, message="-2 is the answer")], tmp_path / CSV)
    write_report([Row("=1+1", strange, message="x")], tmp_path / REPORT, "Grades")
    with (tmp_path / CSV).open(newline="") as file:
        line = next(csv.DictReader(file))
    assert line["learner"] == "'=1+1"
    assert line["message"] == "'-2 is the answer"
    assert line["file"] == "\\udcff.ipynb"
    assert b"\r" not in (tmp_path / CSV).read_bytes()


@pytest.fixture
def three(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with three submissions, and where the results go."""
    folder = tmp_path / "submitted"
    folder.mkdir()
    for name in ("a", "b", "c"):
        save(folder / f"{name}.ipynb", RIGHT)
    return folder, tmp_path / "out"


def interrupt_the_second(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """Let the first exercise pass, and press Ctrl-C while the second is graded."""

    calls = iter(range(3))

    def grade(exercise: str, cells, folder, limits, stop: threading.Event) -> Outcome:
        if next(calls) == 0:
            return Outcome("passed", "", "", 1.0)
        while not list((out / UNFINISHED).glob("*.json")):
            time.sleep(0.01)
        time.sleep(0.2)  # now the first is on record, and the main thread waits
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(10)
        raise Interrupted

    monkeypatch.setattr(run, "grade_exercise", grade)


def test_an_interrupted_grading_keeps_its_rows_and_goes_on_from_there(three, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = three
    interrupt_the_second(monkeypatch, out)
    monkeypatch.chdir(folder)
    with pytest.raises(KeyboardInterrupt):
        grade_folder(Path(), out, Limits(), show_progress=False)  # the same folder by another name
    assert (out / CSV).read_text().count("passed") == 1
    save(folder / "b.ipynb", RIGHT, "changed = True")
    monkeypatch.setattr(run, "grade_exercise", lambda *_: Outcome("wrong", "", "", 1.0))
    rows = grade_folder(folder, out, Limits(), show_progress=False)
    assert [row.status for row in rows] == ["passed", "wrong", "wrong"]
    assert not (out / UNFINISHED).exists()


def test_a_grading_that_is_called_off_ends_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        grade_exercise("centre", [(0, "import time\ntime.sleep(600)\n" + RIGHT)], tmp_path, Limits(), stop)
    assert not processes_of(tmp_path)


def test_a_process_that_does_not_start_is_no_notebook_that_fails(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(process.sys, "executable", "/bin/false")
    outcome = grade_exercise("centre", [(0, RIGHT)], tmp_path, Limits(), threading.Event())
    assert outcome.status == "error"
    assert "the grading process did not start" in outcome.message


def test_the_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "submitted"

    def scheme(text: str) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.txt"
        path.write_text(text)
        return str(path)

    assert course(["grade", str(folder)]) == 2
    folder.mkdir()
    for options, said in (
        (["--timeout", "0"], "timeout must be more than 0 seconds: got 0"),
        (["--memory", "0.5"], "memory must be at least 1 GB: got 0.5"),
        (["--jobs", "0"], "jobs must be at least 1: got 0"),
        (["--chapter", "99"], "got '99'"),
        (["--out", str(folder / "out")], "--out must lie outside DIR"),
        (["--points", scheme("[exercises.scream]")], "no chapter has the exercises scream"),
        (["--points", scheme("partial = 2")], "partial from 0 to 1: got 1.0, 2"),
        (["--points", scheme("pionts = 2")], "known are assignment, points"),
        (["--roster", scheme("Name,Email\nAda,a@x.org\nAda,b@x.org")], "a name that no other has"),
    ):
        assert command.main([str(folder), *options]) == 2
        assert said in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert command.main([str(folder)]) == 0
    assert (tmp_path / "submitted-grades" / CSV).read_text().count("\n") == 1
    assert "nothing to grade" in capsys.readouterr().out


def test_a_chapter_can_be_chosen_and_one_without_exercises_is_named(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "submitted"
    folder.mkdir()
    without = next(chapter for chapter in CHAPTERS if not chapter.exercises)
    save(folder / "a.ipynb", RIGHT)
    save(folder / "b.ipynb", title=f"# {without.number} · {without.title}")
    monkeypatch.setattr(run, "grade_exercise", lambda *_: Outcome("passed", "", "", 1.0))
    limits = Limits()
    chosen = grade_folder(folder, tmp_path / "one", limits, chapters=[without.number], show_progress=False)
    assert [(row.file, row.status) for row in chosen] == [("b.ipynb", "no exercise")]
    everything = grade_folder(folder, tmp_path / "two", limits, show_progress=False)
    assert [row.status for row in everything] == ["passed", "no exercise"]


@pytest.mark.parametrize(
    ("name", "title", "cell", "number"),
    [
        ("anything", "# 02 · Layer norm", "", "02"),
        ("03_batch_norm", "# 02 · Layer norm", "", "02"),  # the heading is truer than the file's name
        ("jo_02_layer_norm (1)", "# Jo's", "", "02"),
        ("16_a_real_llama", "# Jo's", "def layer_norm(x): ...", "16"),
        ("homework", "# Jo's", "def layer_norm(x): ...", "02"),
        ("homework", "# Jo's", "check.rope(mine)\ncheck.half_to_interleaved(my_other)", "13"),
    ],
)
def test_a_notebook_is_known_by_what_is_in_it(tmp_path: Path, name: str, title: str, cell: str, number: str) -> None:
    save(tmp_path / f"{name}.ipynb", cell, title=title)
    [submission] = find_submissions(tmp_path)
    assert submission.read().chapter.number == number


def test_learners_are_folders_or_files(tmp_path: Path) -> None:
    for place in ("ann/week 1/.ipynb_checkpoints", "__MACOSX"):
        (tmp_path / place).mkdir(parents=True)
    hidden = ("ann/week 1/.ipynb_checkpoints/a.ipynb", ".DS_Store", "ann/notes.txt")
    for file in ("ann/week 1/a.ipynb", "ann/b.IPYNB", "bob.ipynb", "eve.pdf", *hidden):
        (tmp_path / file).touch()
    found = [(submission.learner, submission.file) for submission in find_submissions(tmp_path)]
    in_folders = [("ann", "ann/b.IPYNB"), ("ann", "ann/week 1/a.ipynb")]
    assert found == [*in_folders, ("bob", "bob.ipynb"), ("eve", "eve.pdf")]


@pytest.mark.parametrize(
    ("file", "learner"),
    [
        ("alice_02", "alice"),
        ("02 alice", "alice"),
        ("alice-02_layer_norm (1)", "alice"),
        ("lovelaceada_LATE_1234_5678_02_layer_norm-1", "lovelaceada"),  # as Canvas names a download
        ("02_layer_norm", "02_layer_norm"),  # nobody's name is left
        ("student_03", "student_03"),  # the number is no chapter's
    ],
)
def test_files_of_one_learner_are_one_learner(tmp_path: Path, file: str, learner: str) -> None:
    save(tmp_path / f"{file}.ipynb", title="# 02 · Layer norm")
    [submission] = find_submissions(tmp_path)
    assert submission.read().learner == learner


ROSTERS = {
    "": "name,Email,id\nAda Lovelace,ada@x.org,17\n=Bob,bob@x.org,18\nEve,eve@x.org,19\n",
    "Canvas": (
        "Student,ID,SIS User ID,SIS Login ID,Section,Old\n    Points Possible,,,,,5\n"
        "Ada Lovelace,901,17,ada@x.org,A,1\n=Bob,902,18,bob@x.org,A,2\nEve,903,19,eve@x.org,B,3\n"
    ),
    "Moodle": (
        "First name,Last name,ID number,Email address\n"
        "Ada,Lovelace,17,ada@x.org\n,=Bob,18,bob@x.org\nEve,,19,eve@x.org\n"
    ),
}


@pytest.mark.parametrize("source", ROSTERS)
def test_a_class_gets_a_row_each_that_canvas_and_moodle_import(tmp_path: Path, source: str) -> None:
    (tmp_path / "class.csv").write_text(ROSTERS[source], encoding="utf-8-sig")
    people, canvas = read_roster(tmp_path / "class.csv"), source == "Canvas"
    points = "points = 2\npartial = 0.5\n[exercises.layer_norm]\npoints = 6\nready_made = true"
    (tmp_path / "points.toml").write_text(points)
    scheme = read_scheme(tmp_path / "points.toml")
    rows = [
        Row("lovelaceada_1_2", "1.ipynb", "00", "centre", "ready-made"),
        Row("17", "2.ipynb", "02", "layer_norm", "wrong", right=3, probes=12),
        Row("ada", "3.ipynb", "02", "layer_norm", "wrong", right=6, probes=12),  # the better one counts
        Row("bob_3_assignsubmission_file", "4.ipynb", "02", "layer_norm", "ready-made"),
        Row("mallory", "5.ipynb", "00", "centre", "passed"),
    ]
    rows = named(rows, people)
    assert [row.learner for row in rows] == ["Ada Lovelace"] * 3 + ["=Bob", "mallory"]
    write_class(rows, tmp_path, scheme, people)
    lines = [line.split(",") for line in (tmp_path / CANVAS).read_text().splitlines()]
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert lines[0] == [*head, "00 Start here", "02 Layer norm", "Final Points"]
    assert lines[1] == ["    Points Possible", "", "", "", "", "2.00", "6.00", "8.00"]
    assert lines[2] == ["Ada Lovelace", "901" * canvas, "17", "ada@x.org", "A" * canvas, "0.00", "1.50", "1.50"]
    assert lines[3][0] == "'=Bob"
    assert lines[3][5:] == ["", "6.00", "6.00"]
    assert lines[4][5:] == ["", "", ""]  # nothing handed in: no grade
    assert len(lines) == 5
    moodle = [line.split(",") for line in (tmp_path / MOODLE).read_text().splitlines()]
    assert moodle[0] == ["Full name", "ID number", "Email address", "00 Start here", "02 Layer norm", "Course total"]
    assert moodle[1] == ["Ada Lovelace", "17", "ada@x.org", "0.00", "1.50", "1.50"]
    write_class(rows, tmp_path, Scheme("Homework 3", scheme.common, scheme.exercises), ())
    lines = [line.split(",") for line in (tmp_path / CANVAS).read_text().splitlines()]
    assert lines[0][5:] == ["Homework 3", "Final Points"]
    assert {line[0]: line[5] for line in lines[2:]} == {"Ada Lovelace": "1.50", "'=Bob": "6.00", "mallory": "2.00"}
    write_feedback(rows, tmp_path / FEEDBACK, scheme.of)
    assert len(list((tmp_path / FEEDBACK).iterdir())) == 3
    assert (tmp_path / FEEDBACK / "Ada_Lovelace.html").read_text().count("<h2>") == 2


CALLS = {
    "torch's layer_norm": ("layer_norm", F.layer_norm),
    "torch's native_layer_norm": ("layer_norm", lambda *a: torch.ops.aten.native_layer_norm(*a)[0]),
    "torch's rms_norm": ("rms_norm", F.rms_norm),
    "torch's instance_norm": ("instance_norm", F.instance_norm),
    "the course's layer_norm": ("layer_norm", layer_norm),
    "the course's Moments.merge": ("merge_moments", lambda one, other: one.merge(other)),
}


@pytest.mark.parametrize("called", CALLS)
def test_an_answer_that_calls_a_ready_made_function_is_known_by_what_it_calls(called: str) -> None:
    name, function = CALLS[called]
    its_check = getattr(check, name)

    def answer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return function(x, normalized_shape, weight, bias, eps)

    answer = answer if name == "layer_norm" else lambda *args, **keywords: function(*args, **keywords)
    assert its_check(answer, record=False)
    assert ready_made(its_check, answer) == called


def test_an_answer_of_ones_own_is_none_and_one_by_autograd_or_the_oracle_is() -> None:
    for its_check in (value for value in vars(check).values() if type(value) is check.Check):
        oracle = its_check.oracle
        assert ready_made(its_check, lambda *a, _=oracle, **k: _(*a, **k)) == f"check.{its_check.name}.oracle"
        for mistake in list(its_check.catalogue.values())[:1]:
            own = edited(mistake.reference)
            own.__globals__["__name__"] = "notebook"
            assert ready_made(its_check, own) == "", its_check.name

    def differentiated(dy, x, normalized_shape, weight=None, eps=None):
        x = x.detach().requires_grad_()
        weight = torch.ones(normalized_shape) if weight is None else weight.detach()
        y = check.rms_norm.oracle(x, normalized_shape, weight.requires_grad_(), eps)
        return torch.autograd.grad(y, (x, weight), dy)

    assert ready_made(check.rms_norm_backward, differentiated) == "torch's automatic differentiation"


@pytest.mark.parametrize(
    ("cells", "needed"),
    [
        (["a = 1", "def f(): return 2"], [[], [0]]),
        (["a = 1\nb = 2", "def f(): return a", "print(a)"], [[0], [0], []]),
        (["def f(): return g()", "def g(): return h", "h = 3"], [[0], [0], [0]]),  # in whatever order
        (["a = [1]", "def f(): return a", "a.append(2)", "a[0] = 3"], [[0], [0], [0], [0]]),
        (["a = [1]", "def f(): return a", "touch(a)", "print(a)", "b = a"], [[0], [0], [0], [], []]),
        (["import torch\ntorch.manual_seed(0)", "def f(): return torch", "torch.ones(3)"], [[0, 1], [0], []]),
        (["def f(): return 1", "f.cache = {}", "run(f)", "f = check.f.choose(f, g)"], [[0], [0], [], []]),
        (
            ["import check", "def f(): return e", "e = check.e.choose(e, mine)", "def mine(): ...", "e(1)", "a = 1"],
            [[0], [0], [0], [0], [], []],
        ),
        (["def f(a): return [a for b in a]", "a = 1", "b = 2"], [[0], [], []]),  # names of its own
        (["from m import *", "def f(): return g", "a = 1"], [[0], [0], [0]]),  # g may come from anywhere
        (["def f(x", "def f(): return 1", "a = 1"], [None, [0], []]),
        (["%matplotlib inline", "def f(): return 1"], [[], [0]]),
        (["f = lambda: 1", "run(f)"], [[0], []]),  # code, though it is not defined
        (["def g(): return 1", "def f(): return g()", "run(g)"], [[0], [0], []]),
    ],
)
def test_what_an_answer_depends_on_is_run_and_nothing_else(cells: list[str], needed: list) -> None:
    cells = [*cells, "def touch(x): ...", "def run(x): ..."]
    found = needed_statements(cells, "f")[: len(needed)]
    assert found == needed


@pytest.mark.parametrize("chapter", [c for c in CHAPTERS if c.is_written and c.exercises], ids=lambda c: c.number)
def test_the_experiments_of_a_chapter_need_not_run(chapter) -> None:
    notebook = read_notebook(NOTEBOOKS / chapter.file)
    for exercise in find_exercises(notebook):
        for name in set(exercise.names) & set(chapter.exercises):
            notebook.cells[exercise.stub].source = f"def {name}(*args):\n    return torch.zeros(3)"
            code = [(index, cell.source) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
            needed = needed_statements([source for _, source in code], name)
            cells = [index for (index, _), positions in zip(code, needed, strict=True) if positions != []]
            assert cells == [code[0][0], exercise.stub], f"{name} of chapter {chapter.number} needs the cells {cells}"
