"""The layers of several models beside each other, masks, how far layers reach, and the gate of a
sink (chapter 18)."""

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from chapters.c18_models_of_today.published_models import Layer
from course_utils.plots import new_figure
from course_utils.plots.style import INK, MARKERS, MUTED, PALETTE, RULE

__all__ = [
    "LOOKS",
    "draw_layers",
    "kind_of",
    "layer_diagram",
    "masks",
    "reach_by_depth",
    "sink_gates",
]

# what a layer does: the height of its bar, its colour, its hatching
LOOKS = {
    "rotates, sees all": (0.8, PALETTE[0], ""),
    "rotates, sees a window or chunk": (0.35, PALETTE[5], ""),
    "rotates, near and blocks": (0.55, PALETTE[3], "xxx"),
    "rotates, near and chosen blocks": (0.45, PALETTE[1], "xxx"),
    "no positions, sees all": (0.8, PALETTE[4], "///"),
    "no attention: a state": (0.8, PALETTE[2], "..."),
}


def kind_of(layer: Layer) -> str:
    """Which of the diagram's kinds a layer is of; "" for one that mixes no tokens."""
    if not layer.sees:
        return "no attention: a state" if layer.besides else ""
    if not layer.frequencies:
        return "no positions, sees all"
    if "blocks" in layer.sees:
        return f"rotates, near and {'chosen ' * ('chosen' in layer.sees)}blocks"
    near = layer.sees.replace("chunks of ", "").replace(",", "").isdigit()
    return "rotates, sees a window or chunk" if near else "rotates, sees all"


def draw_layers(
    axes: Axes,
    models: Mapping[str, Sequence[str]],
    shares: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Draw a row of bars for each model, a bar for each layer by its kind, the first on the left;
    and above the figure what those bars stand for. With ``shares``, from 0 to 1, a bar is as
    high."""
    for row, (name, kinds) in enumerate(models.items()):
        for kind, (height, colour, hatch) in LOOKS.items():
            at = [index for index, own in enumerate(kinds) if own == kind]
            heights = [max(0.8 * shares[name][i], 0.03) if shares else height for i in at]
            bottom = -row - (0.8 if shares else height) / 2
            axes.bar(
                at, heights, 0.75, bottom=bottom, color=colour, hatch=hatch,
                edgecolor="white", linewidth=0,
            )  # fmt: skip
        axes.text(-1.5, -row, name, ha="right", va="center", color=INK)
    axes.set(xlim=(-1, 62), ylim=(-len(models), 0.8), yticks=[])
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(colors=MUTED)
    patches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0, label=kind)
        for kind, (_, colour, hatch) in LOOKS.items()
        if any(kind in kinds for kinds in models.values())
    ]
    axes.figure.legend(handles=patches, loc="outside upper center", ncols=2, fontsize=9)


def layer_diagram(models: Mapping[str, Sequence[Layer]]) -> Figure:
    """Draw the layers of all models."""
    figure, axes = new_figure(0.3 * len(models) + 1.3)
    figure.set_figwidth(5.6)  # legible on a phone
    draw_layers(axes, {name: list(map(kind_of, layers)) for name, layers in models.items()})
    axes.set_xlabel("layer († file read in a copy;\n* class default, not the released model)")
    return figure


def masks(panels: Mapping[str, Tensor], border: int | None = None) -> Figure:
    """Draw masks (T, T) beside each other, filled where the token of a row may look at the key of a
    column; a line where a second document begins."""
    figure, axes = new_figure(2.6 if len(panels) > 2 else 3.5, ncols=len(panels))
    figure.set_figwidth(5.6)  # legible on a phone
    colours = ListedColormap([RULE, PALETTE[0]])
    for ax, (title, mask) in zip(axes.flat, panels.items(), strict=True):
        ax.pcolormesh(mask.numpy(), cmap=colours, edgecolors="white", linewidth=0.7)
        last = len(mask) - 1
        ticks = range(0, last + 1, 4) if border is None else (0, border, last)
        for set_ticks in (ax.set_xticks, ax.set_yticks):
            set_ticks([tick + 0.5 for tick in ticks], list(ticks), fontsize=9)
        ax.set(aspect="equal", xlabel="key")
        ax.tick_params(length=0, pad=1)
        ax.set_title(title, fontsize=10)
        ax.invert_yaxis()
        if border is not None:
            ax.axhline(border, color=INK, linewidth=1.5)
            ax.axvline(border, color=INK, linewidth=1.5)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
    axes.flat[0].set_ylabel("the token that looks")
    return figure


def reach_by_depth(
    whole: Mapping[str, Sequence[int]], without: Mapping[str, Sequence[int]]
) -> Figure:
    """Draw how many tokens reach the last one through the first layers, one layer more at a time,
    without the layers that see all; dotted, where the first of those lifts the whole model."""
    figure, axes = new_figure(4.4)
    figure.set_figwidth(5.6)  # legible on a phone
    lifted: list[int] = []
    for series, (name, reached) in enumerate(without.items()):
        look = {"color": PALETTE[series], "marker": MARKERS[series]}
        depth, farthest = len(reached), reached[-1]
        marked = [2**i - 1 for i in range(7) if 2**i <= depth]
        axes.loglog(range(1, depth + 1), reached, markevery=marked, linestyle="-", **look)
        first = whole[name].index(max(whole[name])) + 1
        before = lifted.count(first)  # of one layer: dots between dots, a marker on a larger one
        lifted.append(first)
        dots = (3.0 * before, (1.5, 4.5))
        axes.plot(
            [first, first], [whole[name][first - 2], whole[name][-1]],
            linestyle=dots, color=look["color"],
        )  # fmt: skip
        axes.plot(first, whole[name][-1], markersize=9 - 4 * before, **look)
        label = f"{name}\n{farthest:,}" if depth > 32 else f"{name} {farthest:,}"
        axes.annotate(
            label, (depth, farthest), (6, -4),
            textcoords="offset points", va="top", color=PALETTE[series],
        )  # fmt: skip
    axes.set(
        xlim=(0.8, 480),
        xlabel="layers, from the first\n(dotted: at the first that sees all)",
        ylabel="tokens that reach the last",
    )
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    ticks = [128, 1024, 8192, 65_536, 131_072]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    return figure


def sink_gates(sinks: Sequence[float], keys: Sequence[int]) -> Figure:
    """Draw the gate of each sink, against the lse of the scores; and on the last one what so many
    keys of score 0 make of it."""
    figure, axes = new_figure(3.4)
    figure.set_figwidth(5.6)  # legible on a phone
    lse = torch.linspace(-4.3, 8.6, 281)
    for series, sink in enumerate(sinks):
        axes.plot(lse, torch.sigmoid(lse - sink))
        label = f"b = {sink:g}".replace("-", "−")
        axes.text(sink - 0.2, 0.52, label, ha="right", color=PALETTE[series])
    for many in keys:
        at = math.log(many)
        gate = 1 / (1 + math.exp(sinks[-1]) / many)
        axes.plot(at, gate, "o", color=INK)
        axes.text(min(at + 0.3, 5.7), gate - 0.05, f"{many:,} keys:\n{gate:.2f}", va="top")
    axes.set(xlabel="lse of the scores", ylabel="the gate, σ(lse − b)", xlim=(-4.3, 8.6))
    return figure
