"""The widgets: picture and words without a kernel, nothing fetched, JavaScript that PyTorch and numpy agree with."""

import json
import math
import random
import re
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from clipping import assert_nothing_is_clipped
from in_node import call_in_node
from torch import nn
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.t5.modeling_t5 import T5Attention

from chapters import widgets_of
from chapters.c05_backward_by_hand import widgets as gradients
from chapters.c05_backward_by_hand.widgets import gradient_projection
from chapters.c08_batch_norm_across_machines.cost import gather, reduce
from chapters.c08_batch_norm_across_machines.widgets import RANKS
from chapters.c09_where_the_time_goes.widgets import least_time, measured_ms
from chapters.c11_scan import widgets as scan
from chapters.c13_rope.widgets import rope_clocks
from chapters.c18_on_trial.widgets import ledger_table
from chapters.contents import CHAPTERS
from course_utils import widgets
from course_utils.rope import (
    apply_rope,
    from_config,
    rope_cos_sin,
    rope_frequencies,
    rope_inv_freq,
    sinusoidal,
    yarn_paper_ramp,
)
from course_utils.table import format_number
from course_utils.timing import Roofline
from course_utils.widgets import axes, batches, rows, scaling
from course_utils.widgets.scaling_examples import EXAMPLES, PUBLISHED

MACHINE = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
NAMES = (
    *("axis_explorer", "normalize_row", "batch_neighbours", "gradient_projection", "encoding_by_distance"),
    *("rope_clocks", "running_average", "rope_scaling", "sync_cost", "normalized_shape", "rope_shapes"),
    *("kernel_blocks", "scan_rounds"),
)
MODULES = [widgets_of(chapter.number) for chapter in CHAPTERS]
MAKERS = {name: next(getattr(module, name) for module in MODULES if hasattr(module, name)) for name in NAMES} | {
    "least_time": partial(least_time, MACHINE)
}


def random_states(name, count, seed=0):
    """Yield states of the widget ``name``, each from what its data say that its controls can produce."""
    widget, draw = MAKERS[name](), random.Random(seed)
    data = widget.data
    for _ in range(count):
        state = {field: draw.choice(stops) for field, stops in data.get("stops", {}).items() if field in widget.state}
        for field in widget.state:  # a list that a control chooses from is called as its field is
            if names := data.get({"dtype": "itemsizes", "vectors": "vectors"}.get(field, f"{field}s")):
                state[field] = draw.choice(list(names))
        state |= _others(name, state, data, draw)
        assert state.keys() == widget.state.keys(), name
        yield state


