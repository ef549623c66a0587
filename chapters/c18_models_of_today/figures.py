"""The layers of several models beside each other, and four masks (chapter 18)."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from chapters.c18_models_of_today.published_models import Layer
from course_utils.plots import new_figure
from course_utils.plots.style import INK, MUTED, PALETTE, RULE

__all__ = ["LOOKS", "draw_layers", "kind_of", "layer_diagram", "masks"]

# what a layer does: the height of its bar, its colour, its hatching
LOOKS = {
    "rotates, sees all": (0.8, PALETTE[0], ""),
    "rotates, sees a window or chunk": (0.35, PALETTE[5], ""),
    "rotates, sees near and blocks": (0.55, PALETTE[3], "xxx"),
    "no positions, sees all": (0.8, PALETTE[4], "///"),
    "no attention: a state": (0.8, PALETTE[2], "..."),
}


def kind_of(layer: Layer) -> str:
    """Which of the diagram's five kinds a layer is of; "" for one that mixes no tokens."""
    if not layer.sees:
        return "no attention: a state" if layer.besides else ""
    if not layer.frequencies:
        return "no positions, sees all"
    if "blocks" in layer.sees:
        return "rotates, sees near and blocks"
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
    axes.figure.legend(handles=patches, loc="outside upper center", ncols=2)


def layer_diagram(models: Mapping[str, Sequence[Layer]]) -> Figure:
    """Draw the layers of all models."""
    figure, axes = new_figure(0.3 * len(models) + 1.3)
    figure.set_figwidth(5.6)  # legible on a phone
    draw_layers(axes, {name: list(map(kind_of, layers)) for name, layers in models.items()})
    axes.set_xlabel("layer (* class default, † file read in a copy)")
    return figure


def masks(tokens: int = 12, border: int = 7, window: int = 4) -> Figure:
    """Draw four masks over as many tokens: a window, chunks, two documents, and those with the
    window."""
    t = torch.arange(tokens)
    past, near = t <= t[:, None], t > t[:, None] - window
    chunk, document = t // window, t >= border
    documents = past & (document == document[:, None])
    panels = {
        f"a window of {window}": past & near,
        f"chunks of {window}": past & (chunk == chunk[:, None]),
        "two documents": documents,
        f"documents, window of {window}": documents & near,
    }
    figure, axes = new_figure(5.6, nrows=2, ncols=2)
    figure.set_figwidth(5.6)  # legible on a phone
    colours = ListedColormap([RULE, PALETTE[0]])
    for ax, (title, mask) in zip(axes.flat, panels.items(), strict=True):
        ax.pcolormesh(mask.numpy(), cmap=colours, edgecolors="white", linewidth=1)
        ax.set(aspect="equal", xticks=[], yticks=[], xlabel="key", ylabel="the token that asks")
        ax.set_title(title, fontsize=11)
        ax.invert_yaxis()
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
    return figure
