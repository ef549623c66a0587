"""Layers on a row as in the kernel; the ledger, whole without one, its rows found by words."""

import pytest
import torch
from in_node import call_in_node

from chapters.c20_on_trial import ledger
from chapters.c20_on_trial.widgets import RIGHT, ledger_html, ledger_table, six_layers
from course_utils import claims
from course_utils.claims import Claim
from tools.lint import html_elements

ENTRIES = ledger.load()


def test_six_layers_are_those_that_were_published_where_rounding_does_not_decide(figures):
    widget, groups = six_layers(), set()
    for state, figure in figures("six_layers", "sixFigure", 200):
        groups.add(tuple(map(tuple, figure["alike"])))
        widget.state = state
        for name, y in widget.outputs.items():
            if state["offset"] > 30 * state["scale"] and name != RIGHT:
                continue
            got = torch.tensor([float(value) for value in figure["outputs"][name]])
            torch.testing.assert_close(got, y, rtol=1e-3, atol=1e-3, msg=f"{name}, {state}")
    assert len(groups) >= 6


def test_without_a_kernel_every_claim_is_there_with_a_link_to_its_cell():
    data, _ = ledger_table()._repr_mimebundle_()
    assert list(data) == ["text/plain", "application/vnd.jupyter.widget-view+json", "text/html"]
    assert str(len(ENTRIES)) in data["text/plain"]
    links = [e.attributes["href"] for e in html_elements(data["text/html"]) if e.tag == "a"]
    to_cells = [link for link in links if "#cell-id=" in link]
    assert set(to_cells) == {entry.link for entry in ENTRIES.values()}
    assert len(to_cells) == sum(len(entry.works) for entry in ENTRIES.values())
    assert "https://arxiv.org/abs/1607.06450" in links


def test_what_a_claim_says_is_text_and_never_markup(monkeypatch):
    claim = Claim(
        "key", "a < b & <script>alert(1)</script>", "holds if", condition="<b>1</b>", source="Rico"
    )
    monkeypatch.setattr(claims, "load", lambda file: {"key": claim})
    entry = ledger.Entry("02", "key", "cell", "<b>1</b>")
    html = ledger_html([entry])
    assert "<script>" not in html
    assert "<b>" not in html
    assert "a &lt; b &amp; &lt;script&gt;" in html


def test_an_unknown_choice_is_refused():
    for chosen in ({"source": "S9"}, {"verdict": "maybe"}):
        with pytest.raises(ValueError, match=f"{next(iter(chosen))} must be one of"):
            ledger_table(**chosen)


ROW = {
    "id": "1",
    "text": "rich-junwang: notes ε = 1e-12 is safe NaN in float16",
    "source": "rich-junwang",
    "verdict": "holds if",
}
ANY = {"text": "", "source": "", "verdict": ""}


def test_a_row_is_shown_when_it_has_every_word_the_source_and_the_verdict_and_counted_once(
    tmp_path,
):
    module = ledger_table()._esm
    shown = [
        ({}, True),
        ({"text": "  SAFE nan "}, True),  # words in any order and case
        ({"text": "safe banana"}, False),  # all of them
        ({"text": "Ε ="}, True),
        ({"source": "rich-junwang"}, True),
        ({"verdict": "holds"}, False),  # a verdict is not searched for inside another
        ({"text": "safe", "source": "Rico", "verdict": "holds if"}, False),
    ]
    answers = call_in_node(
        tmp_path, module, "module.isShown", [[ROW, ANY | state] for state, _ in shown]
    )
    assert answers == [is_shown for _, is_shown in shown]
    both, other = [ROW, ROW | {"source": "Rico"}], ROW | {"id": "2"}  # a claim in two groups
    calls = [[both, [*both, other]], [[], [*both, other]]]
    summaries = call_in_node(tmp_path, module, "module.summaryOf", calls)
    assert summaries == ["1 of 2 claims", "none of 2 claims: try fewer words"]
