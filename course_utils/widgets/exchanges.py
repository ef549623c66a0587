"""What it costs to synchronise batch norm: the time of a training step's exchanges against the number of ranks."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from course_utils.book.tables import format_number
from course_utils.parallel.cost import ROUTES, Traffic, gather, reduce
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import require_stops

__all__ = ["SyncState", "sync_cost", "sync_cost_figure"]

RANKS = [2**power for power in range(1, 11)]  # 2 to 1024, what the curves are drawn over
STOPS: dict[str, list[float]] = {
    "ranks": RANKS,
    "channels": [16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "layers": [1, 2, 5, 10, 20, 53, 100, 200],
    "latency": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    "bandwidth": [0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100, 200, 400],
}


@dataclass(frozen=True)
class SyncState:
    """What the learner has chosen.

    Args:
        ranks: how many processes share a batch.
        channels: of each layer.
        layers: synchronised batch norms in the network.
        latency: of a message, in µs.
        bandwidth: of a rank's link, in 10⁹ bytes per second.
        route: a key of ``sync_cost.ROUTES``.

    Raises:
        ValueError: a value that no control can produce.
    """

    ranks: int = 8
    channels: int = 512
    layers: int = 53
    latency: float = 20
    bandwidth: float = 10
    route: str = "ring"

    def __post_init__(self) -> None:
        require_stops(self, STOPS)
        if self.route not in ROUTES:
            raise ValueError(f"route must be one of {', '.join(ROUTES)}: got {self.route!r}")

    def time_ms(self, traffic: Traffic) -> float:
        """Return how long one exchange of every layer takes."""
        return self.layers * traffic.time_ms(self.latency, self.bandwidth)


@dataclass(frozen=True)
class SyncFigure:
    """Everything that the picture of a state shows.

    Args:
        forward_ms, backward_ms: of a step, for each number of ranks in ``RANKS``.
        forward, backward: the traffic of one layer at the chosen number of ranks.
        step_ms: both passes at the chosen number.
        waiting: which part of that is latency.
    """

    forward_ms: list[float]
    backward_ms: list[float]
    forward: Traffic
    backward: Traffic
    step_ms: float
    waiting: float


def sync_cost_figure(state: SyncState) -> SyncFigure:
    """Return what the widget shows; the browser's ``costFigure`` does the same arithmetic."""

    def traffic(ranks: int) -> tuple[Traffic, Traffic]:
        return gather(state.channels, ranks, route=state.route), reduce(state.channels, ranks, route=state.route)

    over_ranks = [traffic(ranks) for ranks in RANKS]
    forward, backward = traffic(state.ranks)
    step_ms = state.time_ms(forward + backward)
    return SyncFigure(
        forward_ms=[state.time_ms(one) for one, _ in over_ranks],
        backward_ms=[state.time_ms(other) for _, other in over_ranks],
        forward=forward,
        backward=backward,
        step_ms=step_ms,
        waiting=state.layers * (forward + backward).messages * state.latency / 1e3 / step_ms,
    )


def sync_cost(
    ranks: int = 8,
    *,
    channels: int = 512,
    layers: int = 53,
    latency: float = 20,
    bandwidth: float = 10,
    route: str = "ring",
) -> CourseWidget:
    """Return the picture of what synchronising costs, ready to display.

    Args:
        ranks: 2, 4, 8, ... 1024.
        channels: of each layer: 16, 32, ... 4096.
        layers: 1, 2, 5, 10, 20, 53 (ResNet-50), 100 or 200.
        latency: of a message, in µs: 1, 2, 5, ... 1000.
        bandwidth: of a rank's link, in 10⁹ bytes per second: 0.1 to 400.
        route: ``"ring"`` or ``"doubling"``.

    Raises:
        ValueError: a value that no control can produce.
    """
    return _SyncCost(SyncState(ranks, channels, layers, latency, bandwidth, route))


class _SyncCost(CourseWidget):
    _esm = browser_module("sync_cost")

    def __init__(self, state: SyncState) -> None:
        super().__init__(state, {"stops": STOPS, "routes": ROUTES})

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: SyncState = self.chosen()
        data = sync_cost_figure(state)
        curves = {"forward: gather": data.forward_ms, "backward: reduce": data.backward_ms}
        figure = plots.error_curves(RANKS, curves, "ranks that share a batch", "time of a step (ms)")
        figure.axes[0].axvline(state.ranks, color=plots.style.MUTED, linewidth=1)
        return figure

    def describe(self) -> str:
        state: SyncState = self.chosen()
        data = sync_cost_figure(state)
        return (
            f"Time to synchronise {state.layers} batch norms of {state.channels} channels against the number of ranks, "
            f"{ROUTES[state.route]}, {format_number(float(state.latency))} µs a message and "
            f"{format_number(float(state.bandwidth))} GB/s: among {state.ranks} ranks a step takes "
            f"{format_number(data.step_ms)} ms, {data.waiting:.0%} of it waiting for messages."
        )
