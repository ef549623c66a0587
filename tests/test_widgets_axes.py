"""The axis explorer's rule and figure data: PyTorch is the witness."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from widget_states import random_axis_states

from course_utils import widgets
from course_utils.widgets import explorer
from course_utils.widgets.axes import LAYOUTS, NORMS, SIZE_LIMITS, AxisState, sharing
from course_utils.widgets.axes_check import builtin, check_against_builtin, example_input, normalize_by_rule
from course_utils.widgets.base import as_json

_sizes = st.fixed_dictionaries({axis: st.integers(1, limit) for axis, limit in SIZE_LIMITS.items()})
_picked = st.fixed_dictionaries({axis: st.integers(0, limit - 1) for axis, limit in SIZE_LIMITS.items()})
axis_states = st.builds(
    AxisState,
    st.sampled_from(list(NORMS)),
    st.sampled_from(list(LAYOUTS)),
    _sizes,
    st.integers(1, SIZE_LIMITS["C"]),
    _picked,
)


def refused(state):
    """Return PyTorch's exception for a state, or None."""
    try:
        builtin(state, example_input(state))
    except (ValueError, RuntimeError) as error:
        return error
    return None


@settings(max_examples=300, deadline=None)
@given(axis_states)
def test_moving_one_element_moves_the_outputs_of_those_that_share_its_statistic_and_no_others(state):
    assume(refused(state) is None)
    shared = sharing(state)
    assume(shared.members > 1)  # a value alone in its statistic is normalized to 0 wherever it moves
    x = example_input(state)
    moved = x.clone()
    moved[state.picked_index] += 1.0
    changed = builtin(state, moved) != builtin(state, x)
    group_of = torch.tensor(shared.group_of).reshape(state.shape)
    assert torch.equal(changed, group_of == group_of[state.picked_index])


@settings(max_examples=300, deadline=None)
@given(axis_states)
def test_the_rule_alone_normalizes_as_the_built_in_does(state):
    assume(refused(state) is None)
    x = example_input(state)
    members = sharing(state).members
    # one value minus its own mean is rounding noise, which PyTorch's layers and the rule round differently, times 316
    tolerance = 1e-12 if members > 1 else 1e-12 * 316
    torch.testing.assert_close(normalize_by_rule(state, x), builtin(state, x), atol=tolerance, rtol=0)


@settings(max_examples=200, deadline=None)
@given(axis_states)
def test_the_counts_and_the_shape_of_the_mean_follow_from_who_shares_with_whom(state):
    assume(state.norm != "group" or state.sizes["C"] % state.groups == 0)
    shared = sharing(state)
    sizes = np.bincount(shared.group_of)
    assert len(shared.group_of) == math.prod(state.shape)
    assert len(sizes) == shared.count == math.prod(shared.statistic_shape)
    assert (sizes == shared.members).all()
    if state.norm == "layer":  # PyTorch hands out this one's statistics in their shape
        x = example_input(state)
        rest = state.shape[1:] if state.axes == "BCHW" else state.shape[2:]
        assert torch.native_layer_norm(x, rest, None, None, 1e-5)[1].shape == shared.statistic_shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_line_shown_runs_and_its_layer_has_the_tensors_shown(norm, layout):
    state = AxisState(norm, layout, {"B": 3, "C": 6, "H": 2, "W": 4, "T": 5}, groups=3)
    facts = dict(widgets.axis_explorer_figure(state).facts)
    x = example_input(state, torch.float32)
    assert torch.equal(eval(facts["in PyTorch"], {"nn": nn, "x": x}), builtin(state, x))

    layer = eval(facts["in PyTorch"].split(")(x")[0] + ")", {"nn": nn})

    def shape_of(name):
        tensor = getattr(layer, name, None)
        return "none" if tensor is None else str(tuple(tensor.shape))

    assert facts["weight"] == shape_of("weight")
    assert facts["bias"] == shape_of("bias")
    buffers = [f"{name} {shape_of(name)}" for name in ("running_mean", "running_var") if shape_of(name) != "none"]
    assert facts["running buffers"] == (", ".join(buffers) or "none")


def test_group_norm_with_one_group_shares_like_layer_norm_and_with_a_group_a_channel_like_instance_norm():
    def groups_of(norm, groups=2):
        return sharing(AxisState(norm, groups=groups)).group_of

    assert groups_of("group", groups=1) == groups_of("layer")
    assert groups_of("group", groups=6) == groups_of("instance")
    assert groups_of("rms") == groups_of("layer")
    assert groups_of("batch") != groups_of("instance")


def _sized(**sizes):
    return {"B": 2, "C": 6, "H": 2, "W": 2, "T": 3, **sizes}


