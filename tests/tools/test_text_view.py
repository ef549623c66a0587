"""Notebooks edited as text: what is kept, and edits on either side."""

import nbformat
import pytest
from small_notebooks import folded_exercise, save

from tools.notebooks import read_notebook, write_atomically
from tools.text_view import Conflict, bring_back, open_view


def test_an_edit_in_the_text_view_keeps_ids_metadata_and_the_outputs_of_other_cells(tmp_path):
    notebook = folded_exercise()
    path = save(notebook, tmp_path)
    view = open_view(path, tmp_path / "edit")
    view.write_text(view.read_text().replace("x.mean()", "x.mean(-1)"))
    assert bring_back(view, tmp_path) == (path, True)
    edited = read_notebook(path)
    assert "x.mean(-1)" in edited.cells[3].source
    assert [(cell.id, cell.metadata) for cell in edited.cells] == [
        (cell.id, cell.metadata) for cell in notebook.cells
    ]
    assert edited.cells[1].outputs == notebook.cells[1].outputs
    assert bring_back(view, tmp_path) == (path, False)

    edited.cells[1].outputs[0].text = "executed between two edits\n"
    save(edited, tmp_path)
    view.write_text(view.read_text().replace("secret", "hidden"))
    assert bring_back(view, tmp_path) == (path, True)


def test_a_text_view_without_a_notebook_becomes_one(tmp_path):
    view = tmp_path / "edit" / "03_batch_norm.py"
    write_atomically(
        view, b'# %% [markdown]\n# # Batch norm\n\n# %% tags=["exercise"]\ndef batch_norm(x): ...\n'
    )
    path, changed = bring_back(view, tmp_path)
    notebook = read_notebook(path)
    assert changed
    assert [cell.source for cell in notebook.cells] == ["# Batch norm", "def batch_norm(x): ..."]
    assert notebook.cells[1].metadata.tags == ["exercise"]
    nbformat.validate(notebook)


def test_edits_on_either_side_are_never_lost_silently(tmp_path):
    path, views = save(folded_exercise(), tmp_path), tmp_path / "edit"
    view = open_view(path, views)
    view.write_text(view.read_text().replace("secret", "hidden"))
    with pytest.raises(Conflict, match="holds edits"):
        open_view(path, views)

    notebook = read_notebook(path)
    notebook.cells[0].source = "# Another title"
    save(notebook, tmp_path)
    with pytest.raises(Conflict, match="has changed since"):
        bring_back(view, tmp_path)
    assert read_notebook(path).cells[0].source == "# Another title"