def _others(name, state, data, draw):
    """The fields that are neither stops nor choices."""
    if name == "axis_explorer":
        sizes = {axis: draw.randint(1, limit) for axis, limit in axes.SIZE_LIMITS.items()}
        picked = {axis: draw.randrange(size) for axis, size in sizes.items()}
        return {"sizes": sizes, "picked": picked, "groups": draw.randint(1, 8)}
    if name == "normalize_row":
        values = [round(draw.uniform(-5, 5), 1) for _ in range(draw.randint(2, len(rows.VALUES)))]
        return {"values": values, "features": draw.randint(2, len(values)), "picked": 0}
    if name == "gradient_projection":
        gradient = [round(draw.uniform(-gradients.LIMIT, gradients.LIMIT), 1) for _ in gradients.ROW]
        return {"gradient": gradient, "features": draw.randint(2, 8), "picked": 0}
    if name == "batch_neighbours":
        return {field: draw.randint(low, high) for field, (low, high) in data["limits"].items()}
    if name == "running_average":
        return {"corrected": draw.random() < 0.5, "seed": draw.randint(*data["seeds"])}
    if name == "encoding_by_distance":
        return {"head": draw.randint(1, state["heads"])}
    if name == "rope_clocks":
        position = draw.choice([state["position"], draw.randint(0, data["stops"]["position"][-1])])
        distance, picked = draw.randint(0, state["reach"]), draw.randrange(state["dim"] // 2)
        return {"position": position, "distance": distance, "picked": picked}
    if name == "rope_scaling":
        methods = [method for method in data["methods"] if draw.random() < 0.5]
        return {"methods": methods, "config": draw.choice(["", "", *data["examples"].values(), "not JSON"])}
    if name in ("normalized_shape", "rope_shapes", "kernel_blocks"):
        sizes = {axis: draw.randint(1, most) for axis, most in data["limits"].items()}
        if name == "kernel_blocks":
            return {**sizes, "row": draw.randrange(sizes["rows"])}
        if name == "normalized_shape":
            chosen = {field: {k: draw.choice(v) for k, v in data[f"{field}s"].items()} for field in ("shape", "weight")}
            return {"layout": draw.choice(list(data["shapes"])), "sizes": sizes, "picked": 0, **chosen}
        layouts = {field: draw.choice(list(data["layouts"])) for field in ("pairs", "laid")}
        sizes["D"] = draw.choice(data["dims"])
        return {"cos": draw.choice(data["cosines"]), "sizes": sizes, "picked": 0, **layouts}
    if name == "scan_rounds":
        return {"done": draw.randint(0, len(data["joins"][state["method"]][str(state["length"])]))}
    return {}


@pytest.fixture
def in_browser(tmp_path):
    """Call a function of a widget's module with each of a list of argument lists."""
    return lambda name, function, calls: call_in_node(tmp_path, MAKERS[name]()._esm, function, calls)


@pytest.fixture
def figures(tmp_path):
    """Return ``count`` random states of a widget, or the given ones, each with what its browser computes for it."""

    def pairs(name, function, states):
        widget = MAKERS[name]()
        states = list(random_states(name, states)) if isinstance(states, int) else [widget.state | s for s in states]
        calls = [[state, widget.data] for state in states]
        return list(zip(states, call_in_node(tmp_path, widget._esm, f"module.{function}", calls), strict=True))

    return pairs


# --- every widget ---


@pytest.mark.parametrize("name", MAKERS)
def test_a_widget_brings_its_picture_and_its_words_for_places_without_a_kernel(name):
    data, _ = MAKERS[name]()._repr_mimebundle_()
    assert list(data) == ["text/plain", "application/vnd.jupyter.widget-view+json", "text/html"]
    assert re.search(r'<img alt="[^"]{40,}" .*src="data:image/png;base64,', data["text/html"])


@pytest.mark.parametrize("name", MAKERS)
def test_every_state_has_a_picture_and_words_of_its_own(name):
    shown = MAKERS[name]()
    words = []
    for state in random_states(name, 2, seed=3):
        shown.state = json.loads(json.dumps(state, allow_nan=False))  # as a message from the browser brings it
        figure, text = shown.picture()
        assert_nothing_is_clipped(figure)
        words.append(text)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("maker", [*MAKERS.values(), ledger_table], ids=[*MAKERS, "ledger_table"])
def test_the_browsers_module_fetches_nothing(maker):
    module = maker()._esm
    assert not re.search(r"https?://|\bimport\b|\bfetch\(|XMLHttpRequest|<script", module)
    assert module.count("export default") == 1


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("axis_explorer", {"norm": "weight"}, "norm must be one of batch, layer, .*: got 'weight'"),
        ("normalize_row", {"controls": ("offset", "colour")}, "controls must be among offset, scale"),
        ("batch_neighbours", {"batch": 3}, "batch must be one of 1, 2, 4, 8, 16, 32, 64: got 3"),
        ("running_average", {"momentum": 0.3}, "momentum must be"),
        ("gradient_projection", {"features": 9}, "features must be"),
        ("sync_cost", {"ranks": 7}, "ranks must be one of 2, 4, 8"),
        ("least_time", {"dtype": "int8"}, "dtype must be one of float64, float32, bfloat16, float16: got 'int8'"),
        ("encoding_by_distance", {"encoding": "rope"}, "encoding must be"),
        ("encoding_by_distance", {"heads": 4, "head": 5}, "head must be one of 1, 2, 3, 4: got 5"),
        ("normalized_shape", {"shape": "W"}, "shape must be one of C, T,C, B,T,C, T: got 'W'"),
        ("rope_shapes", {"cos": "T"}, "cos must be one of T,D, T,1,D: got 'T'"),
        ("scan_rounds", {"done": 4}, "done must be one of 0, 1, 2, 3: got 4"),
        ("kernel_blocks", {"block": 3}, "block must be one of 2, 4, 8, 16: got 3"),
        ("rope_clocks", {"reach": 65}, "reach must be one of 64, 512, 4096: got 65"),
        ("rope_scaling", {"methods": ("linear", "magic")}, "methods must be among linear, abf"),
    ],
)
def test_an_argument_that_no_control_reaches_is_refused_by_name(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        MAKERS[name](**arguments)


# --- shapes ---


def refused(call):
    """What PyTorch says to a call, or nothing."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def test_means_weights_and_refusals_are_those_of_layer_norm(figures):
    seen = set()
    for state, figure in figures("normalized_shape", "shapesFigure", 300):
        shape, normalized, weight = (figure[name] for name in ("shape", "normalized", "weight"))
        x = torch.arange(math.prod(shape), dtype=torch.float64).view(shape).square()
        gain = None if weight is None else torch.arange(math.prod(weight), dtype=torch.float64).view(weight)
        assert figure["refusal"] == refused(lambda x=x, n=normalized, w=gain: F.layer_norm(x, n, w)), state
        if gain is not None:
            assert figure["byHand"].get("error", "") == refused(lambda x=x, w=gain: x * w), state
        if figure["means"]:  # the elements of one number, and no others, decide its mean
            means = x.mean([*range(-len(normalized), 0)], keepdim=True)
            assert figure["meanShape"] == list(means.shape)
            assert torch.equal(means.flatten()[torch.tensor(figure["means"])], means.expand_as(x).flatten())
        if figure["entries"]:
            product = torch.broadcast_shapes(x.shape, gain.shape)
            assert figure["byHand"]["shape"] == list(product)
            if product == x.shape:
                assert torch.tensor(figure["entries"])[:, 0].equal(gain.long().expand_as(x).flatten())
            else:
                assert any(first < last for first, last in figure["entries"])
        seen.add((bool(figure["refusal"]), figure["means"] is None, figure["entries"] is None))
    assert len(seen) == 6  # every kind of state was among them


def by_transformers(x, angles, order, pairs, **_):
    """Queries turned as Llama or GPT-J turn them; angles are (1, T, D/2)."""
    heads_first = order == "B,H,T,D"
    if pairs == "half":
        both = angles.repeat(1, 1, 2)
        dim = 1 if heads_first else 2
        return modeling_llama.apply_rotary_pos_emb(x, x, both.cos(), both.sin(), unsqueeze_dim=dim)[0]
    tokens = x.transpose(1, 2) if heads_first else x  # (B, T, H, D)
    turned = modeling_gptj.apply_rotary_pos_emb(tokens, angles.sin(), angles.cos())
    return turned.transpose(1, 2) if heads_first else turned


def test_rope_turns_what_the_cells_say_and_right_is_what_transformers_computes(in_browser):
    states = list(random_states("rope_shapes", 300))
    found = in_browser("rope_shapes", "module.ropeFigure", [[state] for state in states])
    verdicts = in_browser("rope_shapes", "module.verdictOn", [list(pair) for pair in zip(states, found, strict=True)])
    for state, figure, verdict in zip(states, found, verdicts, strict=True):
        time, dim = state["sizes"]["T"], state["sizes"]["D"]
        x = torch.randn(figure["shape"], dtype=torch.float64)
        theta = 10_000 ** (-torch.arange(dim // 2, dtype=torch.float64) * 2 / dim)
        columns = torch.cat([theta, theta]) if state["laid"] == "half" else theta.repeat_interleave(2)
        angles = torch.arange(time)[:, None] * columns  # (T, D)
        angles = angles if state["cos"] == "T,D" else angles[:, None]
        assert figure["cosShape"] == list(angles.shape)
        assert figure["error"] == refused(lambda x=x, a=angles: x * a), state
        if figure["error"] or figure["result"] != list(x.shape):
            assert "wrong" in verdict or "refuses" in verdict
            continue
        half = torch.cat([-x[..., dim // 2 :], x[..., : dim // 2]], -1)
        turned = half if state["pairs"] == "half" else torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        expected = x * angles.cos() + turned * angles.sin()
        flat, computed = x.flatten(), []
        for place, cell in enumerate(figure["elements"]):
            angle = cell["position"][0] * theta[cell["speed"]]
            partner = flat[place - cell["at"]["D"] + cell["partner"]]
            computed.append(flat[place] * angle.cos() + cell["sign"] * partner * angle.sin())
        torch.testing.assert_close(torch.stack(computed).view_as(x), expected)
        right = by_transformers(x, (torch.arange(time)[:, None] * theta)[None], **state)
        if verdict.startswith("Right"):
            torch.testing.assert_close(expected, right)
        elif time > 1:  # a single position is 0, and turns nothing
            assert not torch.allclose(expected, right), state


def test_a_kernels_lanes_hold_and_give_what_the_masks_leave(figures):
    for state, figure in figures("kernel_blocks", "blockFigure", 300):
        rows, columns, block, row, mask = (state[name] for name in ("rows", "columns", "block", "row", "mask"))
        memory = torch.full((rows * columns + 16,), torch.nan, dtype=torch.float64)
        memory[: rows * columns] = torch.tensor(MAKERS["kernel_blocks"]().data["memory"][: rows * columns])
        lanes = torch.arange(block)
        held = memory[row * columns + lanes]
        held = held if mask == "none" else held.where(lanes < columns, 0.0)
        centred = held - held.sum() / columns
        centred = centred.where(lanes < columns, 0.0) if mask == "both" else centred
        found = [figure["mean"], figure["variance"]]
        expected = [held.sum().item() / columns, centred.square().sum().item() / columns]
        assert [float(value) for value in found] == pytest.approx(expected, nan_ok=True), state
        x = memory[row * columns : (row + 1) * columns]
        assert list(figure["right"].values()) == pytest.approx([x.mean().item(), x.var(correction=0).item()])
        if mask == "both" and block >= columns:
            assert found == pytest.approx(list(figure["right"].values()))
        assert figure["unread"] == max(0, columns - block)


def test_after_each_round_a_step_is_all_the_steps_joined_that_the_circle_counts(figures):
    for state, figure in figures("scan_rounds", "scanFigure", 100):
        a, b = torch.randn(2, state["length"], dtype=torch.float64)
        joined = list(zip(a, b, strict=True))
        for pairs in scan.rounds_of(state["method"], state["length"])[: state["done"]]:
            before = list(joined)
            for earlier, later in pairs:
                (a0, b0), (a1, b1) = before[earlier], before[later]
                joined[later] = a1 * a0, a1 * b0 + b1
        for step, first in enumerate(figure["first"][-1]):
            product, state_at = torch.ones(1).double(), torch.zeros(1).double()
            for t in range(first, step + 1):
                product, state_at = a[t] * product, a[t] * state_at + b[t]
            torch.testing.assert_close(torch.stack(joined[step]), torch.cat([product, state_at]))
        if state["done"] == len(figure["rounds"]):
            assert figure["complete"] == state["length"]


# --- axis_explorer ---


def axis_state(norm="batch", layout="B,C,H,W", groups=2, **sizes):
    smaller = {"B": 2, "C": 6, "H": 2, "W": 2, "T": 3, **sizes}
    return widgets.axis_explorer(norm, layout, groups).state | {"sizes": smaller}


def at_picked(state):
    return tuple(state["picked"][axis] for axis in axes.LAYOUTS[state["layout"]])


def axis_layer(state):
    """Return the example tensor in float64, and PyTorch's own layer in training mode by the line that is shown."""
    line = axes.RULES[state["norm"]][state["layout"]]["line"].format(**state["sizes"], G=state["groups"])
    x = torch.tensor(widgets.axis_explorer().data["example"], dtype=torch.float64)
    shape = axes.shape_of(state)
    return x[: math.prod(shape)].reshape(shape), lambda x: eval(line.replace(")(", ").double()("), {"nn": nn, "x": x})


def test_moving_one_element_moves_the_outputs_of_those_that_the_browser_says_share_its_statistic(figures):
    for state, shared in figures("axis_explorer", "sharing", 300):
        x, layer = axis_layer(state)
        try:
            plain = layer(x)
        except (ValueError, RuntimeError):
            continue
        if shared["members"] == 1:  # a value alone in its statistic is normalized to 0 wherever it moves
            continue
        moved = x.clone()
        moved[at_picked(state)] += 1.0
        group_of = torch.tensor(shared["groupOf"]).reshape(x.shape)
        assert torch.equal(layer(moved) != plain, group_of == group_of[at_picked(state)])


def test_the_browser_refuses_what_pytorch_refuses_and_gives_the_picked_element_pytorchs_output(figures):
    expected = []
    for state, refusal in figures("axis_explorer", "refusalOf", 400):
        x, layer = axis_layer(state)
        if refusal:
            with pytest.raises(ValueError):  # noqa: PT011 (in PyTorch's own words)
                layer(x)
        else:
            expected.append((state, layer(x)[at_picked(state)].item()))
    assert 200 < len(expected) < 380
    found = figures("axis_explorer", "pickedValues", [state for state, _ in expected])
    # one value minus its own mean is rounding noise, which the two round differently, times 1/√ε = 316
    assert [values["output"] for _, values in found] == pytest.approx([y for _, y in expected], abs=1e-12 * 316)


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
        buffers = [f"{name} {shape_of(name)}" for name in ("running_mean", "running_var") if shape_of(name) != "none"]
        assert facts["running buffers"] == (", ".join(buffers) or "none")


def test_a_move_in_the_browser_is_answered_once_for_the_newest_state_and_with_its_number(monkeypatch):
    asked = []
    widget = widgets.rope_scaling()
    answer = type(widget).answer_to_state
    monkeypatch.setattr(type(widget), "answer_to_state", lambda self: asked.append(self.state) or answer(self))
    moved = {**widget.state, "config": "{}"}
    widget.set_state({"state": moved, "request": 7})  # as the browser's message does
    assert asked == [moved]
    assert widget.answer["request"] == 7
    widget.set_state({"state": moved, "request": 8})  # a question is answered even if nothing has changed
    assert widget.answer["request"] == 8
    widget.state = {**moved, "config": "no"}  # and so is a state set by a cell
    assert "not JSON" in widget.answer["problem"]


def test_clicks_and_arrow_keys_reach_every_element(in_browser):
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
    start = {"picked": dict.fromkeys("BCHWT", 0)}
    states = [state | start for state in random_states("axis_explorer", 30, seed=4)]
    calls = [[state] for state in states]
    clicked, walked = (in_browser("axis_explorer", function, calls) for function in (every_centre, walk))
    for state, clicks, steps in zip(states, clicked, walked, strict=True):
        every = list(np.ndindex(*axes.shape_of(state)))
        assert [at_picked({**state, "picked": picked}) for picked in clicks] == every
        assert {at_picked({**state, "picked": picked}) for picked in steps} == set(every)


# --- normalize_row ---


def _numbers(values):
    """Read the numbers that JSON has no word for."""
    return [float(str(value).replace("Infinity", "inf")) for value in np.atleast_1d(values)]


def row_by_numpy(state):
    """Inputs and outputs with every operation in the state's arithmetic, sums taken from left to right."""
    dtype = np.float64 if state["arithmetic"] == "float64" else np.float32
    row = np.array(state["values"][: state["features"]], dtype)
    x = dtype(state["scale"]) * row + dtype(state["offset"])

    def mean(values):
        return np.add.accumulate(values)[-1] / dtype(len(values))

    with np.errstate(invalid="ignore", divide="ignore"):
        mu = mean(x)
        variance = mean(x * x) - mu * mu if state["arithmetic"] == "one-pass" else mean((x - mu) ** 2)
        return x, mu, variance, (x - mu) / np.sqrt(variance + dtype(state["eps"]))


def test_the_browser_rounds_every_operation_as_numpy_does(figures):
    for state, answer in figures("normalize_row", "rowFigure", 500):
        x, mean, variance, outputs = row_by_numpy(state)
        for key, value in {"inputs": x, "mean": mean, "variance": variance, "outputs": outputs}.items():
            np.testing.assert_array_equal(_numbers(answer[key]), np.atleast_1d(value), err_msg=f"{key} of {state}")
        assert answer["spacing"] == np.spacing(np.abs(x).max())
        (predicted,) = _numbers(answer["predictedVariance"])
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(predicted, np.float64(variance) / (np.float64(variance) + state["eps"]))


# --- batch_neighbours and running_average ---


@pytest.fixture
def normals(in_browser):
    """Draw as the browser does: for each seed and count, so many numbers."""
    draw = "(...a) => Array.from(module.normals(...a))"
    return lambda calls: [np.array(drawn) for drawn in in_browser("batch_neighbours", draw, calls)]


def test_the_browser_draws_independent_standard_normal_numbers_anew_for_each_seed(normals):
    drawn, other = normals([[1, 100_000], [2, 100_000]])
    for values in (drawn, drawn**2 - 1, drawn[1:] * drawn[:-1], drawn * other):
        assert abs(values.mean()) < 4 * values.std() / math.sqrt(len(values))
    below = [(drawn < edge).mean() for edge in (-2, -1, 1, 2)]
    assert below == pytest.approx([0.0228, 0.1587, 0.8413, 0.9772], abs=0.005)


def running_through(layer, values):
    """A batch norm's outputs for the first sample, and its running statistics before each batch and at the end."""
    held, outputs = [[layer.running_mean.item(), layer.running_var.item()]], []
    for batch in values:
        outputs.append(layer(batch[:, None])[0].item())
        held.append([layer.running_mean.item(), layer.running_var.item()])
    return outputs, np.transpose(held)


def test_outputs_and_running_statistics_of_the_neighbours_are_those_of_pytorchs_batch_norm(figures, normals):
    count, answers = batches.BATCHES, figures("batch_neighbours", "neighbourFigure", 16)
    calls = [[1000 * state["seed"] + state["batch"], count * (state["batch"] - 1)] for state, _ in answers]
    for (state, answer), drawn in zip(answers, normals(calls), strict=True):
        batch = state["batch"]
        sample = torch.full((count, 1), batches.SAMPLE[0], dtype=torch.float64)
        neighbours = state["loudness"] * torch.tensor(drawn, dtype=torch.float64).reshape(count, batch - 1)
        values = torch.cat([sample, neighbours], dim=1)
        layer = nn.BatchNorm1d(1, momentum=state["momentum"], affine=False).double()
        if batch == 1:
            with pytest.raises(ValueError, match="more than 1 value per channel"):
                layer(values[0, :, None])
            outputs, held = [], np.repeat([[0.0], [1.0]], count + 1, axis=1)
        else:
            outputs, held = running_through(layer, values)
        if state["mode"] == "eval":
            mean, variance = held[:, state["steps"]]
            outputs = [(batches.SAMPLE[0] - mean) / math.sqrt(variance + layer.eps)] * count
        np.testing.assert_allclose(answer["outputs"][str(batch)], outputs, rtol=1e-9, atol=1e-9)
        running = [answer["running"]["mean"], answer["running"]["variance"]]
        np.testing.assert_allclose(running, held, rtol=1e-9, atol=1e-9)
        layer_norm = F.layer_norm(torch.tensor(batches.SAMPLE, dtype=torch.float64), (4,))[0].item()
        assert answer["layerNorm"] == pytest.approx(layer_norm, abs=1e-12)


@pytest.mark.parametrize("loudness", [0.5, 5])
def test_the_average_batch_is_what_many_batches_average_to(loudness, figures):
    states = [{"batch": batch, "loudness": loudness} for batch in (1, 2, 8, 64)]
    (_, alone), *trained = figures("batch_neighbours", "neighbourFigure", states)
    assert alone["expectedMean"] is None
    for state, answer in trained:
        drawn = loudness * np.random.default_rng(1).standard_normal((5000, state["batch"] - 1))
        values = np.insert(drawn, 0, batches.SAMPLE[0], axis=1)
        expected = (answer["expectedMean"], answer["expectedVariance"])
        for measured, average in zip((values.mean(1), values.var(1, ddof=1)), expected, strict=True):
            assert abs(measured.mean() - average) < 4 * measured.std() / math.sqrt(len(measured))


def test_a_batch_of_one_is_refused_in_training_in_pytorchs_words():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel") as refusal:
        nn.BatchNorm1d(4)(torch.zeros(1, 4))
    alone = widgets.batch_neighbours(1)
    assert alone.data["refusal"] == f"ValueError: {refusal.value}"
    assert alone.data["refusal"] in alone.picture()[1]


def test_the_estimate_is_pytorchs_running_mean_in_both_conventions(figures):
    for state, answer in figures("running_average", "runningFigure", 15):
        new = state["momentum"] if state["convention"] == "torch" else 1 - state["momentum"]
        layer = nn.BatchNorm1d(1, momentum=new, affine=False).double()
        means = np.array(answer["batchMeans"])
        _, (held, _) = running_through(layer, torch.tensor(np.stack([means - 1, means + 1], axis=1)))
        weights = (1 - new) ** np.arange(len(means))
        if state["corrected"]:  # no trace of the start: a weighted mean of what has come so far
            held = [np.average(means[: n + 1], weights=weights[n::-1]) for n in range(len(means))]
        else:
            held = held[1:]
        np.testing.assert_allclose(answer["estimate"], held, rtol=1e-8)
        np.testing.assert_allclose(answer["weights"], new * weights[: len(answer["weights"])], rtol=1e-9, atol=1e-12)
        assert answer["startWeight"] == pytest.approx(0 if state["corrected"] else (1 - new) ** len(means))
        assert answer["memory"] == pytest.approx(1 / new)


def test_lag_and_scatter_are_those_of_a_long_run(figures):
    states = [{"momentum": momentum, "batch": 4, "drift": 4} for momentum in (0.05, 0.2, 0.5)]
    for state, answer in figures("running_average", "runningFigure", states):
        drift = 0.04 * np.arange(40_000)
        held, average = [], 0.0
        for mean in drift + np.random.default_rng(1).standard_normal(len(drift)) / 2:
            average += state["momentum"] * (mean - average)
            held.append(average)
        behind = (drift - held)[1000:]
        # neighbouring errors are correlated over `memory` steps, so that many fewer are independent
        standard_error = answer["scatter"] / math.sqrt(len(behind) / answer["memory"])
        assert behind.mean() == pytest.approx(answer["lag"], abs=4 * standard_error)
        assert behind.std() == pytest.approx(answer["scatter"], rel=0.06)


# --- gradient_projection ---


def test_what_leaves_is_autograds_gradient_over_r_and_the_parts_add_up(figures):
    for state, answer in figures("gradient_projection", "gradientFigure", 300):
        row = torch.tensor(gradients.ROW[: state["features"]], dtype=torch.float64)
        row = row - row.mean() if state["norm"] == "layer" else row
        x = (row * state["deviation"] / row.square().mean().sqrt()).requires_grad_()
        norm = F.layer_norm if state["norm"] == "layer" else F.rms_norm
        x_hat = norm(x, x.shape, eps=gradients.EPS)
        g = torch.tensor(answer["gradient"], dtype=torch.float64)
        dx = torch.autograd.grad(x_hat, x, g)[0]
        np.testing.assert_allclose(answer["xHat"], x_hat.detach(), atol=1e-12)
        np.testing.assert_allclose(answer["left"], dx * (state["deviation"] ** 2 + gradients.EPS) ** 0.5, atol=1e-12)
        parts = np.add(answer["left"], answer["along"]) + answer["constant"]
        np.testing.assert_allclose(parts, answer["gradient"], atol=1e-12)
        arriving = float((g * x_hat.detach()).mean())
        assert answer["leftAlong"] == pytest.approx(answer["share"] * arriving, abs=1e-12)  # what epsilon lets through
        assert answer["leftLength"] == pytest.approx(np.linalg.norm(answer["left"]), abs=1e-12)
        if state["shape"] == "free":
            assert answer["gradient"] == state["gradient"][: state["features"]]


def test_a_bar_moves_by_hand_and_by_arrow_keys_and_becomes_the_learners_own(in_browser):
    drag = """(state, data) => {
        const { arriving } = module.panels(760);
        const middle = (arriving.top + arriving.bottom) / 2;
        const taken = module.barAt(arriving.left + 5, middle, state, 760, false, data);
        const above = module.barAt(arriving.right, arriving.top - 80, taken, 760, true, data);
        return [module.barAt(5, middle, state, 760, false, data), taken, above];
    }"""
    widget = gradient_projection(shape="constant")
    ((beside, taken, above),) = in_browser("gradient_projection", drag, [[widget.state, widget.data]])
    assert beside is None
    assert taken["gradient"][:6] == [0.0] + [1.5] * 5  # what was shown is kept, and only the bar in hand moves
    assert taken["shape"] == "free"
    assert above["gradient"] == [gradients.LIMIT, *taken["gradient"][1:]]
    press = "(state, key, data) => module.barByKey({ key }, state, data)"
    state = gradient_projection(features=3).state | {"picked": 2}
    calls = [[state, key, widget.data] for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "a")]
    right, left, up, other = in_browser("gradient_projection", press, calls)
    assert (right["picked"], left["picked"], other) == (2, 1, None)
    assert up["gradient"][2] == pytest.approx(gradients.GRADIENT[2] + 0.1)