@pytest.mark.parametrize(
    ("state", "call"),
    [
        (AxisState("group", groups=4), lambda: nn.GroupNorm(4, 6)),
        (AxisState("batch", sizes=_sized(B=1, H=1, W=1)), lambda: nn.BatchNorm2d(6)(torch.zeros(1, 6, 1, 1))),
        (AxisState("batch", "B,T,C", _sized(B=1, T=1)), lambda: nn.BatchNorm1d(6)(torch.zeros(1, 6, 1))),
        (AxisState("instance", sizes=_sized(H=1, W=1)), lambda: nn.InstanceNorm2d(6)(torch.zeros(2, 6, 1, 1))),
        (AxisState("instance", "B,T,C", _sized(T=1)), lambda: nn.InstanceNorm1d(6)(torch.zeros(2, 6, 1))),
        (
            AxisState("group", sizes=_sized(B=1, H=1, W=1), groups=6),
            lambda: nn.GroupNorm(6, 6)(torch.zeros(1, 6, 1, 1)),
        ),
    ],
)
def test_an_impossible_setting_says_what_pytorch_says(state, call):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the message is PyTorch's own, and compared below)
        call()
    data = widgets.axis_explorer_figure(state)
    assert data.answer.problem == f"ValueError: {refusal.value}"
    assert data.answer.errors == ()


def test_a_setting_that_leaves_one_value_to_a_statistic_is_remarked_upon_where_pytorch_accepts_it():
    alone = AxisState("group", sizes=_sized(H=1, W=1), groups=6)
    assert builtin(alone, example_input(alone)).abs().max() < 1e-3
    assert "single value" in check_against_builtin(alone).remark
    rms = AxisState("rms", sizes=_sized(C=1, H=1, W=1))
    assert torch.equal(builtin(rms, example_input(rms)).sign(), builtin(rms, example_input(rms)).round())
    assert "±1" in check_against_builtin(rms).remark
    assert check_against_builtin(AxisState("layer")).remark == ""


def test_the_picked_elements_arithmetic_gives_the_built_ins_output():
    for state in random_axis_states(60):
        answer = check_against_builtin(state)
        if answer.problem:
            continue
        output = float(builtin(state, example_input(state))[state.picked_index])
        assert float(answer.picked.rsplit("= ", 1)[1].replace("−", "-")) == pytest.approx(output, abs=0.0051)


def test_no_state_of_the_controls_fails_over_a_walk_of_2500():
    refusals = 0
    for state in random_axis_states(2500, seed=1):
        data = widgets.axis_explorer_figure(state)
        refusals += bool(data.answer.problem)
        assert (data.sharing is None) == (state.norm == "group" and state.sizes["C"] % state.groups != 0)
        assert bool(data.answer.problem) != bool(data.answer.errors)
        # float32 keeps 7 digits of numbers up to 10; the noise of a value alone is multiplied by 1/√ε = 316
        assert all(error < 1e-3 for _, error in data.answer.errors)
        assert all(label and text is not None for label, text in data.facts)
    assert 100 < refusals < 1500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"norm": "weight"}, "norm must be one of batch, layer, instance, group, rms: got 'weight'"),
        ({"layout": "C,B"}, "layout must be one of B,C,H,W; B,T,C: got 'C,B'"),
        ({"sizes": {"C": 9}}, r"sizes\['C'\] must be a whole number from 1 to 8: got 9"),
        ({"sizes": {"B": 2.0}}, r"sizes\['B'\] must be a whole number from 1 to 4: got 2\.0"),
        ({"sizes": {"N": 2}}, "sizes must name the axes B, C, H, W, T: got .*'N'"),
        ({"sizes": {0: 2}}, "sizes must name the axes B, C, H, W, T: got .*, 0$"),
        ({"sizes": (2, 3)}, r"sizes must be a dictionary by axis letter, as in .*: got \(2, 3\)"),
        ({"sizes": []}, r"sizes must be a dictionary .*: got \[\]"),
        ({"picked": {"B": 1.5}}, r"picked\['B'\] must be a whole number: got 1\.5"),
        ({"picked": 3}, "picked must be a dictionary .*: got 3"),
        ({"groups": 0}, "groups must be a whole number from 1 to 8: got 0"),
        ({"groups": 2.0}, r"groups must be a whole number from 1 to 8: got 2\.0"),
    ],
)
def test_the_axis_explorer_refuses_what_no_control_can_produce(arguments, message):
    with pytest.raises(ValueError, match=message):
        widgets.axis_explorer(**arguments)


def test_a_move_in_the_browser_is_answered_once_for_the_newest_state_and_with_its_number(monkeypatch):
    asked = []

    def count_and_check(state):
        asked.append(state)
        return check_against_builtin(state)

    monkeypatch.setattr(explorer, "check_against_builtin", count_and_check)
    widget = widgets.axis_explorer()
    assert len(asked) == 1
    assert widget.answer["errors"].startswith("largest difference: float32 ")

    moved = AxisState("group", groups=4)
    widget.set_state({"state": as_json(moved), "request": 7})  # as the browser's message does
    assert asked[1:] == [moved]
    assert widget.answer["request"] == 7
    assert widget.answer["problem"] == "ValueError: num_channels (6) must be divisible by num_groups (4)"

    widget.set_state({"state": as_json(moved), "request": 8})  # a question is answered even if nothing has changed
    assert widget.answer["request"] == 8
    widget.state = as_json(AxisState("layer"))  # and so is a state set by a cell
    assert widget.answer["problem"] == ""


def test_a_picked_element_that_has_lost_its_place_moves_to_the_last_one():
    state = AxisState(sizes=_sized(W=1), picked={"B": 1, "C": 5, "H": 1, "W": 3, "T": 0})
    assert state.picked_index == (1, 5, 1, 0)
