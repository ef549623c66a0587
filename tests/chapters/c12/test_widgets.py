"""The widget of chapter 12: what attention is told of a distance."""

import numpy as np
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from course_utils.rope import sinusoidal


def test_each_encodings_curve_is_what_attention_is_told(figures):
    for state, values in figures("encoding_by_distance", "distanceValues", 120):
        reach = state["reach"]
        if state["encoding"] == "sinusoidal":  # the product of two codes, wherever they stand
            code = sinusoidal(
                torch.arange(300, 301 + reach), state["dim"], state["base"], dtype=torch.float64
            )
            expected = code @ code[0] / (state["dim"] / 2)
        elif (
            state["encoding"] == "alibi"
        ):  # what Bloom adds for a head, (H, K), larger for later keys
            keys = build_alibi_tensor(torch.ones(1, reach + 1), state["heads"], torch.float32)[
                state["head"] - 1, 0
            ]
            expected = (keys - keys[-1]).flip(0)
        elif state["encoding"] == "t5":
            distances = torch.arange(reach + 1)
            expected = T5Attention._relative_position_bucket(
                -distances, False, 32, state["max_distance"]
            )
        else:
            expected = torch.zeros(reach + 1)
        np.testing.assert_allclose(
            values, expected, rtol=1e-5, atol=1e-5 if state["encoding"] == "alibi" else 1e-12
        )
