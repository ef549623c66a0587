"""States of the widgets, drawn at random over the whole range of their controls, the same ones every time."""

import random

from course_utils.widgets import clocks, distances, exchanges, gradients, least_times, neighbours, rows, running
from course_utils.widgets.axes import LAYOUTS, NORMS, SIZE_LIMITS, AxisState
from course_utils.widgets.clocks import ClockState
from course_utils.widgets.distances import ENCODINGS, DistanceState
from course_utils.widgets.exchanges import SyncState
from course_utils.widgets.gradients import GradientState
from course_utils.widgets.least_times import LeastTimeState
from course_utils.widgets.neighbours import NeighbourState
from course_utils.widgets.rows import RowState
from course_utils.widgets.running import RunningState
from course_utils.widgets.scaling_examples import EXAMPLES
from course_utils.widgets.scaling_figure import METHODS, ScalingState
from course_utils.widgets.scaling_figure import STOPS as SCALING_STOPS


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


def random_gradient_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        gradient = tuple(round(draw.uniform(-gradients.LIMIT, gradients.LIMIT), 1) for _ in gradients.ROW)
        norm, shape = draw.choice(list(gradients.NORMS)), draw.choice(list(gradients.SHAPES))
        deviation, features = draw.choice(gradients.STOPS["deviation"]), draw.randint(2, 8)
        yield GradientState(gradient, norm, shape, deviation, features, draw.randrange(features))


def random_neighbour_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in neighbours.STOPS.items()}
        counts = {name: draw.randint(low, high) for name, (low, high) in neighbours.LIMITS.items()}
        yield NeighbourState(**chosen, **counts, mode=draw.choice(["train", "eval"]))


def random_running_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in running.STOPS.items()}
        convention, corrected = draw.choice(list(running.CONVENTIONS)), draw.random() < 0.5
        yield RunningState(**chosen, convention=convention, corrected=corrected, seed=draw.randint(*running.SEEDS))


def random_clock_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(clocks.STOPS[name]) for name in ("base", "dim", "reach")}
        position = draw.choice([draw.choice(clocks.STOPS["position"]), draw.randint(0, clocks.STOPS["position"][-1])])
        distance, picked = draw.randint(0, chosen["reach"]), draw.randrange(chosen["dim"] // 2)
        yield ClockState(position, distance, vectors=draw.choice(list(clocks.VECTORS)), picked=picked, **chosen)


def random_scaling_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        methods = [name for name in METHODS if draw.random() < 0.5]
        chosen = {name: draw.choice(stops) for name, stops in SCALING_STOPS.items()}
        yield ScalingState(tuple(methods), **chosen, config=draw.choice(["", "", *EXAMPLES.values(), "not JSON"]))


def random_distance_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in distances.STOPS.items()}
        yield DistanceState(draw.choice(list(ENCODINGS)), head=draw.randint(1, chosen["heads"]), **chosen)


def random_sync_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in exchanges.STOPS.items()}
        yield SyncState(**chosen, route=draw.choice(list(exchanges.ROUTES)))


def random_least_time_states(count, seed=0):
    draw = random.Random(seed)
    for _ in range(count):
        chosen = {name: draw.choice(stops) for name, stops in least_times.STOPS.items()}
        dtype, direction = draw.choice(list(least_times.ITEMSIZES)), draw.choice(list(least_times.DIRECTIONS))
        yield LeastTimeState(**chosen, dtype=dtype, direction=direction)
