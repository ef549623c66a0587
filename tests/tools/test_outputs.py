"""What counts as the same output on another machine, and what nbval then says of a notebook."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from small_notebooks import run_nbval

from tools.notebooks import execute, read_notebook
from tools.outputs import say_the_same

CARD = (
    "<div><strong>● holds</strong></div><div>30 shapes, the last off by 3.8e-08, at most 0.71 "
    "of it</div>"
)
TABLE = (
    "error     rows  share\n--------  ----  -----\n3.8e-08     12   9.97\n-0.42     1,024  0.50\n"
)
ALT = '<img alt="Two curves, apart by 0.71 at most." src="data:image/png;base64,iVBORw0KGgo=">'


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        (CARD, CARD.replace("3.8e-08", "3.7e-08").replace("0.71", "0.70")),
        (
            TABLE,
            "error     rows   share\n-------  -----  ------\n3.9e-08     12   9.98\n-0.41     "
            "1,024  0.51\n",
        ),
        ("off by 0.10.", "off by 0.09."),  # at the end of a sentence
        ("1e-05", "9e-06"),  # one unit further down, the unit is another
        ("-0.1", "0.0"),  # one unit on, the sign is gone
        ("1.5x and 0.25ms", "1.6x and 0.24ms"),
    ],
)
def test_a_last_digit_may_be_another(stored, fresh):
    assert say_the_same(stored, fresh)
    assert say_the_same(fresh, stored)


OTHERWISE = {
    "a word": (CARD, CARD.replace("off", "of")),
    "an integer": (CARD, CARD.replace("30 shapes", "29 shapes")),
    "an integer with a comma": (TABLE, TABLE.replace("1,024", "1,025")),
    "two units": (CARD, CARD.replace("3.8e-08", "3.6e-08")),
    "two units at the end of a sentence": ("within 0.71.", "within 0.69."),
    "a power of ten down": ("within 1e-05", "within 1e-06"),
    "a sign": (TABLE, TABLE.replace("-0.42", "0.42")),
    "the sign of zero": ("0.0", "-0.0"),
    "a small number's sign": ("-0.01", "0.01"),
    "a fraction, an integer": ("1.0", "1"),
    "no number": ("loss 0.5", "loss nan"),
    "a missing line": (TABLE, TABLE.replace("-0.42     1,024  0.50\n", "")),
    "a missing number": ("0.5 0.5", "0.5"),
    "an alternative text": (ALT, ALT.replace("0.71", "0.70")),
    "a line's end": ("0.5\n0.5", "0.4 0.5"),
    "columns that no number moved": ("a  b", "a b"),
    "a version's middle": ("torch 2.13.0 off by 0.5", "torch 2.14.0 off by 0.5"),
    "a colour": ("#0.5e50", "#0.6e50"),
}


@pytest.mark.parametrize(("stored", "fresh"), OTHERWISE.values(), ids=OTHERWISE)
def test_anything_else_may_not(stored, fresh):
    assert not say_the_same(stored, fresh)
    assert not say_the_same(fresh, stored)


def show(text, mime):
    return f"from IPython.display import display\ndisplay({{{mime!r}: {text!r}}}, raw=True)"


# what a cell prints or shows, what of it is changed in the stored output, and whether nbval may
# notice
CHANGES = [
    (f"print({TABLE!r})", ("9.97", "9.98"), True),
    (f"print({TABLE!r})", ("9.97", "9.99"), False),
    (show(CARD, "text/html"), ("3.8e-08", "3.9e-08"), True),
    (show(CARD, "text/html"), ("● holds", "◐ holds if"), False),
    (show(ALT, "text/html"), ("iVBORw0KGgo=", "iVBORw0KGgoAAAA="), True),
]


def stored_otherwise(path):
    notebook = read_notebook(path)
    for cell, (_, (old, new), _) in zip(notebook.cells, CHANGES, strict=True):
        (output,) = cell.outputs
        holder, key = (
            (output, "text") if output.output_type == "stream" else (output.data, "text/html")
        )
        assert old in holder[key]
        holder[key] = holder[key].replace(old, new)
    nbformat.write(notebook, path)


@pytest.fixture
def changed(tmp_path):
    cells = [new_code_cell(source, id=f"c{i}") for i, (source, _, _) in enumerate(CHANGES)]
    path = tmp_path / "02_layer_norm.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    assert execute(path)
    stored_otherwise(path)
    return path


@pytest.mark.slow
def test_nbval_is_red_where_more_than_a_last_digit_differs_and_only_there(changed):
    printed = run_nbval(changed)
    for index, (_, change, is_green) in enumerate(CHANGES):
        assert (f"::Cell {index} " not in printed) == is_green, (change, printed)


@pytest.mark.slow
def test_a_run_rewrites_what_differs_by_more_than_a_last_digit_and_pictures(changed):
    before = read_notebook(changed)
    assert execute(changed)
    for (_, (_, new), is_green), old, fresh in zip(
        CHANGES, before.cells, read_notebook(changed).cells, strict=True
    ):
        is_kept = old.outputs == fresh.outputs
        assert is_kept == (is_green and "iVBOR" not in new), new
    assert not execute(changed)
