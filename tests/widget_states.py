"""States of the widgets, drawn at random over the whole range of their controls, the same ones every time."""

import random

from course_utils.widgets import neighbours, rows
from course_utils.widgets.axes import LAYOUTS, NORMS, SIZE_LIMITS, AxisState
from course_utils.widgets.neighbours import NeighbourState
from course_utils.widgets.rows import RowState


def random_axis_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        sizes = {axis: draw.randint(1, limit) for axis, limit in SIZE_LIMITS.items()}
        picked = {axis: draw.randint(0, limit - 1) for axis, limit in SIZE_LIMITS.items()}
        yield AxisState(draw.choice(list(NORMS)), draw.choice(list(LAYOUTS)), sizes, draw.randint(1, 8), picked)


def random_row_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        values = tuple(round(draw.uniform(-5, 5), 1) for _ in range(draw.randint(2, 16)))
        offset = draw.choice(rows.STOPS["far offset"] + rows.STOPS["near offset"])
        scale, eps = draw.choice(rows.STOPS["scale"]), draw.choice(rows.STOPS["eps"])
        yield RowState(values, draw.randint(2, len(values)), offset, scale, eps, draw.choice(list(rows.ARITHMETICS)))


def random_neighbour_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in neighbours.STOPS.items()}
        counts = {name: draw.randint(low, high) for name, (low, high) in neighbours.LIMITS.items()}
        yield NeighbourState(**chosen, **counts, mode=draw.choice(["train", "eval"]))
