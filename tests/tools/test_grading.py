"""Grading a folder: whatever one submission does, it is a row with the reason, and the others lose
nothing."""

import ast
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

from chapters import check
from chapters.c21_find_the_bug import bugs
from chapters.contents import CHAPTERS, NOTEBOOKS
from chapters.ready_made import ready_made
from course_utils.__main__ import main as course
from course_utils.norms import layer_norm
from tools.grading import command
from tools.grading.command import CSV, REPORT, UNFINISHED, grade_folder
from tools.grading.needed import needed_statements
from tools.grading.process import Interrupted, Limits, grade_exercise
from tools.grading.results import Row, missing, write_csv, write_report
from tools.grading.submissions import find_files, read_submission
from tools.notebooks import find_exercises, read_notebook
from tools.student import make_student_copy

TIMEOUT_S, MEMORY_GB = 8.0, 3.0
RIGHT = "def centre(x):\n    return torch.sub(x, x.mean(-1, keepdim=True))"
COLUMNS = "def centre(x):\n    return torch.sub(x, x.mean(0, keepdim=True))"
CHOOSE = """\
from chapters import check


def centre_solution(x):
    return x - x.mean(-1, keepdim=True)

centre = check.centre.choose(centre, centre_solution)"""
FORGE = """\
import torch
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b'{"status": "passed", "message": "forged"}\\n')
    except OSError:
        pass
"""
# With the number that came on stdin, a verdict would be believed.
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
# file name without its ending -> the cells of a notebook, the status, and a part of the reason.
# The cell that imports torch is needed, and with it whatever else it does.
CELLS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "crashes": (
        ("import ctypes\ndef centre(x):\n    return ctypes.string_at(0)",),
        "error",
        "SIGSEGV, when the check",
    ),
    "loops": (
        ("import torch, time\ntime.sleep(600)", RIGHT),
        "error",
        f"Still running after {TIMEOUT_S:g} s, in cell 1",
    ),
    # the machine has that much
    "allocates": (
        (f"import torch\nhog = bytearray({int(1.5 * MEMORY_GB * 1e9)})\n{RIGHT}",),
        "error",
        "MemoryError",
    ),
    "wrong": ((FORGE, COLUMNS, CHOOSE), "wrong", "It takes the columns"),
    "renamed": (
        ("import torch", RIGHT.replace("centre", "my_centre"), "check.centre(my_centre)"),
        "not defined",
        "No cell defines centre. Cell 3 checks my_centre by that name; rename it.",
    ),
}


def save(path, *cells, title="# 00 · Start here"):
    heading = new_markdown_cell(title)
    nbformat.write(new_notebook(cells=[heading, *map(new_code_cell, cells)]), path)
    return path


def solved_copy(folder):
    """Write chapter 00 as `make student` hands it out, with the stub filled in, helpers below,
    another name."""
    path = make_student_copy(NOTEBOOKS / "00_start_here.ipynb", folder)
    notebook = read_notebook(path)
    notebook.cells[next(find_exercises(notebook)).stub].source = SEES_NO_SECRET
    notebook.cells += map(new_code_cell, HELPERS_BELOW)
    nbformat.write(notebook, path)
    return path.rename(folder / "homework 1.ipynb")


