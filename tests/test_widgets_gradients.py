"""A gradient on its way through a norm: torch's autograd is the witness, and the browser takes the same steps."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from clipping import assert_nothing_is_clipped
from in_node import call_in_node
from widget_states import random_gradient_states

from course_utils import plots, widgets
from course_utils.widgets import gradients
from course_utils.widgets.base import as_json
from course_utils.widgets.gradients import GradientState, gradient_projection_figure

STATES = list(random_gradient_states(300))


def by_autograd(state, data):
    """x̂ and dx / r by torch, for a row of the chosen deviation."""
    row = torch.tensor(gradients.ROW[: state.features], dtype=torch.float64)
    row = row - row.mean() if state.norm == "layer" else row
    x = (row * state.deviation / row.square().mean().sqrt()).requires_grad_()
    norm = F.layer_norm if state.norm == "layer" else F.rms_norm
    x_hat = norm(x, x.shape, eps=gradients.EPS)
    dx = torch.autograd.grad(x_hat, x, torch.tensor(data.gradient, dtype=torch.float64))[0]
    return x_hat.detach().numpy(), (dx * (state.deviation**2 + gradients.EPS) ** 0.5).numpy()


def test_what_leaves_is_autograds_gradient_over_r():
    for state in STATES:
        data = gradient_projection_figure(state)
        x_hat, left = by_autograd(state, data)
        np.testing.assert_allclose(data.x_hat, x_hat, atol=1e-12)
        np.testing.assert_allclose(data.left, left, atol=1e-12)


def test_the_parts_add_up_to_the_gradient_and_the_facts_follow_from_them():
    for state in STATES:
        data = gradient_projection_figure(state)
        np.testing.assert_allclose(np.add(data.left, data.along) + data.constant, data.gradient, atol=1e-12)
        assert data.left_length == pytest.approx(np.linalg.norm(data.left), abs=1e-12)
        assert data.gradient_length == pytest.approx(np.linalg.norm(data.gradient))
        arriving = np.mean(np.multiply(data.gradient, data.x_hat))
        assert data.left_along == pytest.approx(data.share * arriving, abs=1e-12)  # what epsilon lets through
        if state.norm == "layer":
            assert data.left_sum == pytest.approx(0, abs=1e-12)


def test_a_constant_never_comes_through_a_layer_norm_and_x_hat_does_when_the_row_is_small():
    assert gradient_projection_figure(GradientState(shape="constant", deviation=1e-4)).left_length < 1e-12
    lengths = {
        deviation: gradient_projection_figure(GradientState(shape="x_hat", deviation=deviation))
        for deviation in (10.0, 0.00316, 0.0001)
    }
    shares = [data.left_length / data.gradient_length for data in lengths.values()]
    assert shares == pytest.approx([1e-7, 0.5, 1.0], rel=0.01)


def test_two_values_let_nothing_through():
    data = gradient_projection_figure(GradientState(features=2, deviation=10.0))
    assert data.left_length < 1e-6 * data.gradient_length


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"norm": "batch"}, "norm must be one of layer, rms: got 'batch'"),
        ({"shape": "square"}, "shape must be one of free, constant, x_hat, both: got 'square'"),
        ({"gradient": [1.0, 2.0]}, "gradient must be 8 numbers from -3 to 3"),
        ({"gradient": [9.0] * 8}, "gradient must be 8 numbers from -3 to 3"),
        ({"gradient": ("a",) * 8}, "gradient must be 8 numbers from -3 to 3: got .'a', "),
        ({"gradient": 5}, "gradient must be 8 numbers from -3 to 3: got 5"),
        ({"features": 1}, "features must be a whole number from 2 to 8: got 1"),
        ({"features": 6.0}, r"features must be a whole number from 2 to 8: got 6\.0"),
        ({"deviation": 0.0}, r"deviation must be a number from 0\.0001 to 10: got 0\.0"),
        ({"deviation": "1"}, r"deviation must be a number from 0\.0001 to 10: got '1'"),
        ({"deviation": 1e200}, r"deviation must be a number from 0\.0001 to 10: got 1e\+200"),
    ],
)
def test_what_no_control_can_produce_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.gradient_projection(**arguments)


def test_the_words_say_what_is_left():
    words = widgets.gradient_projection(shape="both", deviation=10.0).describe()
    assert "a constant and x̂" in words
    assert words.endswith("a length of 0.00 is left.")


@pytest.mark.parametrize("norm", gradients.NORMS)
def test_the_static_picture_clips_nothing(norm):
    figure = plots.gradient_projection(gradient_projection_figure(GradientState(norm=norm, features=8)))
    assert_nothing_is_clipped(figure)


@pytest.fixture
def in_browser(tmp_path):
    """Call a function of the widget's module with each of a list of argument lists."""
    return lambda function, calls: call_in_node(tmp_path, widgets.gradient_projection()._esm, function, calls)


def test_the_browser_finds_the_same_parts(in_browser):
    data = widgets.gradient_projection().data
    answers = in_browser("module.gradientFigure", [[as_json(state), data] for state in STATES])
    for state, answer in zip(STATES, answers, strict=True):
        expected = gradient_projection_figure(state)
        pairs = {
            "gradient": expected.gradient,
            "xHat": expected.x_hat,
            "constant": expected.constant,
            "along": expected.along,
            "left": expected.left,
            "leftSum": expected.left_sum,
            "leftAlong": expected.left_along,
            "share": expected.share,
        }
        for key, value in pairs.items():
            np.testing.assert_allclose(answer[key], value, rtol=1e-12, atol=1e-12, err_msg=f"{key} of {state}")


def test_a_bar_that_is_dragged_follows_the_hand_and_becomes_the_learners_own(in_browser):
    drag = """(state, data) => {
        const { arriving } = module.panels(760);
        const middle = (arriving.top + arriving.bottom) / 2;
        const taken = module.barAt(arriving.left + 5, middle, state, 760, false, data);
        const above = module.barAt(arriving.right, arriving.top - 80, taken, 760, true, data);
        return [module.barAt(5, middle, state, 760, false, data), taken, above];
    }"""
    state = GradientState(shape="constant")
    ((beside, taken, above),) = in_browser(drag, [[as_json(state), widgets.gradient_projection().data]])
    assert beside is None
    assert taken["gradient"][:6] == [0.0] + [1.5] * 5  # what was shown is kept, and only the bar in hand moves
    assert taken["shape"] == "free"
    assert above["gradient"][0] == gradients.LIMIT
    assert above["gradient"][1:] == taken["gradient"][1:]


def test_arrow_keys_choose_a_bar_and_move_it(in_browser):
    press = "(state, key, data) => module.barByKey({ key }, state, data)"
    data = widgets.gradient_projection().data
    state = as_json(GradientState(features=3, picked=2))
    right, left, up, other = in_browser(
        press, [[state, key, data] for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "a")]
    )
    assert (right["picked"], left["picked"]) == (2, 1)
    assert up["gradient"][2] == pytest.approx(gradients.GRADIENT[2] + 0.1)
    assert other is None
