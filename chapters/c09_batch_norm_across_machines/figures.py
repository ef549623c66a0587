"""What goes over the wire in one step, and how often, drawn (chapter 09)."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.plots import new_figure
from course_utils.plots.style import INK, PALETTE, PAPER, RULE, line_style

__all__ = ["exchanges", "routes", "two_copies"]

_RANKS = 4


def exchanges() -> Figure:
    """Draw what each of four ranks has before and after the exchanges of both passes."""
    figure, (forward, backward) = new_figure(3.6, ncols=2)
    _exchange(forward, "forward: all_gather", "2C + 1\neach", "4 · (2C + 1)\neach, to merge")
    _exchange(backward, "backward: all_reduce", "2C\neach", "2C each,\nthe sums")
    for rank in range(_RANKS):
        for other in range(_RANKS):
            _block(forward, 3.3 + 0.6 * other, rank, str(other), PALETTE[other])
        _block(backward, 4.2, rank, "0 + 1 + 2 + 3", INK)
    return figure


def routes() -> Figure:
    """Draw what one of eight ranks holds after each message of an ``all_gather``: around a ring one
    part more, by doubling twice as many."""
    figure, panels = new_figure(3.1, ncols=2, sharey=True)
    plans = (
        ("around a ring: 7 messages, 7 parts", [1] * 7),
        ("by doubling: 3 messages, 7 parts", [1, 2, 4]),
    )
    for route, (axes, (title, sizes)) in enumerate(zip(panels, plans, strict=True)):
        held = [1]
        for size in sizes:
            held.append(held[-1] + size)
        axes.bar(range(len(held)), [1, *held[:-1]], 0.8, color=RULE)
        axes.bar(range(1, len(held)), sizes, 0.8, bottom=held[:-1], color=PALETTE[route])
        for message, (size, top) in enumerate(zip(sizes, held[1:], strict=True), start=1):
            axes.text(message, top + 0.15, f"+{size}", ha="center", va="bottom")
        axes.text(0, 1.15, "own", ha="center", va="bottom")
        axes.set(title=title, xlabel="messages so far", xlim=(-0.6, 7.6), ylim=(0, 9.4))
        axes.set(xticks=range(8), yticks=range(0, 9, 2))
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("parts held, of 8")
    return figure


def two_copies(runs: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Draw the loss of every step, and beside it how far two copies of a weight are apart."""
    figure, panels = new_figure(3.2, ncols=2)
    for series, (name, curves) in enumerate(runs.items()):
        for axes, values in zip(panels, curves, strict=True):
            axes.plot(range(1, len(values) + 1), values, label=name, **line_style(series))
    for axes, title in zip(panels, ("loss", "distance of the two γ"), strict=True):
        axes.set(title=title, xlabel="step")
    panels[0].set_ylim(0, None)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _exchange(axes: Axes, title: str, before: str, after: str) -> None:
    for rank in range(_RANKS):
        for other in range(_RANKS):
            axes.plot([0.5, 2.9], [-rank, -other], color=PALETTE[rank], lw=1, ls="-")
        _block(axes, 0.2, rank, str(rank), PALETTE[rank])
    axes.text(0.2, -3.7, before, ha="center", va="top", fontsize=12)
    axes.text(4.2, -3.7, after, ha="center", va="top", fontsize=12)
    axes.set(xlim=(-0.8, 5.8), ylim=(-4.9, 0.6), title=title)
    axes.axis("off")


def _block(axes: Axes, x: float, rank: int, text: str, colour: str) -> None:
    box = {"facecolor": colour, "edgecolor": PAPER}
    axes.text(x, -rank, text, ha="center", va="center", color="white", weight="bold", bbox=box)
