"""A learner's copies: what they leave out, and that nothing that was saved is written over."""

import os
import subprocess

import nbformat
import pytest
from small_notebooks import ROOT, folded_exercise, save

from tools import learn
from tools.__main__ import main as tools
from tools.learn import bring_copies, learners_copy, start_afresh
from tools.notebooks import FOLDED, find_notebooks, is_code, read_notebook

NAME = "02_layer_norm.ipynb"


@pytest.fixture
def course(tmp_path):
    """A course of two chapters, and where its copies go."""
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here.ipynb", NAME):
        save(folded_exercise(), tmp_path / "notebooks", name)
    return tmp_path


def bring(course):
    return bring_copies(find_notebooks(folder=course / "notebooks"), course / "learn")


def change(course, folder, text, name=NAME):
    """Put a sentence under the title of a chapter, as a new version does, or a learner."""
    notebook = read_notebook(course / folder / name)
    notebook.cells[0].source += f"\n{text}"
    save(notebook, course / folder, name)


def contents(course):
    """What each of a learner's notebooks says, by its name."""
    return {path.name: path.read_text() for path in (course / "learn").glob("*.ipynb")}


@pytest.mark.parametrize("path", find_notebooks(), ids=lambda path: path.stem[:2])
def test_a_copy_is_its_chapter_without_outputs_but_for_the_first_picture_of_each_widget(path):
    chapter, copy = read_notebook(path), nbformat.reads(learners_copy(path).decode(), as_version=4)
    shows = [cell.id for cell in copy.cells if is_code(cell) and cell.outputs]
    pictures = [
        cell.id
        for cell in chapter.cells
        if is_code(cell)
        and cell.source.startswith(("widgets.", "w = widgets."))
        and "ledger" not in cell.source
    ]
    assert shows == pictures
    assert pictures or path.stem[:2] in ("07", "20")
    assert all(cell.execution_count is None for cell in copy.cells if is_code(cell))
    for cell in filter(is_code, chapter.cells):
        cell.outputs, cell.execution_count = [], None
    for cell in filter(is_code, copy.cells):
        cell.outputs = []
    assert copy == chapter


def test_solutions_stay_folded_and_a_copy_has_the_bytes_that_jupyter_would_write(course):
    copy = learners_copy(course / "notebooks" / NAME)
    notebook = nbformat.reads(copy.decode(), as_version=4)
    assert FOLDED.items() <= notebook.cells[3].metadata.items()
    save(notebook, course)
    assert (course / NAME).read_bytes().rstrip() == copy.rstrip()


def test_what_was_never_changed_gives_way_to_a_new_version_and_is_named(course):
    assert "chapters 00, 02." in bring(course)[0]
    assert bring(course) == []
    change(course, "notebooks", "A new paragraph.")
    assert bring(course) == ["In a new version, since you had not changed it: 02."]
    assert "A new paragraph." in contents(course)[NAME]
    assert len(contents(course)) == 2


@pytest.mark.parametrize("touched", [False, True])
def test_a_chapter_that_has_another_name_now_leaves_behind_what_a_learner_changed(course, touched):
    bring(course)
    if touched:
        change(course, "learn", "My own.")
    (course / "notebooks" / NAME).rename(course / "notebooks" / "03_layer_norm.ipynb")
    bring(course)
    assert bring(course) == []
    assert "03_layer_norm.ipynb" in contents(course)
    assert (NAME in contents(course)) == touched


def test_a_new_version_lies_beside_what_was_changed_and_is_brought_once(course):
    bring(course)
    change(course, "learn", "My note.")
    mine = contents(course)[NAME]
    change(course, "notebooks", "A new paragraph.")
    assert NAME in bring(course)[0]
    assert contents(course)[NAME] == mine
    assert "A new paragraph." in contents(course)["02_new_version.ipynb"]
    assert bring(course) == []
    change(course, "notebooks", "Another.")  # the newer version that nobody touched goes
    assert NAME in bring(course)[0]
    assert "Another." in contents(course)["02_new_version.ipynb"]
    assert len(contents(course)) == 3
    assert contents(course)[NAME] == mine