# --- sync_cost and least_time ---


def play_gather(route, ranks):
    """Play an all-gather message by message; return the messages, and the blocks that a rank sends in them."""
    has, handed, messages, blocks, distance = [{rank} for rank in range(ranks)], list(range(ranks)), 0, 0, 1
    while any(len(mine) < ranks for mine in has):
        if route == "ring":  # every step each rank hands on the block that it got last
            blocks += 1
            handed = [handed[rank - 1] for rank in range(ranks)]
            for rank, block in enumerate(handed):
                has[rank].add(block)
        else:  # partners at distance 1, 2, 4, ... swap all that they have
            blocks += len(has[0])
            has = [has[rank] | has[rank ^ distance] for rank in range(ranks)]
            distance *= 2
        messages += 1
    return messages, blocks


def test_the_exchanges_take_the_messages_and_bytes_of_the_algorithms(figures):
    for state, answer in figures("sync_cost", "costFigure", 40):
        ranks, channels, layers = (state[name] for name in ("ranks", "channels", "layers"))
        messages, blocks = play_gather(state["route"], ranks)
        assert answer["forward"] == {"messages": messages, "bytes": blocks * (2 * channels + 1) * 4}
        # a scatter of sums and a gather of pieces: n / P numbers in each block, twice
        bytes_back = pytest.approx(2 * blocks * 2 * channels / ranks * 4, rel=1e-12)
        assert answer["backward"] == {"messages": 2 * messages, "bytes": bytes_back}
        for function, key in ((gather, "forward"), (reduce, "backward")):
            traffic = function(channels, ranks, route=state["route"])
            assert (traffic.messages, traffic.bytes) == (answer[key]["messages"], pytest.approx(answer[key]["bytes"]))
        waiting = layers * 3 * messages * state["latency"] / 1e3
        sending = layers * (answer["forward"]["bytes"] + answer["backward"]["bytes"]) / state["bandwidth"] / 1e6
        assert answer["stepMs"] == pytest.approx(waiting + sending)
        assert answer["waiting"] == pytest.approx(waiting / (waiting + sending))
        at = RANKS.index(ranks)
        assert answer["forwardMs"][at] + answer["backwardMs"][at] == pytest.approx(answer["stepMs"])
        assert answer["forwardMs"] == sorted(answer["forwardMs"])


