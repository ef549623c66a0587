"""Copies for students, without solutions."""

import pytest

from tools.student import without_solution


def test_a_solution_that_no_check_knows_names_its_stand_in():
    source = (
        "@torch.no_grad()\ndef halve_solution(x):\n    return x / 2\n\n\nanswer_solution = 42\n"
    )
    source += "halve = halve_solution"
    with pytest.raises(ValueError, match="no check says what is right for 'answer'"):
        without_solution(source)
    lines = without_solution(source, {"halve": "operator:neg", "answer": "math:pi"}).splitlines()
    assert lines[0] == "from operator import neg as halve_solution"
    assert lines[3:] == ["from math import pi as answer_solution", "halve = halve_solution"]
    for missing in ("math:tau2", "no_such_module:pi"):
        with pytest.raises(ValueError, match=f"got '{missing}'"):
            without_solution(source, {"halve": "operator:neg", "answer": missing})
