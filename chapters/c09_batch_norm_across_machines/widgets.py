"""What it costs to synchronise batch norm over ranks."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from chapters.c09_batch_norm_across_machines.cost import Traffic, layer_step
from course_utils.plots import error_curves
from course_utils.plots.style import MUTED
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["sync_cost"]

RANKS = [2**power for power in range(1, 11)]  # 2 to 1024, what the curves are drawn over
# 32 images at the published rate of one A100 in mixed precision: NVIDIA/DeepLearningExamples,
# ResNet-50 v1.5
PUBLISHED_MS = 32 / 2470 * 1e3
SYNC_STOPS: dict[str, list[float]] = {
    "ranks": RANKS,
    "channels": [16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "layers": [1, 2, 5, 10, 20, 53, 100, 200],
    "latency": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    "bandwidth": [0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100, 200, 450],
}


def sync_cost(
    ranks: int = 8,
    *,
    channels: int = 512,
    layers: int = 53,
    latency: float = 10,
    bandwidth: float = 50,
) -> CourseWidget:
    """Return the time of a training step's exchanges against the number of ranks, ready to display.

    Args:
        ranks: how many processes share a batch: 2, 4, 8, ... 1024.
        channels: of each layer: 16, 32, ... 4096.
        layers: synchronised batch norms: 1, 2, 5, 10, 20, 53 (ResNet-50), 100 or 200.
        latency: of a message, in µs: 1, 2, 5, ... 1000.
        bandwidth: of a rank's link, in 10⁹ bytes per second: 0.1 to 450.
    """
    chosen = one_of(
        SYNC_STOPS,
        ranks=ranks,
        channels=channels,
        layers=layers,
        latency=latency,
        bandwidth=bandwidth,
    )
    return _SyncCost(chosen, {"stops": SYNC_STOPS, "published": PUBLISHED_MS})


class _SyncCost(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("sync_cost.js"))

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        latency, bandwidth, layers = state["latency"], state["bandwidth"], state["layers"]

        def step_ms(ranks: int, route: str, wait: float = latency) -> float:
            traffic: Traffic = layer_step(state["channels"], ranks, route=route)
            return layers * traffic.time_ms(wait, bandwidth)

        curves = {
            "around a ring": [step_ms(ranks, "ring") for ranks in RANKS],
            "by doubling": [step_ms(ranks, "doubling") for ranks in RANKS],
            "the bytes alone": [step_ms(ranks, "ring", 0) for ranks in RANKS],
            "32 images": [PUBLISHED_MS] * len(RANKS),
        }
        figure = error_curves(RANKS, curves, "ranks that share a batch", "time of a step (ms)")
        figure.axes[0].axvline(state["ranks"], color=MUTED, linewidth=1)
        ring, doubling, size, _ = (times[RANKS.index(state["ranks"])] for times in curves.values())
        return figure, (
            f"Time to synchronise {layers} batch norms of {state['channels']} channels against the "
            f"number of ranks, with {format_number(float(latency))} µs a message and "
            f"{format_number(float(bandwidth))} GB/s: among {state['ranks']} ranks a step takes "
            f"{format_number(ring)} ms around a ring and {format_number(doubling)} ms by doubling, "
            f"where the bytes alone would take {format_number(size)} ms. Beside it 32 images at "
            f"the published rate, {PUBLISHED_MS:.0f} ms."
        )
