"""Each rule of the notebook lint: a notebook that keeps them all, and for each rule one that breaks
it."""

import subprocess
import sys

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from chapters.contents import CHAPTERS, chapter_of, line_back, line_on
from tools.lint import lint_notebook, write_links
from tools.notebooks import FOLDED

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
FIGURE = {
    "text/html": f'<img alt="A line that falls" src="data:image/png;base64,{PNG}">',
    "text/plain": "Figure: A line that falls",
}
LAYER_NORM = chapter_of("02")
HIDDEN = {"jupyter": {"source_hidden": True}}
STUB = 'def layer_norm(x):\n    """Normalize."""\n    ...\n\n\ncheck.layer_norm(layer_norm)'


def notebook_that_keeps_every_rule():
    """A small chapter with a figure, an exercise, and links of every kind."""
    cells = [
        new_markdown_cell(
            f"# 02 · Layer norm\n\n{line_back(LAYER_NORM)} See [the README](../README.md) and "
            "[below](#Your-turn). 5 minutes to read, 15 to work through.",
            id="title",
        ),
        new_code_cell("import course_utils\n\ncourse_utils.setup()", id="set-up"),
        new_markdown_cell(
            "## Hook\n\nFor $f[i](x)$: [a cell](#cell-id=figure), [tested](#dry-water).\n\n"
            "```\n# no heading\n```",
            id="hook",
        ),
        new_code_cell("plots.show(figure, alt='A line that falls')", id="figure"),
        new_code_cell("print(1)", id="plain"),
        new_markdown_cell(
            "## Your turn\n\n<details><summary>Hint</summary>\n\nCount.\n</details>", id="turn"
        ),
        new_code_cell(STUB, id="stub", metadata={"tags": ["exercise"]}),
        new_code_cell(
            "def layer_norm_solution(x):\n    return x\n\n\n"
            "layer_norm = check.layer_norm.choose(layer_norm, layer_norm_solution)",
            id="solution",
            metadata={"tags": ["solution"], **FOLDED},
        ),
        new_markdown_cell(line_on(LAYER_NORM), id="on"),
        new_markdown_cell("## Evidence\n\nAll of it.", id="evidence"),
        new_markdown_cell("### dry-water", id="on-dry"),
        new_code_cell('claims.test("dry-water", x < 1)', id="dry", metadata=HIDDEN),
    ]
    notebook = new_notebook(cells=cells)
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
    by_id(notebook, "figure").outputs = [new_output("display_data", data=dict(FIGURE))]
    for cell_id in ("set-up", "plain", "stub"):
        by_id(notebook, cell_id).outputs = [new_output("stream", name="stdout", text="ready\n")]
    return notebook


def by_id(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.get("id") == cell_id)


def write(notebook, folder):
    (folder / "notebooks").mkdir(exist_ok=True)
    (folder / "README.md").write_text("# Course\n")
    for chapter in CHAPTERS:  # what the chapter links to
        (folder / "notebooks" / chapter.file).touch()
    path = folder / "notebooks" / LAYER_NORM.file
    # as it is: nbformat.write would repair what is to be found
    path.write_text(nbformat.v4.writes(notebook))
    return path


def findings(notebook, folder):
    return [(finding.rule, finding.cell) for finding in lint_notebook(write(notebook, folder))]


def test_a_notebook_that_keeps_every_rule_has_no_finding(tmp_path):
    assert findings(notebook_that_keeps_every_rule(), tmp_path) == []


def edit(cell_id, **values):
    """Return a breakage that sets fields of one cell."""
    return lambda notebook: by_id(notebook, cell_id).update(nbformat.from_dict(values))


def append(cell_id, text):
    """Return a breakage that adds text to the source of one cell."""
    return lambda notebook: by_id(notebook, cell_id).update(
        source=by_id(notebook, cell_id).source + text
    )


def output(cell_id, kind, **fields):
    """Return a breakage that replaces the outputs of one cell by one output."""
    return edit(cell_id, outputs=[new_output(kind, **fields)])


def html(text):
    """Return a breakage that shows ``text`` as the figure's HTML."""
    return output("figure", "display_data", data={"text/html": text, "text/plain": "Figure"})


def remove(cell_id):
    """Return a breakage that takes one cell away, and counts the rest anew."""

    def breakage(notebook: NotebookNode) -> None:
        notebook.cells = [cell for cell in notebook.cells if cell.id != cell_id]
        for count, cell in enumerate(
            (cell for cell in notebook.cells if cell.cell_type == "code"), start=1
        ):
            cell.execution_count = count

    return breakage


