"""Rows that tell the five layers apart pass, and others are told which two agree, and on what."""

import re

import pytest
import torch

from chapters.c20_on_trial import check

ROWS = torch.linspace(-1, 1, 64).expand(2, 64)
FAR = ROWS + 1e4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS, "on every row: all five"),
        (FAR, "Rico and Road to ML, .* Take Rico, √.σ² . ε. with ε = 1e-08, and Road to ML"),
        (1e-4 * ROWS, "row: Road to ML and labml.ai. Take Road to ML, √.mean .x − μ"),
        (torch.cat([1e-3 * ROWS, FAR]), "Rico and rich-junwang, Rico and Clay, rich-junwang and"),
        (torch.cat([1e-7 * ROWS, FAR]), "row: Rico and Road to ML, Rico and Clay, Road to ML and"),
        (0 * ROWS, "all five. In a constant row nothing is left"),
        (1e20 * ROWS, "rich-junwang and labml.ai"),
        (FAR / 0, "all numbers must be finite"),
        (ROWS.half(), "It must return a float32 tensor of shape .B, 64.: got float16"),
        (ROWS[0], "got float32 of shape .64,."),
        (ROWS.tolist(), "got list"),
    ],
)
def test_of_other_rows_it_says_which_two_agree(rows, message):
    report = check.telling_rows(lambda: rows, record=False)
    assert not report
    assert report.attempted
    assert re.search(message, report.message)


def test_an_answer_that_fails_is_told_how():
    assert "ZeroDivisionError" in check.telling_rows(lambda: 1 / 0, record=False).message
