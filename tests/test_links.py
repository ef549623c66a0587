"""The lines between chapters: written by a command, and missed by the lint where they are not."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_utils.book.chapters import chapter_of, line_back, line_on
from tools.lint import Page, chapters_are_linked, write_links

LAYER_NORM = chapter_of("02")
NEEDS = "Builds on [09 Gone](09_gone.ipynb), and [03 Batch norm](03_batch_norm.ipynb). Forty minutes to work through."


def chapter(folder: Path, first: str, last: nbformat.NotebookNode) -> Path:
    path = folder / LAYER_NORM.file
    cells = [new_markdown_cell(f"# 02 · Layer norm\n\n{first}"), new_code_cell("1 + 1", outputs=[]), last]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def findings(path: Path) -> list[tuple[int | None, str]]:
    return [(finding.cell, finding.message) for finding in chapters_are_linked(Page.read(path))]


@pytest.mark.parametrize("first", [NEEDS, "You can derive it."], ids=["older links", "no links"])
@pytest.mark.parametrize(
    "last",
    [
        new_markdown_cell("**Sources.** A paper.\n\n**Next:** [09 Gone](09_gone.ipynb) is gone."),
        new_markdown_cell("**Sources.** A paper."),
        new_code_cell("claims.table()"),
    ],
    ids=["an older line", "no line", "a code cell"],
)
def test_what_the_command_writes_is_what_the_lint_asks_for(first, last, tmp_path):
    path = chapter(tmp_path, first, last)
    (cell, says_first), (end, says_last) = findings(path)
    assert (cell, end) == (0, 2)
    assert f"«{line_back(LAYER_NORM)}»" in says_first
    assert f"«{line_on(LAYER_NORM)}»" in says_last
    assert "tools links 02" in says_last

    assert write_links(path)
    assert findings(path) == []
    assert not write_links(path)
    text = path.read_text()
    assert "gone" not in text
    assert first == NEEDS or "You can derive it." in text
    assert ("Forty minutes to work through." in text) == (first == NEEDS)
    assert ("A paper." in text) == (last.cell_type == "markdown")
    assert "1 + 1" in text


def test_a_line_on_that_is_not_the_last_one_is_found(tmp_path):
    path = chapter(tmp_path, line_back(LAYER_NORM), new_markdown_cell(f"{line_on(LAYER_NORM)}\n\nGoodbye."))
    assert [cell for cell, _ in findings(path)] == [2]


def test_links_back_said_twice_are_found(tmp_path):
    path = chapter(tmp_path, f"{line_back(LAYER_NORM)}\n\n{NEEDS}", new_markdown_cell(line_on(LAYER_NORM)))
    assert [cell for cell, _ in findings(path)] == [0]


def test_a_notebook_that_is_no_chapter_has_no_such_lines(tmp_path):
    path = chapter(tmp_path, "", new_markdown_cell("The end.")).rename(tmp_path / "scratch.ipynb")
    assert findings(path) == []
    with pytest.raises(ValueError, match=r"path must be a chapter's notebook: got .*scratch"):
        write_links(path)