def test_the_bytes_and_operations_of_a_layer_norm_are_those_of_the_chapter(figures):
    for state, answer in figures("least_time", "leastTime", 60):
        rows, features, both = state["rows"], state["features"], state["direction"] == "both"
        numbers = 2 * rows * features + 2 * features  # x and y, weight and bias
        numbers += 3 * rows * features + 3 * features if both else 0  # dy, x, dx; weight, dweight, dbias
        assert answer["bytes"] == numbers * torch.empty(0, dtype=getattr(torch, state["dtype"])).element_size()
        assert answer["operations"] == (20 if both else 7) * rows * features
        assert answer["memoryMs"] == pytest.approx(answer["bytes"] / MACHINE.bandwidth_gbps / 1e6)
        assert answer["arithmeticMs"] == pytest.approx(answer["operations"] / MACHINE.peak_gflops / 1e6)


def test_the_kernel_measures_the_state_that_it_was_asked_for():
    widget = least_time(MACHINE, rows=4, features=64)
    assert widget.answer["measured_ms"] > 0
    widget.request = 7
    assert widget.answer["request"] == 7
    small, large = (measured_ms(rows, 1024, "float32", "both") for rows in (1, 4096))
    assert large > 10 * small  # 4,096 times the work; a call of its own price hides most of the difference
    with pytest.raises(ValueError, match=r"machine must be a Roofline, as Roofline\.of\(\"cpu\"\) returns: got 'cpu'"):
        least_time("cpu")