def test_work_in_a_version_that_lay_beside_is_kept_as_well(course):
    bring(course)
    change(course, "learn", "My note.")
    change(course, "notebooks", "A new paragraph.")
    bring(course)
    change(course, "learn", "My second note.", "02_new_version.ipynb")
    before = contents(course)
    change(course, "notebooks", "Another.")
    bring(course)
    assert before.items() <= contents(course).items()
    assert "Another." in contents(course)["02_new_version_2.ipynb"]


@pytest.mark.parametrize("notes", [None, "half a js", "[]", f'{{"{NAME}": 1}}'])
def test_without_its_notes_every_copy_counts_as_changed(course, notes):
    bring(course)
    before = contents(course)
    (course / "learn" / ".copies.json").unlink()
    if notes is not None:
        (course / "learn" / ".copies.json").write_text(notes)
    change(course, "notebooks", "A new paragraph.")
    bring(course)
    assert before.items() <= contents(course).items()
    assert len(contents(course)) == 3


@pytest.mark.parametrize("steps", range(4))  # two files, and a note on each
def test_wherever_it_is_interrupted_no_work_is_lost_and_the_next_time_ends_it(
    steps, course, monkeypatch
):
    bring(course)
    change(course, "learn", "My note.")
    for name in ("00_start_here.ipynb", NAME):
        change(course, "notebooks", "A new paragraph.", name)
    mine, replace = contents(course)[NAME], os.replace
    done = []

    def replace_or_stop(*paths):
        if len(done) == steps:
            raise KeyboardInterrupt
        done.append(replace(*paths))

    monkeypatch.setattr(os, "replace", replace_or_stop)
    with pytest.raises(KeyboardInterrupt):
        bring(course)
    assert contents(course)[NAME] == mine
    monkeypatch.setattr(os, "replace", replace)
    bring(course)
    newer = "02_new_version.ipynb"
    assert contents(course).keys() == {"00_start_here.ipynb", NAME, newer}
    assert contents(course)[NAME] == mine
    assert "A new paragraph." in contents(course)["00_start_here.ipynb"]


def test_a_chapter_begins_anew_and_what_was_there_is_kept(course):
    def afresh():
        return start_afresh(course / "notebooks" / NAME, course / "learn")

    bring(course)
    first = contents(course)[NAME]
    assert "nothing to keep" in afresh()
    for note in ("My note.", "My second note."):
        change(course, "learn", note)
        assert "kept_" in afresh()
        assert contents(course)[NAME] == first
    kept = [text for name, text in contents(course).items() if "02_kept_" in name]
    assert sorted("My note." in text for text in kept) == [False, True]
    change(course, "learn", "My note.")
    change(course, "notebooks", "A new paragraph.")
    bring(course)
    afresh()  # what lay beside stands in its place now
    assert "A new paragraph." in contents(course)[NAME]
    assert "02_new_version.ipynb" not in contents(course)
    assert bring(course) == []


def test_a_copy_that_was_deleted_begins_anew(course):
    bring(course)
    (course / "learn" / NAME).unlink()
    assert "chapters 02." in bring(course)[0]
    (course / "learn" / NAME).unlink()
    assert "begins anew." in start_afresh(course / "notebooks" / NAME, course / "learn")


def test_the_commands_say_what_they_did_and_what_they_need(course, monkeypatch, capsys):
    monkeypatch.chdir(course)
    assert tools(["learn"]) == 0
    assert tools(["learn"]) == 0
    change(course, "learn", "My note.")
    assert tools(["fresh", "02"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "copies of chapters 00, 02" in first
    assert "learn/02_layer_norm.ipynb begins anew; what you had is learn/02_" in second
    with pytest.raises(SystemExit):
        tools(["fresh"])
    assert "make fresh NB=02" in capsys.readouterr().err

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(learn, "write_atomically", refuse)
    change(course, "notebooks", "A new paragraph.")
    assert tools(["learn"]) == 0
    assert "learn/ cannot be written (Permission denied)" in capsys.readouterr().out


def test_git_sees_nothing_of_what_a_learner_does():
    ignored = ["learn/02_layer_norm.ipynb", "learn/a folder/scratch.ipynb", "learn/.copies.json"]
    done = subprocess.run(
        ["git", "check-ignore", *ignored], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ignored