def not_notebooks(folder):
    """Write what is no notebook into ``folder``; return the reason to be given for each."""
    (folder / "text.ipynb").write_text("my solution")
    (folder / "folder.ipynb").mkdir()
    os.mkfifo(folder / "pipe.ipynb")
    with (folder / "large.ipynb").open("wb") as file:
        file.truncate(51_000_000)
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7")
    (folder / "nothing_here").mkdir()
    save(folder / "cooking.ipynb", "flour = 500", title="# Bread")
    return {
        **dict.fromkeys(("text.ipynb", "scan.pdf"), "It is no notebook"),
        **dict.fromkeys(("folder.ipynb", "nothing_here"), "no notebook in this folder"),
        "pipe.ipynb": "not a regular file",
        "large.ipynb": "51 MB, and at most 50 are read",
        "cooking.ipynb": "none of the course's notebooks",
    }


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class, graded once: the rows by file, the reasons expected of what is no notebook, and
    where things lie."""
    root = tmp_path_factory.mktemp("class")
    folder, out, scratch = root / "submitted", root / "out", root / "scratch"
    for place in (folder, scratch, folder / "ann", folder / "ann" / ".ipynb_checkpoints"):
        place.mkdir()
    reasons = not_notebooks(folder)
    for name, (cells, *_) in CELLS.items():
        save(folder / f"{name}.ipynb", *cells)
    solved_copy(folder / "ann")
    save(folder / "ann" / ".ipynb_checkpoints" / "old.ipynb", COLUMNS)
    (folder / "as it is.ipynb").write_bytes((NOTEBOOKS / "00_start_here.ipynb").read_bytes())
    with pytest.MonkeyPatch.context() as instructor:
        instructor.setenv("COURSE_PROGRESS_DIR", str(root / "progress"))
        instructor.setenv("INSTRUCTORS_SECRET", "secret")
        instructor.setattr("tempfile.tempdir", str(scratch))
        rows = grade_folder(folder, out, Limits(TIMEOUT_S, MEMORY_GB), jobs=2)
    return {"rows": {row.file: row for row in rows}, "all": rows, "reasons": reasons, "root": root}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_whatever_a_notebook_does_is_a_row_with_the_reason(graded, name):
    row = graded["rows"][f"{name}.ipynb"]
    _, status, reason = CELLS[name]
    assert (row.chapter, row.exercise, row.status) == ("00", "centre", status), row.message
    assert reason in row.message
    assert list(row.mistakes) == ["column_means"] * (name == "wrong")


@pytest.mark.slow
def test_what_is_no_notebook_is_a_row_with_the_reason_and_nothing_else_is_a_row(graded):
    for file, reason in graded["reasons"].items():
        row = graded["rows"][file]
        assert (row.status, row.exercise) == ("error", ""), row
        assert reason in row.message, row
    files = {
        *graded["reasons"],
        *(f"{name}.ipynb" for name in (*CELLS, "ann/homework 1", "as it is")),
    }
    assert sorted(row.file for row in graded["all"]) == sorted(files)


@pytest.mark.slow
def test_a_students_copy_is_graded_under_any_name_and_the_courses_solution_counts_for_nobody(
    graded,
):
    solved = graded["rows"]["ann/homework 1.ipynb"]
    assert solved.status == "passed", solved.message
    assert solved.seconds < TIMEOUT_S  # nobody waits for what it left running
    untouched = graded["rows"]["as it is.ipynb"]
    assert (untouched.status, untouched.message) == ("not attempted", "")


@pytest.mark.slow
def test_nothing_is_left_behind_but_a_table_and_a_report(graded):
    root = graded["root"]
    assert not list((root / "scratch").iterdir())
    assert not (root / "progress").exists()
    assert sorted(path.name for path in (root / "out").iterdir()) == [CSV, REPORT]
    assert not processes_of(root)
    with (root / "out" / CSV).open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["file"] for line in lines] == [row.file for row in graded["all"]]
    loops = next(line for line in lines if line["file"] == "loops.ipynb")
    assert TIMEOUT_S <= float(loops["seconds"]) < 2 * TIMEOUT_S


def processes_of(home):
    """Return the processes whose home is below ``home``: those that a grading started, and their
    children."""
    below = []
    for candidate in psutil.process_iter():
        try:
            if candidate.environ().get("HOME", "").startswith(str(home)):
                below.append(candidate)
        except psutil.Error:
            continue
    return below


def test_whoever_is_no_whole_word_of_a_name_or_handed_in_no_notebook_is_missing():
    handed_in = [Row(name, "04", "ema") for name in ("ann_17.ipynb", "wei_wang_2.ipynb")]
    rows = [*handed_in, Row("cid_170.ipynb", message="It is no notebook")]
    expected = ["17", "170", "7", "wei_wang", "wei_wang_2"]
    assert missing(rows, expected) == ["170", "7", "wei_wang"]


def test_the_report_counts_every_mistake_and_says_what_and_who_is_missing(tmp_path):
    first, second = list(check.ema.catalogue)[:2]
    rows = [
        Row("ann_17.ipynb", "04", "ema", "wrong", (first, second), message="It ..."),
        Row("ben_18.ipynb", "04", "ema", "wrong", (second,), message="It ..."),
        Row("cid_170.ipynb", message="It is no notebook"),
    ]
    write_report(rows, tmp_path / REPORT, "Grades", ["17", "170"])
    page = BeautifulSoup((tmp_path / REPORT).read_text(encoding="utf-8"), "html.parser")
    mistakes, results, nothing = (
        [[cell.text for cell in row("td")] for row in table("tr")[1:]]
        for table in page.find_all("table")
    )
    assert [row[0] for row in mistakes] == ["2", "1"]
    assert mistakes[0][3] == check.ema.catalogue[second].wrong
    assert [row[0] for row in results] == ["ann_17.ipynb", "ben_18.ipynb"]
    assert [row[0] for row in nothing] == ["cid_170.ipynb", "170"]


def test_no_cell_of_the_csv_is_a_formula_and_any_file_name_can_be_written(tmp_path):
    strange = os.fsdecode(b"=\xff.ipynb")
    write_csv([Row(strange, message="-2 is the answer", mistakes=("a", "b"))], tmp_path / CSV)
    write_report([Row(strange, message="x")], tmp_path / REPORT, "Grades")
    with (tmp_path / CSV).open(newline="") as file:
        line = next(csv.DictReader(file))
    assert (line["file"], line["message"], line["mistakes"]) == (
        "'=\\udcff.ipynb",
        "'-2 is the answer",
        "a b",
    )


@pytest.fixture
def three(tmp_path):
    """A folder with three submissions, and where the results go."""
    folder = tmp_path / "submitted"
    folder.mkdir()
    for name in ("a", "b", "c"):
        save(folder / f"{name}.ipynb", RIGHT)
    return folder, tmp_path / "out"


def test_an_interrupted_grading_keeps_its_rows_and_goes_on_from_there(three, monkeypatch):
    folder, out = three

    def interrupted_at_b(path: Path, exercise: str, limits: Limits, stop: threading.Event) -> dict:
        if path.name == "a.ipynb":
            return {"status": "passed"}
        while (out / UNFINISHED).read_text().count("\n") < 2:  # where it comes from, then a row
            time.sleep(0.01)
        time.sleep(0.2)  # now the first is on record, and the main thread waits
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(10)
        raise Interrupted

    monkeypatch.setattr(command, "grade_exercise", interrupted_at_b)
    monkeypatch.chdir(folder)
    with pytest.raises(KeyboardInterrupt):
        grade_folder(Path(), out, Limits())  # the same folder by another name
    assert (out / CSV).read_text().count("passed") == 1
    save(folder / "b.ipynb", RIGHT, "changed = True")
    monkeypatch.setattr(command, "grade_exercise", lambda *_: {"status": "wrong"})
    rows = grade_folder(folder, out, Limits())
    assert [row.status for row in rows] == ["passed", "wrong", "wrong"]
    assert not (out / UNFINISHED).exists()


def test_a_grading_that_is_called_off_ends_its_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = save(tmp_path / "a.ipynb", "import time\ntime.sleep(600)\n" + RIGHT)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        grade_exercise(path, "centre", Limits(), stop)
    assert not processes_of(tmp_path)


def test_a_process_that_does_not_start_is_no_notebook_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.grading.process.sys.executable", "/bin/false")
    outcome = grade_exercise(
        save(tmp_path / "a.ipynb", RIGHT), "centre", Limits(), threading.Event()
    )
    assert outcome["status"] == "error"
    assert "The grading process did not start" in outcome["message"]


def test_the_command_says_what_it_needs_and_who_is_missing(tmp_path, capsys):
    folder = tmp_path / "submitted"
    assert course(["grade", str(folder)]) == 2
    folder.mkdir()
    for options, said in (
        (["--timeout", "0"], "more than 0 s"),
        (["--memory", "0.5"], "at least 1"),
        (["--jobs", "0"], "at least 1"),
        (["--chapter", "99"], "got '99'"),
        (["--out", str(folder / "out")], "--out must lie outside DIR"),
    ):
        assert command.main([str(folder), *options]) == 2
        assert said in capsys.readouterr().err
    assert not (folder / "out").exists()
    (tmp_path / "ids.txt").write_text("17\n18\n")
    assert command.main([str(folder), "--expected", str(tmp_path / "ids.txt")]) == 0
    assert (tmp_path / "submitted-grades" / CSV).read_text().count("\n") == 1
    assert "nothing to grade\nmissing: 17, 18" in capsys.readouterr().out


def test_a_chapter_can_be_chosen_and_one_without_exercises_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "submitted"
    folder.mkdir()
    without = CHAPTERS[-1]
    monkeypatch.setitem(vars(without), "exercises", ())
    save(folder / "a.ipynb", RIGHT)
    save(folder / "b.ipynb", title=f"# {without.number} · {without.title}")
    monkeypatch.setattr(command, "grade_exercise", lambda *_: {"status": "passed"})
    chosen = grade_folder(folder, tmp_path / "one", Limits(), chapters=[without.number])
    assert [(row.file, row.status) for row in chosen] == [("b.ipynb", "no exercise")]
    everything = grade_folder(folder, tmp_path / "two", Limits())
    assert [row.status for row in everything] == ["passed", "no exercise"]


@pytest.mark.parametrize(
    ("name", "title", "cell", "number"),
    [
        ("anything", "# 02 · Layer norm", "", "02"),
        # the heading is truer than the file's name
        ("03_batch_norm", "# 02 · Layer norm", "", "02"),
        ("jo_02_layer_norm (1)", "# Jo's", "", "02"),
        ("17_a_real_llama", "# Jo's", "def layer_norm(x): ...", "17"),
        ("homework", "# Jo's", "check.rope(mine)\ncheck.half_to_interleaved(my_other)", "14"),
    ],
)
def test_a_notebook_is_known_by_what_is_in_it(tmp_path, name, title, cell, number):
    chapter, _ = read_submission(save(tmp_path / f"{name}.ipynb", cell, title=title))
    assert chapter.number == number


def test_submissions_are_files_and_folders_of_notebooks(tmp_path):
    for place in ("ann/week 1/.ipynb_checkpoints", "__MACOSX"):
        (tmp_path / place).mkdir(parents=True)
    hidden = (
        "ann/week 1/.ipynb_checkpoints/a.ipynb",
        "__MACOSX/a.ipynb",
        ".DS_Store",
        "ann/notes.txt",
    )
    for file in ("ann/week 1/a.ipynb", "ann/b.IPYNB", "bob.ipynb", "eve.pdf", *hidden):
        (tmp_path / file).touch()
    files = [str(path.relative_to(tmp_path)) for path in find_files(tmp_path)]
    assert files == ["ann/b.IPYNB", "ann/week 1/a.ipynb", "bob.ipynb", "eve.pdf"]


CALLS = {
    "by name": ("torch's layer_norm", lambda *a: getattr(F, "layer" + "_norm")(*a)),
    "aten": ("torch's native_layer_norm", lambda *a: torch.ops.aten.native_layer_norm(*a)[0]),
    "the course's": ("the course's layer_norm", lambda *a: layer_norm(*a)),
    "the oracle": ("check.layer_norm.oracle", lambda *a: check.layer_norm.oracle(*a)),
}


@pytest.mark.parametrize("disguise", CALLS)
def test_an_answer_that_calls_a_ready_made_function_is_known_however_it_calls_it(disguise):
    called, function = CALLS[disguise]

    def answer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return function(x, normalized_shape, weight, bias, eps)

    assert check.layer_norm(answer, record=False)
    assert ready_made(check.layer_norm, answer) == called


def test_the_puzzles_own_solutions_are_known():
    for letter in bugs.BUGS:
        name = f"input_{letter.lower()}"
        called = ready_made(
            getattr(check, name),
            lambda ordinary, letter=letter: bugs.bug(letter).solution(ordinary),
        )
        assert called == f"check.{name}.oracle"

    def tried_many(ordinary):
        return next(x for x in map(bugs.bug("F").anything, range(50)) if bugs.bug("F").shows(x))

    assert check.input_f(tried_many, record=False)
    assert ready_made(check.input_f, tried_many) == ""


CHECKED = [chapter for chapter in CHAPTERS if chapter.is_written and chapter.exercises]


@pytest.mark.parametrize("chapter", CHECKED, ids=lambda chapter: chapter.number)
def test_an_answer_that_does_it_itself_is_not_accused(chapter):
    notebook = read_notebook(NOTEBOOKS / chapter.file)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for name in chapter.exercises:
        its_check = getattr(check, name)
        if its_check.exercise.interpreter:
            continue
        needed = needed_statements(sources, f"{name}_solution")
        source = "\n".join(
            ast.unparse(statement) for statements in needed for statement in statements
        )
        assert ready_made(its_check, made_by(source, f"{name}_solution")) == "the course's solution"
        assert (
            ready_made(its_check, made_by(source.replace(f"{name}_solution", "mine"), "mine")) == ""
        ), name


def made_by(source, name):
    names = {"__name__": "notebook", "display": print}  # which a notebook has without an import
    exec(source, names)
    return names[name]


def test_an_answer_by_automatic_differentiation_is_known():
    def differentiated(dy, x, normalized_shape, weight=None, eps=None):
        x = x.detach().requires_grad_()
        weight = torch.ones(normalized_shape) if weight is None else weight.detach()
        y = check.rms_norm.oracle(x, normalized_shape, weight.requires_grad_(), eps)
        return torch.autograd.grad(y, (x, weight), dy)

    assert (
        ready_made(check.rms_norm_backward, differentiated) == "torch's automatic differentiation"
    )


@pytest.mark.parametrize(
    ("cells", "needed"),  # how many statements of each cell
    [
        (["a = 1\nb = 2", "def f(): return a", "print(b)"], [1, 1, 0]),
        (["def f(): return g()", "def g(): return h", "h = 3"], [1, 1, 1]),  # in whatever order
        (
            ["a = [1]", "def f(): return a", "a.append(2)", "a[0] = 3", "touch(a)", "b = a"],
            [1, 1, 1, 1, 1, 0],
        ),
        (
            ["import torch\ntorch.manual_seed(0)", "def f(): return torch", "torch.ones(3)"],
            [2, 1, 0],
        ),
        (["def f(): return 1", "f.cache = {}", "run(f)", "f = check.f.choose(f, g)"], [1, 1, 0, 0]),
        (
            [
                "import check",
                "def f(): return e",
                "e = check.e.choose(e, mine)",
                "def mine(): ...",
                "e(1)",
                "a = 1",
            ],
            [1, 1, 1, 1, 1, 0],
        ),
        (["from m import *", "def f(): return g", "a = 1"], [1, 1, 1]),  # g may come from anywhere
        (["def f(x", "def f(): return 1", "a = 1"], [None, 1, 0]),
        (["%matplotlib inline", "def f(): return 1"], [0, 1]),
        (["f = lambda: 1", "run(f)"], [1, 0]),  # code, though it is not defined
    ],
)
def test_what_an_answer_depends_on_is_run_and_nothing_else(cells, needed):
    cells = [*cells, "def touch(x): ...", "def run(x): ..."]
    counts = [None if part is None else len(part) for part in needed_statements(cells, "f")]
    assert counts[: len(needed)] == needed


@pytest.mark.parametrize("chapter", CHECKED, ids=lambda chapter: chapter.number)
def test_the_experiments_of_a_chapter_need_not_run(chapter):
    notebook = read_notebook(NOTEBOOKS / chapter.file)
    for exercise in find_exercises(notebook):
        for name in set(exercise.names) & set(chapter.exercises):
            notebook.cells[exercise.stub].source = f"def {name}(*args):\n    return torch.zeros(3)"
            code = [
                (index, cell.source)
                for index, cell in enumerate(notebook.cells)
                if cell.cell_type == "code"
            ]
            needed = needed_statements([source for _, source in code], name)
            cells = [index for (index, _), part in zip(code, needed, strict=True) if part != []]
            assert cells == [code[0][0], exercise.stub], (
                f"{name} of chapter {chapter.number} needs the cells {cells}"
            )