# --- encoding_by_distance and rope_clocks ---


def test_each_encodings_curve_is_what_attention_is_told(figures):
    for state, values in figures("encoding_by_distance", "distanceValues", 120):
        reach = state["reach"]
        if state["encoding"] == "sinusoidal":  # the product of two codes, wherever they stand
            code = sinusoidal(torch.arange(300, 301 + reach), state["dim"], state["base"], dtype=torch.float64)
            expected = code @ code[0] / (state["dim"] / 2)
        elif state["encoding"] == "alibi":  # what Bloom adds for a head, (H, K), larger for later keys
            keys = build_alibi_tensor(torch.ones(1, reach + 1), state["heads"], torch.float32)[state["head"] - 1, 0]
            expected = (keys - keys[-1]).flip(0)
        elif state["encoding"] == "t5":
            distances = torch.arange(reach + 1)
            expected = T5Attention._relative_position_bucket(-distances, False, 32, state["max_distance"])
        else:
            expected = torch.zeros(reach + 1)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 if state["encoding"] == "alibi" else 1e-12)


def rotated(vector, position, state):
    cos_sin = rope_cos_sin(torch.tensor([position]), rope_inv_freq(state["dim"], state["base"]), dtype=torch.float64)
    return apply_rope(vector[None], *cos_sin)[0]


