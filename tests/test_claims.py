"""Claims: a statement enters the ledger only with its evidence, and a table only with a cell for each column."""

import numpy as np
import pytest
import torch

from course_utils import Claims, Table


def test_false_evidence_fails_the_cell_and_records_nothing():
    claims = Claims("02")
    with pytest.raises(AssertionError, match="the evidence does not support «water is dry»"):
        claims.prove("dry", "water is dry", 1 > 2, number=0.3)
    assert list(claims) == []


def test_nan_is_no_evidence():
    with pytest.raises(AssertionError):
        Claims("02").prove("nan", "NaN is small", float("nan") < 1)


def test_an_unknown_verdict_lists_the_known_ones():
    with pytest.raises(ValueError, match="holds with a condition, does not hold: got 'maybe'"):
        Claims("02").prove("a", "b", True, verdict="maybe")


def test_running_a_cell_again_replaces_its_claim(capsys):
    claims = Claims("02")
    for number in (0.25, 0.5):
        claims.prove("half", "a number", True, number=number, source="Ba et al. 2016 §1")
    assert [claim.number for claim in claims] == ["0.5"]
    assert capsys.readouterr().out.splitlines()[-1] == "claim half: holds (0.5)"
    claims.prove("whole", "no number", True)
    assert capsys.readouterr().out == "claim whole: holds\n"


def test_the_table_shows_every_claim_with_its_verdict_and_number():
    claims = Claims("02")
    claims.prove("a", "x < y", True, number=1.5e-7, source="S3")
    claims.prove("b", "<script>", True, verdict="does not hold")
    text, html = repr(claims.table()), claims.table()._repr_html_()
    assert "x < y" in text
    assert "1.5e-07" in text
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (-0.0, "0"), (1.0, "1"), (0.12345, "0.123"), (1e-5, "1.0e-05"), (12345.6, "12,346"), (1234, "1,234"),
     (True, "yes"), ("a", "a"), (float("nan"), "NaN"), (float("inf"), "inf"), (-3.14159, "-3.14"), (2e7, "2.0e+07")],
)  # fmt: skip
def test_numbers_are_shown_to_three_digits(value, shown):
    assert Table(("column",), [(value,)]).cells == [[shown]]


def test_a_row_of_the_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="got 1 cells for 2 columns"):
        Table(("a", "b"), [(1,)])


@pytest.mark.parametrize("evidence", [True, np.bool_(True), torch.tensor(True), torch.tensor([1])], ids=repr)
def test_evidence_is_a_truth_value(evidence):
    claims = Claims("02")
    claims.prove("a", "b", evidence)
    assert len(list(claims)) == 1


@pytest.mark.parametrize(
    "evidence",
    [(1 > 2, "a remark"), [False], "1 > 2", lambda: False, torch.zeros(2), torch.zeros(0), None],
    ids=["tuple", "list", "string", "function", "tensor", "empty tensor", "None"],
)
def test_what_is_true_whatever_is_in_it_is_no_evidence(evidence):
    with pytest.raises(TypeError, match="evidence must be True or False, or a tensor of one element: got "):
        Claims("02").prove("a", "b", evidence)
