"""A random walk of every widget over all that its controls can produce, and what is true in every state of it."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import asdict

import pytest
import widget_states
from anywidget import AnyWidget
from traitlets import TraitError

from course_utils import widgets
from course_utils.book import ledger
from course_utils.book.claims import VERDICTS
from course_utils.book.sources import WORKS
from course_utils.timing.profiling import Roofline
from course_utils.widgets.base import CourseWidget

STEPS = 2000
MACHINE = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
NEEDED = {"least_time": (MACHINE,)}  # what a widget cannot be made without
DRAWN = 20  # of them as static pictures, at a third of a second each


def agrees_with_pytorch(words: str, state: dict) -> bool:
    return "disagrees" not in words


def gets_the_variance(words: str, state: dict) -> bool:
    """In float64 the normalized variance is v / (v + eps): never above 1, and NaN only where 0 is divided by 0."""
    figure = widgets.normalize_row_figure(widgets.RowState(**state))
    if state["arithmetic"] != "float64":
        return all(map(math.isfinite, figure.inputs))
    if math.isnan(figure.output_variance):
        return figure.variance + state["eps"] == 0
    return figure.output_variance == pytest.approx(figure.predicted_variance, abs=1e-6)


def leaves_layer_norm_alone(words: str, state: dict) -> bool:
    figure = widgets.batch_neighbours_figure(widgets.NeighbourState(**state))
    return figure.layer_norm == widgets.batch_neighbours_figure(widgets.NeighbourState()).layer_norm


def only_shortens(words: str, state: dict) -> bool:
    figure = widgets.gradient_projection_figure(widgets.GradientState(**state))
    return figure.left_length <= figure.gradient_length * (1 + 1e-12)


def favours_no_distance_over_none(words: str, state: dict) -> bool:
    """No encoding adds more at a distance than at distance 0; T5 shows a bucket, which only grows."""
    values = widgets.encoding_by_distance_values(widgets.DistanceState(**state))
    return sorted(values) == values if state["encoding"] == "t5" else max(values) == values[0]


def scores_at_most_one(words: str, state: dict) -> bool:
    figure = widgets.rope_clocks_figure(widgets.ClockState(**state))
    return max(map(abs, figure.scores)) <= 1 + 1e-12 and len(figure.scores) == state["reach"] + 1


def weighs_at_most_everything(words: str, state: dict) -> bool:
    figure = widgets.running_average_figure(widgets.RunningState(**state))
    return sum(figure.weights) <= 1 + 1e-12 and all(map(math.isfinite, figure.estimate))


def turns_no_faster_than_once_in_two_pi(words: str, state: dict) -> bool:
    """The first pair turns by one radian a position, in every method; each pair has a kind, the pasted model's too."""
    figure = widgets.rope_scaling_figure(widgets.ScalingState(**state))
    lengths = [length for method in figure.methods for length in method.wavelengths if length is not None]
    counts = {(len(method.wavelengths), len(method.kinds)) for method in figure.methods}
    return min(lengths, default=7) > 6.28 and all(pairs == kinds <= figure.pairs for pairs, kinds in counts)


def costs_more_with_more_ranks(words: str, state: dict) -> bool:
    figure = widgets.sync_cost_figure(widgets.SyncState(**state))
    return sorted(figure.forward_ms) == figure.forward_ms and 0 < figure.waiting < 1


def moves_more_bytes_both_ways(words: str, state: dict) -> bool:
    forward, both = (
        widgets.least_time_figure(widgets.LeastTimeState(**{**state, "direction": direction}), MACHINE)
        for direction in ("forward", "both")
    )
    return 0 < forward.least_ms < both.least_ms and 0 < forward.bytes_moved < both.bytes_moved


def random_ledger_states(count: int, seed: int) -> Iterator[widgets.LedgerState]:
    draw = random.Random(seed)
    statements = [entry.statement.split() for entry in ledger.load().values()]
    for _ in range(count):
        words = draw.choice(["", draw.choice(draw.choice(statements)), "no such word"])
        yield widgets.LedgerState(
            words, draw.choice(["", *(work.name for work in WORKS)]), draw.choice(["", *VERDICTS])
        )


def counts_every_claim(words: str, state: dict) -> bool:
    """The table is searched in the browser; here every claim stays in it."""
    return f" {len(ledger.load())} claims" in words


# each widget, where its states come from, and what must be true in all of them
WALKS = {
    "axis_explorer": (widget_states.random_axis_states, agrees_with_pytorch),
    "normalize_row": (widget_states.random_row_states, gets_the_variance),
    "batch_neighbours": (widget_states.random_neighbour_states, leaves_layer_norm_alone),
    "gradient_projection": (widget_states.random_gradient_states, only_shortens),
    "encoding_by_distance": (widget_states.random_distance_states, favours_no_distance_over_none),
    "rope_clocks": (widget_states.random_clock_states, scores_at_most_one),
    "running_average": (widget_states.random_running_states, weighs_at_most_everything),
    "rope_scaling": (widget_states.random_scaling_states, turns_no_faster_than_once_in_two_pi),
    "least_time": (widget_states.random_least_time_states, moves_more_bytes_both_ways),
    "ledger_table": (random_ledger_states, counts_every_claim),
    "sync_cost": (widget_states.random_sync_states, costs_more_with_more_ranks),
}


def test_every_widget_takes_a_walk() -> None:
    makers = {name for name in widgets.__all__ if not name.endswith(("State", "_figure", "_values", "_html"))}
    assert set(WALKS) == makers


@pytest.mark.soak(f"{STEPS:,} states")
@pytest.mark.parametrize("widget", WALKS)
def test_a_random_walk_ends_without_an_exception(widget: str) -> None:
    states_of, holds = WALKS[widget]
    shown, draw, seen = getattr(widgets, widget)(*NEEDED.get(widget, ())), random.Random(2026), {}
    for step, drawn in enumerate(states_of(STEPS, seed=2026)):
        target = json.loads(json.dumps(asdict(drawn), allow_nan=False))  # as a message from the browser brings it
        wander_towards(target, shown, draw)
        shown.state = target
        words = described(shown)
        json.dumps(shown.state, allow_nan=False)
        assert holds(words, shown.state), f"after {step} steps: {shown.state}"
        if step % (STEPS // DRAWN) == 0:
            if isinstance(shown, CourseWidget):
                shown.static_figure().canvas.draw()
            seen[words] = shown.state
    for words, state in seen.items():  # what a state shows does not depend on the way to it
        shown.state = state
        assert described(shown) == words


def wander_towards(target: dict, shown: AnyWidget, draw: random.Random) -> None:
    """Move two controls, one after the other, to where ``target`` has them; what is refused changes nothing."""
    for name in draw.sample(sorted(target), 2):
        before = shown.state
        try:
            shown.state = {**before, name: target[name]}
        except (ValueError, TraitError):  # a head beyond the number of heads, which its slider could not reach
            assert shown.state == before
        described(shown)


def described(shown: AnyWidget) -> str:
    """Return the widget's state in words; the ledger says the same in all of them."""
    return shown.describe() if isinstance(shown, CourseWidget) else shown._repr_mimebundle_()[0]["text/plain"]
