"""One row before and after normalization: PyTorch and numpy are the witnesses."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from widget_states import random_row_states

from course_utils import widgets
from course_utils.widgets import rows
from course_utils.widgets.rows import RowState, normalize_row_figure


@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("offset", [0.0, -3.5, 200.0])
@pytest.mark.parametrize("scale", [1.0, -2.0, 0.01])
def test_the_rows_output_is_pytorchs_layer_norm(eps, offset, scale):
    data = normalize_row_figure(RowState(offset=offset, scale=scale, eps=eps))
    x = offset + scale * torch.tensor(rows.VALUES[:8], dtype=torch.float64)
    # the row itself carries a rounding error of 2e-16 * 200, seen against a spread of 0.01
    torch.testing.assert_close(
        torch.tensor(data.outputs, dtype=torch.float64), F.layer_norm(x, (8,), eps=eps), atol=1e-10, rtol=0
    )
    assert data.output_variance == pytest.approx(data.predicted_variance, abs=1e-9)


def float32_row(state):
    """The same arithmetic by numpy: every operation in float32, sums taken from left to right."""
    x = np.float32(state.scale) * np.asarray(state.values[: state.features], np.float32) + np.float32(state.offset)
    n = np.float32(state.features)

    def mean(values):
        return np.add.accumulate(values)[-1] / n

    with np.errstate(invalid="ignore", divide="ignore"):
        mu = mean(x)
        variance = mean(x * x) - mu * mu if state.arithmetic == "one-pass" else mean((x - mu) ** 2)
        return (x - mu) / np.sqrt(variance + np.float32(state.eps))


def test_float32_is_rounded_after_every_operation():
    for state in random_row_states(400):
        if state.arithmetic != "float64":
            ours = np.asarray(normalize_row_figure(state).outputs, np.float32)
            np.testing.assert_array_equal(ours, float32_row(state))


def test_one_pass_is_the_first_to_forget_the_row_as_the_offset_grows():
    moved = {
        arithmetic: [
            normalize_row_figure(RowState(offset=offset, arithmetic=arithmetic)).moved for offset in (0, 1e3, 1e4, 1e8)
        ]
        for arithmetic in rows.ARITHMETICS
    }
    assert max(moved["float64"]) < 1e-6  # at 1e8 float64 has 8 digits left
    assert moved["two-pass"][2] < 1e-2 < moved["two-pass"][3]
    assert moved["one-pass"][1] > 10 * moved["two-pass"][1]
    assert math.isnan(moved["one-pass"][2])


def test_a_factor_is_forgotten_and_its_sign_is_not():
    upright = normalize_row_figure(RowState(eps=0.0))
    scaled, turned = (normalize_row_figure(RowState(eps=0.0, scale=scale)) for scale in (50.0, -50.0))
    assert scaled.moved < 1e-12
    np.testing.assert_allclose(turned.outputs, np.negative(upright.outputs), atol=1e-12)


def test_a_constant_row_is_normalized_to_zero_and_without_epsilon_to_nan():
    assert normalize_row_figure(RowState(scale=0.0)).outputs == [0.0] * 8
    assert all(math.isnan(y) for y in normalize_row_figure(RowState(scale=0.0, eps=0.0)).outputs)


def test_every_output_fits_the_pictures_axis():
    spike = normalize_row_figure(RowState((5.0,) + (0.0,) * 15, features=16))
    assert 3.8 < max(spike.outputs) < 4  # √15, the largest there is


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"controls": ("offset", "colour")},
            "controls must be among offset, scale, eps, features, arithmetic: got 'colour'",
        ),
        ({"controls": ("offset")}, r"controls must be among .*: got the text 'offset'; for a .*, pass \('offset',\)"),
        ({"controls": None}, "controls must be among .*, in a list or tuple: got None"),
        ({"values": [1.0]}, r"values must be 2 to 16 numbers: got \[1\.0\]"),
        ({"values": ("offset", "scale")}, r"values must be 2 to 16 numbers: got \('offset', 'scale'\)"),
        ({"values": 5}, "values must be 2 to 16 numbers: got 5"),
        ({"values": [1.0, math.nan]}, r"values must be 2 to 16 numbers: got \[1\.0, nan\]"),
        ({"features": 17}, "features must be a whole number from 2 to 16: got 17"),
        ({"features": 4.0}, r"features must be a whole number from 2 to 16: got 4\.0"),
        ({"eps": -1.0}, r"eps must be a number from 0 to 1: got -1\.0"),
        ({"eps": None}, "eps must be a number from 0 to 1: got None"),
        ({"offset": "5"}, r"offset must be a number from -10 to 1e\+08: got '5'"),
        ({"offset": 1e9}, "offset must be a number from -10"),
        ({"scale": 1e200}, r"scale must be a number from -100 to 100: got 1e\+200"),
        ({"arithmetic": "float16"}, "arithmetic must be one of float64, two-pass, one-pass: got 'float16'"),
        ({"offset": math.inf}, "offset must be a number .*: got inf"),
    ],
)
def test_the_row_refuses_what_no_control_can_produce(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.normalize_row(**arguments)


def test_between_the_stops_of_a_slider_anything_goes():
    assert widgets.normalize_row(offset=37, scale=0.3, eps=1e-4).state["offset"] == 37


def test_offsets_reach_far_only_where_the_arithmetic_can_be_chosen():
    assert max(widgets.normalize_row(controls=("offset", "scale")).data["stops"]["offset"]) == 10
    assert max(widgets.normalize_row().data["stops"]["offset"]) == 1e8
