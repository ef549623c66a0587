"""The ledger of claims: what the notebooks say now, and findings where a claim did not run as it is
written."""

from dataclasses import replace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from tried_claims import TRIED

from chapters.c20_on_trial import ledger
from course_utils import claims as book_claims
from course_utils.claims import Card
from tools.ledger import claims_in, collect, ledger_text
from tools.lint import Page
from tools.notebooks import find_notebooks


def test_the_ledger_says_what_the_notebooks_say_now():
    entries, findings = collect(find_notebooks())
    assert [str(finding) for finding in findings] == []
    assert ledger.LEDGER.read_text(encoding="utf-8") == ledger_text(entries), (
        "make ledger, then make run NB=20"
    )


SOURCE = 'claims.test("dry", x.max() < 1, number=x.max())'


def notebook(source=SOURCE, cards=("dry",), tags=()):
    cell = new_code_cell(source, id="cell", metadata={"tags": list(tags)})
    for card in (Card(TRIED[key], (0.5, 1.5, 2)) for key in cards):
        cell.outputs.append(
            new_output("display_data", {"text/html": card._repr_html_(), "text/plain": repr(card)})
        )
    return new_notebook(cells=[cell])


def read(book, folder):
    path = folder / "02_layer_norm.ipynb"
    nbformat.write(book, path)
    return list(claims_in(Page.read(path)))


@pytest.fixture
def only_dry(monkeypatch):
    monkeypatch.setattr(book_claims, "load", lambda file: {"dry": TRIED["dry"]})


@pytest.mark.usefixtures("only_dry")
def test_an_entry_is_the_call_and_the_card_that_it_showed(tmp_path):
    (entry,) = read(notebook(), tmp_path)
    assert (entry.chapter, entry.cell, entry.key, entry.found) == (
        "02",
        "cell",
        "dry",
        "0.5, 1.5, 2",
    )
    assert entry.claim is TRIED["dry"]
    assert entry.link == "02_layer_norm.ipynb#cell-id=cell"


@pytest.mark.usefixtures("only_dry")
@pytest.mark.parametrize(
    ("book", "message"),
    [
        (notebook(cards=()), "tests dry and showed nothing"),
        (notebook(SOURCE.replace('"dry"', 'f"{i}"')), "the key of a claim is computed"),
        (notebook(SOURCE.replace("x.max() < 1", "True")), "the evidence of dry is a constant"),
        (
            notebook(SOURCE.replace("number=x.max()", "number=0.5")),
            "the number of dry is written out",
        ),
        (
            notebook(SOURCE.replace("dry", "warm"), ["warm"]),
            "warm has no entry in c02_layer_norm/claims.toml",
        ),
        (notebook(tags=["nbval-ignore-output"]), "nothing would notice another verdict"),
        (notebook(f"{SOURCE}\n{SOURCE}", ["dry", "dry"]), "test each claim once"),
        (notebook("", ()), "dry in c02_layer_norm/claims.toml is tested in no cell"),
    ],
)
def test_a_claim_that_did_not_run_as_it_is_written_is_a_finding(book, message, tmp_path):
    findings = [one for one in read(book, tmp_path) if not isinstance(one, ledger.Entry)]
    assert any(message in finding.message for finding in findings)
    assert {finding.rule for finding in findings} == {"claim"}


def test_a_card_of_another_verdict_is_a_finding(monkeypatch, tmp_path):
    book = notebook()
    monkeypatch.setattr(
        book_claims, "load", lambda file: {"dry": replace(TRIED["dry"], verdict="holds")}
    )
    (finding,) = read(book, tmp_path)
    assert "dry has another verdict or sentence in c02_layer_norm/claims.toml" in finding.message
