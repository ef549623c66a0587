"""Every widget of the course by its name, states that its controls can produce, and what PyTorch
refuses."""

import random
from functools import partial

from chapters import widgets_of
from chapters.c05_backward_by_hand import widgets as gradients
from chapters.c10_where_the_time_goes.widgets import least_time
from chapters.c18_models_of_today.published_models import Layer
from chapters.c18_models_of_today.widgets import layers_beside
from chapters.contents import CHAPTERS
from course_utils.timing import Roofline
from course_utils.widgets import axes, rows
from course_utils.widgets.base import CourseWidget

MACHINE = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
MODULES = [widgets_of(chapter.number) for chapter in CHAPTERS]
MAKERS = {
    name: maker
    for module in MODULES
    for name, maker in vars(module).items()
    if getattr(maker, "__annotations__", {}).get("return") is CourseWidget
} | {"least_time": partial(least_time, MACHINE)}
TURNING = {"head_dim": 64, "frequencies": (1.0, 0.1), "base": "10,000"}
SIGHTS = (
    "all",
    "4,096",
    "chunks of 8,192",
    "128 + blocks of 128",
    "2,048 chosen",
    "128 + 512 chosen blocks of 4",
)
LAYERS = [Layer(i, sees=sees, **TURNING) for i, sees in enumerate(SIGHTS)]
LAYERS += [Layer(6, besides="a state"), Layer(7, head_dim=64, sees="all"), Layer(8)]
MODELS = {"Command R7B†": LAYERS[:3], "Llama 4 Scout": LAYERS, "another": LAYERS[::-1]}
MAKERS["layers_beside"] = partial(layers_beside, models=MODELS)


def random_states(name, count, seed=0):
    """Yield states of the widget ``name``, each from what its data say that its controls can
    produce."""
    widget, draw = MAKERS[name](), random.Random(seed)
    data = widget.data
    for _ in range(count):
        state = {
            field: draw.choice(stops)
            for field, stops in data.get("stops", {}).items()
            if field in widget.state
        }
        for field in widget.state:  # a list that a control chooses from is called as its field is
            if names := data.get(
                {"dtype": "itemsizes", "vectors": "vectors"}.get(field, f"{field}s")
            ):
                state[field] = draw.choice(list(names))
        state |= _others(name, state, data, draw)
        assert state.keys() == widget.state.keys(), name
        yield state


def _others(name, state, data, draw):
    """The fields that are neither stops nor choices."""
    if name == "axis_explorer":
        sizes = {axis: draw.randint(1, limit) for axis, limit in axes.SIZE_LIMITS.items()}
        sizes["C"] = draw.choice(data["channels"])
        picked = {axis: draw.randrange(size) for axis, size in sizes.items()}
        return {"sizes": sizes, "picked": picked, "groups": draw.choice(data["channels"])}
    if name == "normalize_row":
        values = [round(draw.uniform(-5, 5), 1) for _ in range(draw.randint(2, len(rows.VALUES)))]
        return {"values": values, "features": draw.randint(2, len(values)), "picked": 0}
    if name == "gradient_projection":
        gradient = [
            round(draw.uniform(-gradients.LIMIT, gradients.LIMIT), 1) for _ in gradients.ROW
        ]
        return {"gradient": gradient, "features": draw.randint(2, 8), "picked": 0}
    if name == "batch_neighbours":
        return {field: draw.randint(low, high) for field, (low, high) in data["limits"].items()}
    if name == "chance_by_eye":
        return {"seed": draw.randint(*data["limits"]["seed"])}
    if name == "running_average":
        return {"corrected": draw.random() < 0.5, "seed": draw.randint(*data["limits"]["seed"])}
    if name == "loss_and_memory":
        return {"methods": [method for method in data["methods"] if draw.random() < 0.5]}
    if name == "code_ladder":
        return {"m": draw.randint(0, state["tokens"] - 2)}
    if name == "encoding_by_distance":
        return {"head": draw.randint(1, state["heads"])}
    if name == "rope_clocks":
        position = draw.choice([state["position"], draw.randint(0, data["stops"]["position"][-1])])
        distance, picked = draw.randint(0, state["reach"]), draw.randrange(state["dim"] // 2)
        return {"position": position, "distance": distance, "picked": picked}
    if name == "rope_scaling":
        methods = [method for method in data["methods"] if draw.random() < 0.5]
        return {
            "methods": methods,
            "config": draw.choice(["", "", *data["examples"].values(), "not JSON"]),
        }
    if name in ("normalized_shape", "rope_shapes", "kernel_blocks"):
        sizes = {axis: draw.randint(1, most) for axis, most in data["limits"].items()}
        if name == "kernel_blocks":
            return {**sizes, "row": draw.randrange(sizes["rows"])}
        if name == "normalized_shape":
            chosen = {
                field: {k: draw.choice(v) for k, v in data[f"{field}s"].items()}
                for field in ("shape", "weight")
            }
            return {
                "layout": draw.choice([*data["shapes"], "own"]),
                "typed": {field: _typed(field, draw) for field in ("x", "shape", "weight")},
                "sizes": sizes,
                "picked": 0,
                **chosen,
            }
        layouts = {field: draw.choice(list(data["layouts"])) for field in ("pairs", "laid")}
        sizes["D"] = draw.choice(data["dims"])
        return {"cos": draw.choice(data["cosines"]), "sizes": sizes, "picked": 0, **layouts}
    if name == "scan_rounds":
        return {"done": draw.randint(0, len(data["joins"][state["method"]][str(state["length"])]))}
    return {}


def _typed(field, draw):
    """A shape as a learner may type it, seldom one that is none."""
    sizes = [draw.choice([-1, 0, 1, 2, 2, 3, 3, 4]) for _ in range(draw.randint(0, 4))]
    text = draw.choice(["({})", "[{}]", "{}", " ( {},)"]).format(", ".join(map(str, sizes)))
    words = {"x": ["(2, 3)", "(1000, 1000)", "2.5"], "shape": ["(3,)", "3", "(2, 3)", "C"]}
    words["weight"] = ["same", "same", "none", " none", "(3,)", "weight"]
    return draw.choice([text.replace("(,)", "()"), *words[field]])


def refused(call):
    """What PyTorch says to a call, or nothing."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""
