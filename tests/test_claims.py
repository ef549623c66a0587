"""Claims: false evidence fails, what cannot fail is no evidence, and a card says what was found."""

import re

import numpy as np
import pytest
import torch
from tried_claims import TRIED


@pytest.mark.parametrize(
    ("key", "evidence", "named"),
    [
        ("dry", {"evidence": 1 > 2}, "evidence"),
        ("ice", {"holds": True, "fails": 1 > 2}, "fails"),
        ("ice", {"holds": np.bool_(False), "fails": torch.tensor(True)}, "holds"),
    ],
)
def test_false_evidence_fails_the_cell_and_records_nothing(tried, key, evidence, named):
    with pytest.raises(AssertionError, match=f"{named} is false for «{TRIED[key].sentence}»"):
        tried.test(key, **evidence, number=0.3)
    assert list(tried) == []


@pytest.mark.parametrize(
    ("key", "evidence", "message"),
    [
        ("ice", {"evidence": True}, "is tested by holds and fails: got evidence"),
        ("ice", {"holds": True}, "fails must be True or False"),
        ("dry", {"holds": True, "fails": True}, "is tested by evidence: got holds and fails"),
        *(
            (
                "dry",
                {"evidence": value},
                "evidence must be True or False, or a tensor of one element",
            )
            for value in ((1 > 2, "a remark"), "1 > 2", lambda: False, torch.zeros(2), None)
        ),
    ],
)
def test_what_cannot_fail_is_no_evidence(tried, key, evidence, message):
    with pytest.raises(TypeError, match=message):
        tried.test(key, **evidence)


def test_a_card_has_the_words_of_the_claim_and_the_numbers_of_the_cell(tried, capsys):
    for kelvin in (1.0, 273.15):
        # running a cell again replaces its claim
        tried.test("warm", True, number=(kelvin, torch.tensor(0.25), 3))
    (card,) = tried
    assert (
        repr(card)
        == "● holds: water < ice [273 K, 0.2 in 3]"
        == capsys.readouterr().out.splitlines()[-1]
    )
    html = card._repr_html_()
    assert html.startswith('<div id="claim-warm"')
    assert "water &lt; ice" in html
    assert (
        '<a href="https://arxiv.org/abs/1607.06450" target="_blank" style="color:inherit">Ba et '
        "al. 2016</a> §1; " in html
    )
    assert "● holds  water < ice  273 K, 0.2 in 3" in repr(tried.index())
    assert tried.index()._repr_html_().startswith("<details><summary>1 claims")
    assert repr(tried.index()) == repr(tried.index())
    assert re.search('<a href="#warm"[^>]*>water &lt; ice</a>', tried.index()._repr_html_())
    tried.test("ice", holds=True, fails=True)
    assert "holds if T < 273 K: water is hard" in capsys.readouterr().out