def vectors_of(state):
    """A query and a key (dim,) in the half layout that the words of the widget describe."""
    count = state["dim"] // 2
    if state["vectors"] == "random":
        random = torch.tensor(rope_clocks().data["random"], dtype=torch.float64)
        query, key, angle = random[:, :count]
        return torch.cat((query * angle.cos(), query * angle.sin())), torch.cat((key, 0 * key))
    query = torch.ones(state["dim"], dtype=torch.float64)
    return query, rotated(query, state["reach"] // 2, state) if state["vectors"] == "aimed" else query


def test_the_score_and_the_hands_are_those_of_rotated_vectors(figures):
    for state, answer in figures("rope_clocks", "clockFigure", 60):
        position, distance = state["position"], state["distance"]
        q, k = vectors_of(state)
        length = q.norm() * k.norm()
        score = rotated(q, position + distance, state) @ rotated(k, position, state) / length
        # angles of up to 135,000 radians are rounded to 1.5e-11
        assert answer["score"] == pytest.approx(score.item(), abs=1e-10), state
        assert len(answer["scores"]) == state["reach"] + 1
        far = rotated(q, state["reach"], state) @ k / length
        assert answer["scores"][-1] == pytest.approx(far.item(), abs=1e-10), state
        right = torch.cat((torch.ones(state["dim"] // 2), torch.zeros(state["dim"] // 2))).double()
        for hands, at in (("key", position), ("query", position + distance), ("between", distance)):
            x, y = rotated(right, at, state).chunk(2)
            np.testing.assert_allclose([np.cos(answer[hands]), np.sin(answer[hands])], [x, y], atol=1e-10)


def test_a_click_on_a_clock_picks_it_and_a_drag_along_the_score_is_the_distance(in_browser):
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
    states = list(random_states("rope_clocks", 30, seed=9))
    answers = in_browser("rope_clocks", everywhere, [[state] for state in states])
    for state, (picked, *distances) in zip(states, answers, strict=True):
        assert picked == list(range(state["dim"] // 2))
        assert distances == [0, state["reach"] // 2, state["reach"], 0]


def test_a_number_reads_the_same_in_the_browser_and_in_python(in_browser):
    values = [0.0, 0.0012, -0.51, 3.14159, 999.4, 999.7, 1234.6, -19_947.3, 99_999.0]
    written = in_browser("rope_clocks", "module.formatNumber", [[value] for value in values])
    assert [text.replace("−", "-") for text in written] == [format_number(value) for value in values]
    assert written[-4:] == ["1,000", "1,235", "−19,947", "99,999"]


# --- rope_scaling ---


def by_course(name, state):
    """The frequencies and the attention factor of a method of the widget, by course_utils.rope."""
    keys = {"rope_type": name, "rope_theta": state["base"], "partial_rotary_factor": state["share"]}
    if name == "abf":
        return rope_frequencies({**keys, "rope_type": "default", "rope_theta": state["new_base"]}, state["head_dim"])
    length, original = state["length"] * state["window"], {"original_max_position_embeddings": state["window"]}
    keys["factor"] = state["factor"]
    if name in ("yarn", "yarn_paper", "llama3"):
        keys |= original
    if name == "llama3":
        keys |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if name == "yarn_paper":
        trained, _ = rope_frequencies({**keys, "rope_type": "default"} | {"factor": None}, state["head_dim"])
        kept = yarn_paper_ramp(trained, state["window"])
        _, factor = rope_frequencies({**keys, "rope_type": "yarn"}, state["head_dim"], state["window"])
        return kept * trained + (1 - kept) * trained / state["factor"], factor
    return rope_frequencies(keys, state["head_dim"], state["window"], length)


@pytest.mark.filterwarnings("ignore::course_utils.rope.RopeWarning")
def test_the_browsers_methods_are_those_of_the_course(figures):
    compared = 0
    states = [{**state, "config": "", "methods": list(scaling.METHODS)} for state in random_states("rope_scaling", 200)]
    for state, figure in figures("rope_scaling", "scalingFigure", states):
        for method in figure["methods"]:
            inv_freq, attention_factor = by_course(method["name"], state)
            expected = [2 * math.pi / f if f else 0 for f in inv_freq.tolist()]
            lengths = [length or 0 for length in method["wavelengths"]]
            assert lengths == pytest.approx(expected, rel=1e-12), method["name"]
            assert method["attentionFactor"] == pytest.approx(attention_factor, rel=1e-12)
            compared += 1
    assert compared > 1000


def test_pairs_are_kept_blended_or_stretched_as_the_methods_define_it(figures):
    def bands(method):
        return [method["kinds"].count(kind) for kind in ("kept", "blended", "stretched")]

    llama = {"base": 500_000, "window": 8192, "head_dim": 128, "methods": ["linear", "ntk", "llama3"], "share": 1.0}
    faster = {"base": 10_000_000, "new_base": 20_000, "methods": ["abf"], "share": 1.0}
    (_, first), (_, second) = figures("rope_scaling", "scalingFigure", [llama, faster])
    linear, ntk, llama3 = first["methods"]
    assert bands(linear) == [0, 0, 64]
    assert bands(ntk) == [1, 62, 1]  # the first is as it was, the last divided by the whole factor
    # Llama 3.1: more than 4 turns in 8,192 positions, between, less than 1
    turned = 8192 * 500_000.0 ** (-torch.arange(64, dtype=torch.float64) / 64) / (2 * math.pi)
    assert bands(llama3) == [(turned > 4).sum(), ((turned <= 4) & (turned >= 1)).sum(), (turned < 1).sum()]
    assert second["methods"][0]["kinds"][1:] == ["faster"] * 63


def seen_and_not(trained, scaled, window, position):
    """Whether some pair's angle at a position lies outside the arc that 0 ≤ m < window swept: the definition."""
    arc, angle = window * trained, position * scaled
    return bool(((arc < 2 * math.pi) & (scaled > 0) & (angle >= arc * (1 - 1e-9))).any())


def test_the_reach_is_the_first_position_at_which_an_angle_is_new(figures):
    state = {"head_dim": 32, "window": 64, "factor": 4, "length": 4, "share": 0.5, "methods": list(scaling.METHODS)}
    ((whole, figure),) = figures("rope_scaling", "scalingFigure", [state])
    for method in figure["methods"]:
        scaled, _ = by_course(method["name"], whole)
        trained = rope_frequencies({"rope_theta": 1e4, "partial_rotary_factor": 0.5}, 32)[0]
        if method["name"] == "proportional":
            trained = rope_frequencies({"rope_type": "proportional", "partial_rotary_factor": 0.5}, 32)[0]
        walked = next((m for m in range(10_000) if seen_and_not(trained, scaled, 64, m)), None)
        assert method["reach"] == walked, method["name"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_published_configuration_is_drawn_as_it_is_read(name, in_browser):
    widget = widgets.rope_scaling((), config=PUBLISHED[name])
    (figure,) = in_browser("rope_scaling", "module.scalingFigure", [[widget.state, widget.data, widget.answer]])
    read = from_config(PUBLISHED[name])
    inv_freq, attention_factor = read.frequencies(figure["length"])
    (method,) = figure["methods"]
    expected = [2 * math.pi / f if f else 0 for f in inv_freq.tolist()]
    assert [length or 0 for length in method["wavelengths"]] == pytest.approx(expected)
    assert method["attentionFactor"] == pytest.approx(attention_factor)
    assert 2 * figure["pairs"] == read.head_dim
    windows = {"Llama 3.1 8B": 8192, "gpt-oss 20B": 4096, "DeepSeek-V3": 4096, "Gemma 3 27B": 32_768}
    assert figure["window"] == windows.get(name, figure["window"])
    if name == "Gemma 4 E2B":  # it meets no new angle, because its slow pairs stand still
        assert method["kinds"] == ["kept"] * 64 + ["still"] * 192
        assert method["reach"] is None
        assert "shown are the layers of type full_attention, of full_attention, sliding_attention" in figure["remarks"]


PLAIN = {
    "a part of a file": '"rope_theta": 500000.0,\n"rope_scaling": {"rope_type": "linear", "factor": 4.0},',
    "today's keys": '{"rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 256}}',
    "a whole one": json.dumps({"head_dim": 32, "max_position_embeddings": 128, "rope_theta": 1e6, "rope_parameters":
                               {"rope_type": "dynamic", "factor": 2.0, "partial_rotary_factor": 0.5}}),
}  # fmt: skip


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_a_paste_is_read_without_a_kernel_as_with_one(text, in_browser):
    widget = widgets.rope_scaling((), config=text, head_dim=64, window=512)
    with_kernel = [widget.state, widget.data, widget.answer]
    without = [widget.state, {**widget.data, "readings": {}}, {}]
    first, second = in_browser("rope_scaling", "module.scalingFigure", [with_kernel, without])
    assert first["problem"] == second["problem"] == ""
    assert first["methods"] == second["methods"]
    assert set(first["remarks"]) <= set(second["remarks"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'rope_theta': 1}", "This is not JSON"),
        ('{"rope_scaling": {"rope_type": "nkt", "factor": 2}}', "rope_type"),
        ('{"rope_scaling": {"rope_type": "linear"}}', "factor must be given"),
        ("[1, 2]", r"This must be a JSON object: got \[1, 2\]"),
    ],
)
def test_a_bad_paste_is_a_sentence_in_the_figure_and_the_rest_of_it_stays(text, words, in_browser):
    widget = widgets.rope_scaling(config=text)
    calls = [[widget.state, widget.data, widget.answer], [widget.state, {**widget.data, "readings": {}}, {}]]
    for figure in in_browser("rope_scaling", "module.scalingFigure", calls):
        assert re.search(words, figure["problem"])
        assert [method["name"] for method in figure["methods"]] == ["linear", "ntk", "yarn"]
    assert widget.answer["problem"] in widget.picture()[1]


def test_a_tick_adds_its_method_in_the_courses_order_and_an_example_fills_the_box(in_browser):
    widget = widgets.rope_scaling(("yarn",))
    moves = [("linear", True), ("yarn", False), ("example", "Pythia 70M"), ("factor", 16), ("config", "{}")]
    calls = [[widget.state, control, value, widget.data] for control, value in moves]
    ticked, unticked, chosen, moved, pasted = in_browser("rope_scaling", "module.change", calls)
    assert ticked["methods"] == ["linear", "yarn"]
    assert unticked["methods"] == []
    assert chosen["config"] == EXAMPLES["Pythia 70M"]
    assert (moved["factor"], pasted["config"]) == (16, "{}")


def test_the_stored_picture_draws_a_head_of_one_pair_and_a_pasted_method_at_the_length_asked_for():
    assert widgets.rope_scaling(config={"head_dim": 2, "max_position_embeddings": 64}).picture()
    scaled = {"head_dim": 16, "max_position_embeddings": 64, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    widget = widgets.rope_scaling((), config=scaled)
    lines = scaling._wavelengths(widget.state, widget.answer["own"])
    assert lines["config"][-1] > 2 * lines["as trained"][-1]
