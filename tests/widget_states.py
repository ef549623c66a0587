"""States of the widgets, drawn at random over the whole range of their controls, the same ones every time."""

import random
from functools import partial

from course_utils import widgets
from course_utils.timing import Roofline
from course_utils.widgets import axes, gradients, rows

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
# lists that a control chooses from: the field of the state, and what it is called in the widget's data
_CHOICES = {
    "arithmetic": "arithmetics",
    "mode": "modes",
    "convention": "conventions",
    "norm": "norms",
    "layout": "layouts",
    "shape": "shapes",
    "encoding": "encodings",
    "vectors": "vectors",
    "route": "routes",
    "dtype": "itemsizes",
    "direction": "directions",
}


def random_states(name, count, seed=0):
    """Yield states of the widget ``name``, each from what its data say that its controls can produce."""
    widget, draw = MAKERS[name](), random.Random(seed)
    data = widget.data
    for _ in range(count):
        state = {field: draw.choice(stops) for field, stops in data.get("stops", {}).items() if field in widget.state}
        for field, names in _CHOICES.items():
            if field in widget.state:
                state[field] = draw.choice(list(data[names]))
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
    return {}
