"""What every widget keeps: picture and words without a kernel, nothing fetched, JavaScript that agrees with Python."""

import json
import re
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from in_node import call_in_node
from traitlets import TraitError
from widget_states import (
    random_axis_states,
    random_clock_states,
    random_least_time_states,
    random_neighbour_states,
    random_row_states,
    random_running_states,
    random_scaling_states,
    random_sync_states,
)

from course_utils import widgets
from course_utils.timing.profiling import Roofline
from course_utils.widgets.axes import LAYOUTS, RULES, AxisState
from course_utils.widgets.base import as_json
from course_utils.widgets.exchanges import sync_cost_figure
from course_utils.widgets.least_times import least_time_figure
from course_utils.widgets.neighbours import batch_neighbours_figure
from course_utils.widgets.rows import RowState, normalize_row_figure
from course_utils.widgets.running import running_average_figure
from course_utils.widgets.scaling_figure import ScalingState, rope_scaling_figure, summary_of

MACHINE = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
MAKERS = {
    "axis_explorer": widgets.axis_explorer,
    "normalize_row": widgets.normalize_row,
    "batch_neighbours": widgets.batch_neighbours,
    "gradient_projection": widgets.gradient_projection,
    "encoding_by_distance": widgets.encoding_by_distance,
    "rope_clocks": widgets.rope_clocks,
    "running_average": widgets.running_average,
    "rope_scaling": widgets.rope_scaling,
    "sync_cost": widgets.sync_cost,
    "least_time": partial(widgets.least_time, MACHINE),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_widget_brings_its_picture_and_its_words_for_places_without_a_kernel(name):
    first, second = (MAKERS[name]()._repr_mimebundle_()[0] for _ in range(2))
    assert list(first) == ["text/plain", "application/vnd.jupyter.widget-view+json", "text/html"]
    assert first["text/plain"] == second["text/plain"]
    assert first["text/html"] == second["text/html"]
    assert "0x" not in first["text/plain"]
    assert re.search(r'<img alt="[^"]{40,}" .*src="data:image/png;base64,', first["text/html"])


@pytest.mark.parametrize("name", MAKERS)
def test_the_words_follow_the_state(name):
    changed = {
        "axis_explorer": {"norm": "layer"},
        "normalize_row": {"offset": 3.0},
        "batch_neighbours": {"mode": "eval"},
        "gradient_projection": {"norm": "rms"},
        "encoding_by_distance": {"encoding": "t5"},
        "rope_clocks": {"base": 100},
        "running_average": {"convention": "keras"},
        "rope_scaling": {"factor": 16},
        "sync_cost": {"ranks": 512},
        "least_time": {"dtype": "bfloat16"},
    }[name]
    widget = MAKERS[name]()
    before = widget.describe()
    widget.state = {**widget.state, **changed}
    assert widget.describe() != before
    assert widget.describe() == MAKERS[name](**changed).describe()


@pytest.mark.parametrize("name", MAKERS)
def test_a_state_that_no_control_can_produce_does_not_reach_the_picture(name):
    widget = MAKERS[name]()
    for nonsense in (
        {
            "norm": "?",
            "mode": "?",
            "arithmetic": "?",
            "vectors": "?",
            "encoding": "?",
            "share": "?",
            "convention": "?",
            "route": "?",
            "dtype": "?",
        },
        {},
    ):
        broken = {key: nonsense.get(key, value) for key, value in widget.state.items()} if nonsense else {"unknown": 1}
        with pytest.raises((ValueError, TypeError, TraitError)):
            widget.state = broken


@pytest.mark.parametrize("maker", [*MAKERS.values(), widgets.ledger_table], ids=[*MAKERS, "ledger_table"])
def test_the_browsers_module_fetches_nothing(maker):
    module = maker()._esm
    assert not re.search(r"https?://|\bimport\b|\bfetch\(|XMLHttpRequest|<script", module)
    assert module.count("export default") == 1


@pytest.fixture
def in_browser_module(tmp_path):
    """Call a pure function of a widget's module with each of a list of argument lists."""
    return lambda name, function, calls: call_in_node(tmp_path, MAKERS[name]()._esm, function, calls)


def test_the_browser_groups_elements_and_words_the_facts_as_python_does(in_browser_module):
    states = list(random_axis_states(600, seed=2))
    data = json.loads(json.dumps({"rules": RULES, "layouts": LAYOUTS}))
    both = "(state, data) => [module.sharing(state, data), module.facts(state, data)]"
    answers = in_browser_module("axis_explorer", both, [[as_json(state), data] for state in states])
    for state, (shared, facts) in zip(states, answers, strict=True):
        expected = widgets.axis_explorer_figure(state)
        assert facts == [list(line) for line in expected.facts]
        if expected.sharing is None:
            assert shared is None
        else:
            assert tuple(shared["groupOf"]) == expected.sharing.group_of
            assert (shared["count"], shared["members"]) == (expected.sharing.count, expected.sharing.members)
            assert tuple(shared["statisticShape"]) == expected.sharing.statistic_shape


def test_the_browser_moves_a_picked_element_as_python_does(in_browser_module):
    states = list(random_axis_states(60, seed=3))
    answers = in_browser_module("axis_explorer", "module.change", [[as_json(state), "W", 1] for state in states])
    for state, moved in zip(states, answers, strict=True):
        assert moved == as_json(AxisState(**{**as_json(state), "sizes": {**state.sizes, "W": 1}}))


def test_a_click_in_the_middle_of_an_element_picks_it(in_browser_module):
    every_centre = """(state) => {
        const g = module.geometry(state, 720);
        const found = [];
        for (let s = 0; s < g.shelves; s++) for (let c = 0; c < g.cards; c++)
            for (let r = 0; r < g.rows; r++) for (let k = 0; k < g.columns; k++) {
                const [x0, y0] = g.corner(s, c);
                const x = x0 + (k + 0.5) * g.cell.width;
                const y = y0 + (r + 0.5) * g.cell.height - 0.32 * (x - x0);
                found.push(module.elementAt(x, y, state, 720)?.picked);
            }
        return found;
    }"""
    states = list(random_axis_states(40, seed=4))
    for state, found in zip(
        states, in_browser_module("axis_explorer", every_centre, [[as_json(s)] for s in states]), strict=True
    ):
        assert [tuple(picked[axis] for axis in state.axes) for picked in found] == list(np.ndindex(*state.shape))


def test_the_arrow_keys_reach_every_element_of_a_tensor(in_browser_module):
    walk = """(state) => {
        const found = [];
        const press = (from, key) => module.elementByKey({ key, shiftKey: false }, from);
        const size = (axis) => state.sizes[axis];
        const [down, right] = state.layout === "B,C,H,W" ? [size("B") * size("H"), size("C") * size("W")]
            : [size("T"), size("B") * size("C")];
        for (let line = state, i = 0; i < down; line = press(line, "ArrowDown"), i++)
            for (let here = line, k = 0; k < right; here = press(here, "ArrowRight"), k++) found.push(here.picked);
        return found;
    }"""
    start = dict.fromkeys("BCHWT", 0)
    states = [AxisState(**{**as_json(state), "picked": start}) for state in random_axis_states(30, seed=7)]
    for state, found in zip(
        states, in_browser_module("axis_explorer", walk, [[as_json(s)] for s in states]), strict=True
    ):
        reached = {tuple(picked[axis] for axis in state.axes) for picked in found}
        assert reached == set(np.ndindex(*state.shape))


def test_a_bar_that_is_dragged_follows_the_hand_and_leaves_its_neighbours_alone(in_browser_module):
    drag = """(state) => {
        const { input } = module.panels(720);
        const middle = (input.top + input.bottom) / 2;
        const taken = module.valueAt(input.left + 5, middle, state, 720, false);  // the first bar, at 0
        const aside = module.valueAt(input.right - 5, input.top - 50, taken, 720, true);  // beyond the last, and above
        return [module.valueAt(5, middle, state, 720, false), taken, aside];
    }"""
    state = RowState()
    calls = [[{**vars(state), "values": list(state.values)}]]
    ((beside, taken, aside),) = in_browser_module("normalize_row", drag, calls)
    assert beside is None
    assert taken["values"] == [0.0, *state.values[1:]]
    assert aside["values"][1:] == list(state.values[1:])
    assert aside["values"][0] > 2
    assert aside["picked"] == 0


def _numbers(value):
    """Read the numbers that JSON has no word for."""
    return (
        [_numbers(v) for v in value]
        if isinstance(value, list)
        else float(value.replace("Infinity", "inf") if isinstance(value, str) else value)
    )


def test_the_browser_rounds_every_operation_as_python_does(in_browser_module):
    states = list(random_row_states(600, seed=5))
    calls = [[{**vars(state), "values": list(state.values)}] for state in states]
    for state, answer in zip(states, in_browser_module("normalize_row", "module.rowFigure", calls), strict=True):
        expected = normalize_row_figure(state)
        pairs = {
            "inputs": expected.inputs,
            "spacing": expected.spacing,
            "outputs": expected.outputs,
            "mean": expected.mean,
            "variance": expected.variance,
            "unmoved": expected.unmoved,
            "moved": expected.moved,
            "predictedVariance": expected.predicted_variance,
        }
        for key, value in pairs.items():
            np.testing.assert_array_equal(_numbers(answer[key]), value, err_msg=f"{key} of {state}")
        # Python adds up more exactly than it rounds, from 3.12 on; the browser does not
        np.testing.assert_allclose(_numbers(answer["outputSum"]), expected.output_sum, atol=1e-12)


def test_the_browser_draws_the_same_neighbours_as_python(in_browser_module):
    states = list(random_neighbour_states(40, seed=6))
    data = widgets.batch_neighbours().data
    calls = [[vars(state), data] for state in states]
    for state, answer in zip(
        states, in_browser_module("batch_neighbours", "module.neighbourFigure", calls), strict=True
    ):
        expected = batch_neighbours_figure(state)
        for batch, outputs in expected.outputs.items():
            # the two languages' logarithms, sines and sums may differ in the last place
            np.testing.assert_allclose(answer["outputs"][str(batch)], outputs, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(answer["running"]["mean"], expected.running_mean, atol=1e-9)
        np.testing.assert_allclose(answer["running"]["variance"], expected.running_variance, rtol=1e-9)
        assert answer["expectedMean"] == pytest.approx(expected.expected_mean)
        assert answer["expectedVariance"] == pytest.approx(expected.expected_variance)
        assert answer["layerNorm"] == pytest.approx(expected.layer_norm)


def test_the_browser_averages_as_python_does(in_browser_module):
    states = list(random_running_states(60, seed=11))
    data = widgets.running_average().data
    calls = [[vars(state), data] for state in states]
    for state, answer in zip(states, in_browser_module("running_average", "module.runningFigure", calls), strict=True):
        expected = running_average_figure(state)
        names = {"truth": "truth", "batchMeans": "batch_means", "estimate": "estimate", "weights": "weights"}
        names |= {"memory": "memory", "lag": "lag", "scatter": "scatter", "startWeight": "start_weight"}
        for theirs, ours in names.items():
            # logarithms and powers of the two languages may differ in the last place
            np.testing.assert_allclose(answer[theirs], getattr(expected, ours), rtol=1e-9, atol=1e-12, err_msg=ours)


def test_the_browser_turns_the_clocks_as_python_does(in_browser_module):
    states = list(random_clock_states(60, seed=8))
    data = widgets.rope_clocks().data
    calls = [[vars(state), data] for state in states]
    for state, answer in zip(states, in_browser_module("rope_clocks", "module.clockFigure", calls), strict=True):
        expected = widgets.rope_clocks_figure(state)
        for name in ("theta", "scores", "score"):  # the two languages' powers may differ in the last place,
            np.testing.assert_allclose(answer[name], getattr(expected, name), atol=1e-9, err_msg=f"{name} of {state}")
        for name in ("key", "query", "between"):  # which 135,000 positions make 3e-11 of; 2π and 0 are one angle
            turned = np.subtract(answer[name], getattr(expected, name))
            np.testing.assert_allclose(np.exp(1j * turned), 1, atol=1e-9, err_msg=f"{name} of {state}")


def test_a_click_on_a_clock_picks_it_and_a_drag_along_the_score_is_the_distance(in_browser_module):
    everywhere = """(state) => {
        const { clocks, score } = module.panels(720);
        const count = state.dim / 2;
        const grid = module.gridOf(count, clocks);
        const clicked = (k) => module.pickAt(...grid.centre(k), state, 720, false).picked;
        const drag = (x, held) => module.pickAt(x, score.top + 9, state, 720, held).distance;
        const middle = (score.left + score.right) / 2;
        return [Array.from({ length: count }, (_, k) => clicked(k)),
            drag(score.left, false), drag(middle, true), drag(score.right, true), drag(2, true)];
    }"""
    states = list(random_clock_states(30, seed=9))
    answers = in_browser_module("rope_clocks", everywhere, [[vars(state)] for state in states])
    for state, (picked, *distances) in zip(states, answers, strict=True):
        assert picked == list(range(state.dim // 2))
        assert distances == [0, state.reach // 2, state.reach, 0]


def test_the_scores_axis_follows_the_distance_and_no_control_leaves_the_range(in_browser_module):
    walk = """(state, reaches) => [
        module.change(state, "distance", 4096, reaches), module.change(state, "reach", "64", reaches),
        module.change(state, "dim", 2, reaches), module.pickByKey({ key: "ArrowDown" }, { ...state, position: 0 }, 9),
        module.pickByKey({ key: "ArrowUp" }, state, state.position), module.pickByKey({ key: "ArrowRight" }, state, 9),
    ]"""
    states = list(random_clock_states(40, seed=10))
    calls = [[vars(state), widgets.rope_clocks().data["stops"]["reach"]] for state in states]
    for state, (far, near, flat, *stays) in zip(states, in_browser_module("rope_clocks", walk, calls), strict=True):
        for changed in (far, near, flat, *stays):
            widgets.ClockState(**changed)  # refuses what is out of range
        assert (far["distance"], far["reach"]) == (4096, 4096)
        assert (near["reach"], near["distance"]) == (64, min(64, state.distance))
        assert (flat["dim"], flat["picked"]) == (2, 0)


def test_the_browser_tells_of_a_scaling_method_what_python_tells(in_browser_module):
    for state in random_scaling_states(8, seed=9):
        methods = rope_scaling_figure(state).methods
        told = in_browser_module("rope_scaling", "module.summaryOf", [[asdict(method)] for method in methods])
        assert told == [summary_of(method) for method in methods]


def test_a_tick_adds_its_method_in_the_courses_order_and_an_example_fills_the_box(in_browser_module):
    widget = widgets.rope_scaling(("yarn",))
    moves = [("linear", True), ("yarn", False), ("example", "Pythia 70M"), ("factor", 16), ("config", "{}")]
    calls = [[widget.state, control, value, widget.data] for control, value in moves]
    ticked, unticked, chosen, moved, pasted = in_browser_module("rope_scaling", "module.change", calls)
    assert ticked["methods"] == ["linear", "yarn"]
    assert unticked["methods"] == []
    assert "gpt_neox" in chosen["config"]
    assert (moved["factor"], pasted["config"]) == (16, "{}")
    for state in (ticked, unticked, chosen, moved, pasted):
        ScalingState(**state)


def test_the_browser_counts_messages_and_bytes_as_python_does(in_browser_module):
    states = list(random_sync_states(200, seed=12))
    data = widgets.sync_cost().data
    calls = [[vars(state), data] for state in states]
    for state, answer in zip(states, in_browser_module("sync_cost", "module.costFigure", calls), strict=True):
        expected = sync_cost_figure(state)
        for theirs, ours in (("forward", expected.forward), ("backward", expected.backward)):
            assert answer[theirs]["messages"] == ours.messages
            assert answer[theirs]["bytes"] == pytest.approx(ours.bytes, rel=1e-12)
        for theirs, ours in (("forwardMs", expected.forward_ms), ("backwardMs", expected.backward_ms)):
            np.testing.assert_allclose(answer[theirs], ours, rtol=1e-12)
        assert answer["stepMs"] == pytest.approx(expected.step_ms, rel=1e-12)
        assert answer["waiting"] == pytest.approx(expected.waiting, rel=1e-12)


def test_the_browser_counts_bytes_and_operations_of_a_layer_norm_as_python_does(in_browser_module):
    states = list(random_least_time_states(100, seed=13))
    data = MAKERS["least_time"]().data
    calls = [[vars(state), data] for state in states]
    for state, answer in zip(states, in_browser_module("least_time", "module.leastTime", calls), strict=True):
        expected = least_time_figure(state, MACHINE)
        assert (answer["bytes"], answer["operations"]) == (expected.bytes_moved, expected.operations)
        assert answer["memoryMs"] == pytest.approx(expected.memory_ms, rel=1e-12)
        assert answer["arithmeticMs"] == pytest.approx(expected.arithmetic_ms, rel=1e-12)
