"""The widget of chapter 21: what piece 0 and its mended version make of an input, in the browser as
here."""

from itertools import product

import torch

from chapters.c21_find_the_bug.widgets import STOPS, one_input


def test_the_browser_judges_every_input_as_the_course_does(figures):
    states = [dict(zip(STOPS, values, strict=True)) for values in product(*STOPS.values())]
    widget, verdicts = one_input(), set()
    for state, answer in figures("one_input", "inputFigure", states):
        widget.state = state
        both = widget.differences()
        verdict = tuple(off.ratio > 1 for off in both)
        assert verdict == (answer["piece"]["isWrong"], answer["mended"]["isWrong"]), state
        verdicts.add(verdict)
        if state["offset"] <= 10_000:
            for off, drawn in zip(both, answer.values(), strict=True):
                torch.testing.assert_close(
                    torch.tensor(drawn["outputs"]), off.got.float(), atol=1e-2, rtol=0
                )
    assert verdicts == {(False, False), (True, False), (True, True)}