def old_format(notebook):
    notebook.nbformat_minor = 4


def store_widget_state(notebook):
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}


def another_heading_between(notebook):
    notebook.cells.insert(11, new_markdown_cell("### wet", id="wet"))


def lose_an_id(notebook):
    del by_id(notebook, "hook")["id"]


CARDS = "\n" + "\n".join(f'claims.test("c{i}", x < {i})' for i in range(7))
SECOND_STUB = "\n\n\ndef rms_norm(x):\n    ..."
LONG = "\n".join(f"x{i} = {i}" for i in range(41))
IMAGE_ONLY = output(
    "figure", "display_data", data={"image/png": PNG, "text/plain": "<Figure size 640x480>"}
)
# what it is called when pytest prints it, the breakage, the rule that must speak up, the cell that
# it must point to
BREAKAGES = [
    ("a cell never ran", edit("figure", execution_count=None), "not-run", 3),
    ("cells ran out of order", edit("figure", execution_count=7), "order", 3),
    ("an error", output("plain", "error", ename="E", evalue="", traceback=[]), "error", 4),
    (
        "a warning on stderr",
        output("figure", "stream", name="stderr", text="UserWarning: old\n"),
        "stderr",
        3,
    ),
    ("widget state", store_widget_state, "widget-state", None),
    ("an old format", old_format, "ids", None),
    ("a missing id", lose_an_id, "ids", 2),
    ("an id twice", edit("hook", id="turn"), "ids", 2),
    ("no title", edit("title", source="Layer norm. [below](#Your-turn)"), "title", 0),
    ("a title in the second cell", append("hook", "\n\n# Again"), "title", 2),
    ("a bare picture", IMAGE_ONLY, "alt-text", 3),
    (
        "an empty alt in an output",
        html(f'<img alt=" " src="data:image/png;base64,{PNG}">'),
        "alt-text",
        3,
    ),
    ("a picture without alt in the text", append("hook", "\n\n![](../README.md)"), "alt-text", 2),
    ("a link to a missing file", append("hook", "\n\n[next](99_nowhere.ipynb)"), "link", 2),
    ("a link to a missing heading", append("hook", "\n\n[there](#Their-turn)"), "link", 2),
    ("a link to a missing cell", append("hook", "\n\n[there](#cell-id=gone)"), "link", 2),
    (
        "a link in another notebook",
        append("hook", "\n\n[me](02_layer_norm.ipynb#Nowhere)"),
        "link",
        2,
    ),
    (
        "no link back",
        edit(
            "title",
            source="# 02 · Layer norm\n\n[below](#Your-turn) 5 minutes to read, 15 to work through",
        ),
        "links",
        0,
    ),
    ("another time", append("title", " 10 minutes to read."), "links", 0),
    ("no link on", edit("on", source="Goodbye."), "links", 8),
    ("a line after the links", append("on", "\n\nGoodbye."), "links", 8),
    ("a link from the root", append("hook", "\n\n[there](/README.md)"), "link", 2),
    ("a file larger than the limit", append("hook", "x" * 1_500_001), "size", None),
    ("a long cell", edit("figure", source=LONG), "long-cell", 3),
    ("a wide line", append("figure", f"\nx = {'1 + ' * 30}1"), "wide", 3),
    ("a wide print", output("figure", "stream", name="stdout", text="x" * 101), "wide", 3),
    ("a cell in sight that shows nothing", edit("figure", outputs=[]), "silent", 3),
    ("evidence in sight", edit("dry", metadata={}), "evidence", 11),
    ("seven cards in the flow", append("figure", CARDS), "evidence", 3),
    ("a claim without a heading", edit("on-dry", source="Dry."), "evidence", 11),
    ("a claim under another heading", another_heading_between, "evidence", 12),
    ("two claims in a cell", append("dry", '\nclaims.test("wet", x > 1)'), "evidence", 11),
    ("an install", append("figure", "\n%pip install einops"), "plain-python", 3),
    ("a home folder in code", append("figure", "\nopen('/home/ann/x.pt')"), "absolute-path", 3),
    (
        "a folder in an output",
        output("figure", "stream", name="stdout", text="saved /root/x"),
        "absolute-path",
        3,
    ),
    ("no set-up", edit("set-up", source="import course_utils"), "set-up", 1),
    ("a cell that is not run", edit("figure", metadata={"tags": ["nbval-skip"]}), "skipped", 3),
    (
        "a stub that is filled in",
        edit("stub", source="def layer_norm(x):\n    return x"),
        "stub",
        6,
    ),
    ("a stub that is not tagged", append("figure", SECOND_STUB), "exercise", 3),
    (
        "an exercise without a check",
        edit("stub", source=STUB.replace("check.", "print.")),
        "exercise",
        6,
    ),
    ("an exercise without a solution", remove("solution"), "exercise", 6),
    ("a solution without an exercise", remove("stub"), "solution", 6),
    ("a solution in sight", edit("solution", metadata={"tags": ["solution"]}), "solution", 7),
    (
        "a solution in exports",
        edit("solution", metadata={"tags": ["solution"], **HIDDEN}),
        "solution",
        7,
    ),
    ("a solution without its tag", edit("solution", metadata=HIDDEN), "solution", 7),
    (
        "a solution of something else",
        edit("solution", source="def rms_norm_solution(x):\n    return x"),
        "solution",
        7,
    ),
    (
        "a solution without a stand-in",
        append("solution", "\ndef mystery_solution(): ..."),
        "stand-in",
        7,
    ),
]


