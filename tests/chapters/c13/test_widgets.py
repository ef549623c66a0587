"""The widgets of chapter 13: the codes of a position, and what attention is told of a distance."""

import numpy as np
import torch
from widget_states import random_states

from chapters.c13_why_position.widgets import code_ladder, encoding_by_distance
from course_utils.rope import alibi_bias, sinusoidal, t5_relative_bucket


def test_each_encodings_curve_is_what_attention_is_told(figures):
    widget = encoding_by_distance()
    for state, values in figures("encoding_by_distance", "distanceValues", 120):
        reach = state["reach"]
        if state["encoding"] == "sinusoidal":  # the product of two codes, wherever they stand
            code = sinusoidal(
                torch.arange(300, 301 + reach), state["dim"], state["base"], dtype=torch.float64
            )
            expected = code @ code[0] / (state["dim"] / 2)
        elif state["encoding"] == "alibi":  # of a head, from the last query back to the first key
            expected = alibi_bias(state["heads"], 1, reach + 1)[state["head"] - 1, 0].flip(0)
        elif state["encoding"] == "t5":
            distances = torch.arange(reach + 1)
            expected = t5_relative_bucket(-distances, False, 32, state["max_distance"])
        else:
            expected = torch.zeros(reach + 1)
        widget.state = state
        seen = widget.x[state["head"] - 1] if state["encoding"] == "alibi" else widget.x
        np.testing.assert_allclose(seen, values, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            values, expected, rtol=1e-5, atol=1e-5 if state["encoding"] == "alibi" else 1e-12
        )


def test_the_browser_has_the_codes_and_the_steps_that_the_kernel_has(in_browser):
    widget = code_ladder()
    states = list(random_states("code_ladder", 60))
    codes = in_browser("code_ladder", "module.codeValues", [[state] for state in states])
    steps = in_browser("code_ladder", "module.stepLengths", [[code] for code in codes])
    for state, code, lengths in zip(states, codes, steps, strict=True):
        widget.state = state
        np.testing.assert_allclose(widget.x, code, atol=1e-5)
        np.testing.assert_allclose(widget.x.diff(dim=0).norm(dim=1), lengths, atol=1e-4)
        if state["code"] == "sinusoid":
            assert np.ptp(lengths) < 1e-12
