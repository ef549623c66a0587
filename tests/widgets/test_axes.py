"""The axis explorer: groups, refusals and outputs are those of PyTorch's own layers."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from widget_states import random_states

from course_utils import widgets
from course_utils.widgets import axes


def axis_state(norm="batch", layout="B,C,H,W", groups=2, **sizes):
    smaller = {"B": 2, "C": 6, "H": 2, "W": 2, "T": 3, **sizes}
    return widgets.axis_explorer(norm, layout, groups).state | {"sizes": smaller}


def at_picked(state):
    return tuple(state["picked"][axis] for axis in axes.LAYOUTS[state["layout"]])


def axis_layer(state):
    """Return the example tensor in float64, and PyTorch's own layer in training mode by the line
    that is shown."""
    line = axes.RULES[state["norm"]][state["layout"]]["line"].format(
        **state["sizes"], G=state["groups"]
    )
    x = torch.tensor(widgets.axis_explorer().data["example"], dtype=torch.float64)
    shape = axes.shape_of(state)
    return x[: math.prod(shape)].reshape(shape), lambda x: eval(
        line.replace(")(", ").double()("), {"nn": nn, "x": x}
    )


def test_moving_one_element_moves_the_outputs_of_those_that_the_browser_says_share_its_statistic(
    figures,
):
    for state, shared in figures("axis_explorer", "sharing", 100):
        x, layer = axis_layer(state)
        try:
            plain = layer(x)
        except (ValueError, RuntimeError):
            continue
        if (
            shared["members"] == 1
        ):  # a value alone in its statistic is normalized to 0 wherever it moves
            continue
        moved = x.clone()
        moved[at_picked(state)] += 1.0
        group_of = torch.tensor(shared["groupOf"]).reshape(x.shape)
        assert torch.equal(layer(moved) != plain, group_of == group_of[at_picked(state)])


def test_the_browser_refuses_what_pytorch_refuses_and_gives_the_picked_element_pytorchs_output(
    figures,
):
    expected = []
    for state, refusal in figures("axis_explorer", "refusalOf", 150):
        x, layer = axis_layer(state)
        drawn = widgets.axis_explorer()
        drawn.state = state
        assert torch.equal(drawn.x, x.float())
        if refusal:
            with pytest.raises(ValueError):  # noqa: PT011 (in PyTorch's own words)
                layer(x)
        else:
            expected.append((state, layer(x)[at_picked(state)].item()))
    assert 75 < len(expected) < 140
    found = figures("axis_explorer", "pickedValues", [state for state, _ in expected])
    # one value minus its own mean is rounding noise, which the two round differently, times 1/√ε =
    # 316
    assert [values["output"] for _, values in found] == pytest.approx(
        [y for _, y in expected], abs=1e-12 * 316
    )


def test_the_line_shown_runs_and_its_layer_has_the_tensors_shown(figures):
    every = [axis_state(norm, layout, 3) for norm in axes.NORMS for layout in axes.LAYOUTS]
    for _, lines in figures("axis_explorer", "facts", every):
        facts = dict(lines)
        assert facts["in PyTorch"].startswith("nn.")
        layer = eval(facts["in PyTorch"].split(")(x")[0] + ")", {"nn": nn})

        def shape_of(name, layer=layer):
            tensor = getattr(layer, name, None)
            return "none" if tensor is None else str(tuple(tensor.shape))

        assert (facts["weight"], facts["bias"]) == (shape_of("weight"), shape_of("bias"))
        buffers = [
            f"{name} {shape_of(name)}"
            for name in ("running_mean", "running_var")
            if shape_of(name) != "none"
        ]
        assert facts["running buffers"] == (", ".join(buffers) or "none")


def test_clicks_and_arrow_keys_reach_every_element(in_browser):
    every_centre = """(state) => {
        const g = module.geometry(state, 720);
        const found = [];
        for (let s = 0; s < g.shelves; s++) for (let c = 0; c < g.cards; c++)
            for (let r = 0; r < g.rows; r++) for (let k = 0; k < g.columns; k++) {
                const [x0, y0] = g.corner(s, c);
                const x = x0 + (k + 0.5) * g.cell.width;
                const y = y0 + (r + 0.5) * g.cell.height - module.SLOPE * (x - x0);
                found.push(module.elementAt(x, y, state, 720)?.picked);
            }
        return found;
    }"""
    walk = """(state) => {
        const found = [];
        const press = (from, key) => module.elementByKey({ key, shiftKey: false }, from);
        const size = (axis) => state.sizes[axis];
        const [down, right] = state.layout === "B,C,H,W"
            ? [size("B") * size("H"), size("C") * size("W")]
            : [size("T"), size("B") * size("C")];
        for (let line = state, i = 0; i < down; line = press(line, "ArrowDown"), i++)
            for (let here = line, k = 0; k < right; here = press(here, "ArrowRight"), k++)
                found.push(here.picked);
        return found;
    }"""
    start = {"picked": dict.fromkeys("BCHWT", 0)}
    states = [state | start for state in random_states("axis_explorer", 15, seed=4)]
    calls = [[state] for state in states]
    clicked, walked = (
        in_browser("axis_explorer", function, calls) for function in (every_centre, walk)
    )
    for state, clicks, steps in zip(states, clicked, walked, strict=True):
        every = list(np.ndindex(*axes.shape_of(state)))
        assert [at_picked({**state, "picked": picked}) for picked in clicks] == every
        assert {at_picked({**state, "picked": picked}) for picked in steps} == set(every)