@pytest.mark.parametrize(
    ("breakage", "rule", "cell"), [b[1:] for b in BREAKAGES], ids=[b[0] for b in BREAKAGES]
)
def test_what_breaks_a_rule_is_found_where_it_stands(breakage, rule, cell, tmp_path):
    notebook = notebook_that_keeps_every_rule()
    breakage(notebook)
    assert (rule, cell) in findings(notebook, tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "import sys\n\nsys.path.insert(0, '..')",
        "import ipywidgets as widgets\n\nwidgets.Output()",
    ],
)
def test_ruff_finds_what_a_notebook_leaves_alone(code: str) -> None:
    book = nbformat.writes(new_notebook(cells=[new_code_cell(code)]))
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename"]
    for name, count in (("notebooks/x.ipynb", 1), ("student/x.ipynb", 0)):
        done = subprocess.run([*command, name, "-"], input=book, capture_output=True, text=True)
        assert done.stdout.count("TID251") == count, done.stdout


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"nbformat": 4}', '{"nbformat": 3, "worksheets": []}']
)
def test_a_file_that_is_no_notebook_is_a_finding_not_a_crash(text, tmp_path):
    (tmp_path / "broken.ipynb").write_text(text)
    assert [finding.rule for finding in lint_notebook(tmp_path / "broken.ipynb")] == ["format"]


OLDER = (
    "Builds on [09 Gone](09_gone.ipynb), and [03 Batch norm](03_batch_norm.ipynb). 40 "
    "minutes to read, 90 to work through, ten seconds to run."
)


@pytest.mark.parametrize("first", [OLDER, "You can derive it."], ids=["older links", "no links"])
@pytest.mark.parametrize(
    "last",
    [
        new_markdown_cell("A paper.\n\n**Next:** [09 Gone](09_gone.ipynb) is gone."),
        new_markdown_cell("A paper."),
        new_code_cell("claims.table()  # A paper."),
    ],
    ids=["an older line", "no line", "a code cell"],
)
@pytest.mark.parametrize("behind", [[], ["## Evidence"]], ids=["", "evidence behind"])
def test_lines_between_chapters_are_written_as_the_lint_asks(first, last, behind, tmp_path):
    cells = [
        new_markdown_cell(f"# 02 · Layer norm\n\n{first}"),
        new_code_cell("1 + 1", outputs=[]),
        last,
        *map(new_markdown_cell, behind),
    ]
    path = write(new_notebook(cells=cells), tmp_path)
    said = [
        (finding.cell, finding.message)
        for finding in lint_notebook(path)
        if finding.rule == "links"
    ]
    assert [cell for cell, _ in said] == [0, 0, 2]
    assert all("python -m tools links 02" in message for _, message in said)
    assert write_links(path)
    assert not write_links(path)
    assert "links" not in {finding.rule for finding in lint_notebook(path)}
    assert all(kept in path.read_text() for kept in ("A paper.", "1 + 1", *behind))
    assert "gone" not in path.read_text()
    assert path.read_text().count("5 minutes to read") == 1
    assert (", ten seconds to run." in path.read_text()) == (first == OLDER)


def test_only_a_chapter_has_lines_to_write(tmp_path):
    path = write(new_notebook(), tmp_path).rename(tmp_path / "scratch.ipynb")
    with pytest.raises(ValueError, match="path must be a chapter's notebook"):
        write_links(path)
