"""How signals and gradients go with depth, what the layers hold, and the valley of inputs with a
mean."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from torch import Tensor

from course_utils.plots.curves import draw_log_curves
from course_utils.plots.style import INK, MUTED, PALETTE, as_series, new_figure

__all__ = ["by_depth", "layer_by_layer", "mark_band", "valleys"]

_PLACES = {"bare": 0, "over features": 2, "over the batch": 3}  # in the palette


def by_depth(
    curves: Mapping[str, ArrayLike],
    xlabel: str,
    ylabel: str,
    band: tuple[float, float] = (1.0, 1.0),
) -> Figure:
    """Draw a size in each layer, on a logarithmic axis with a rule at 1 or a shaded band.

    Args:
        curves: what each network is called, the norm and then the gain, and its sizes in layers 1,
            2, ..., (depth,) each; one colour for one norm.
        xlabel: how the layers are counted.
        ylabel: the vertical quantity.
        band: the lower and the upper edge of what is good.

    Raises:
        ValueError: the networks differ in depth, or a size is negative.
    """
    figure, axes = new_figure()
    depth = len(np.asarray(next(iter(curves.values()))))
    if band[0] < band[1]:
        axes.axhspan(*band, color=MUTED, alpha=0.15, linewidth=0)
    else:
        axes.axhline(band[0], color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    lines = {name: as_series(name, values, depth) for name, values in curves.items()}
    places = [_PLACES.get(name.partition(", ")[0], 0) for name in lines]
    series = [  # another dash in the same colour
        place + len(PALETTE) * places[:line].count(place) for line, place in enumerate(places)
    ]
    draw_log_curves(axes, np.arange(1.0, depth + 1), lines, max(1, depth // 12), series)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure


def mark_band(
    figure: Figure, ratios: Sequence[float], rates: Sequence[float], band: tuple[float, float]
) -> None:
    """Mark in each row of a heatmap, whose columns are ``rates`` a factor of ten apart, the rates
    that bring a row's ratio of gradient to weight into ``band``."""
    axes = figure.axes[0]
    columns = np.log10(np.divide.outer(band, ratios)) - np.log10(rates[0])  # (2, rows)
    low, high = columns.clip(-0.5, len(rates) - 0.5)
    rows = np.arange(len(ratios)) + 0.36
    axes.hlines(rows, low, high, color="white", linewidth=5, linestyle="-")
    axes.hlines(rows, low, high, color=PALETTE[1], linewidth=3, linestyle="-")


def layer_by_layer(networks: Mapping[str, tuple[Sequence[Tensor], Sequence[Tensor]]]) -> Figure:
    """Draw the values in each layer as violins, with the first and the last standard deviation, and
    below how large the gradients are there.

    Args:
        networks: what each is called; the values from -1 to 1 in front of its first layer and after
            each, and the gradients there.
    """
    figure, axes = new_figure(4.6, nrows=2, ncols=len(networks), sharex=True, sharey="row")
    labelled = {1: (0.5, "left"), 10: (10.5, "right")}
    for column, (name, (values, gradients)) in enumerate(networks.items()):
        above, below = axes[0][column], axes[1][column]
        for layer, value in enumerate(values[1:], 1):
            held = value.detach().flatten()
            reach = min(1.0, held.abs().max().item())
            counts, edges = np.histogram(held.numpy(), 41, (-reach, reach))
            width = 0.45 * counts / counts.max()
            heights, width = np.repeat(edges, 2)[1:-1], np.repeat(width, 2)
            left, right = layer - width, layer + width
            above.fill_betweenx(heights, left, right, color=PALETTE[0], linewidth=0.5)
            if layer in labelled:
                x, align = labelled[layer]
                above.text(x, 1.2, f"{held.std():.1g}", ha=align, color=MUTED)
        shares = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
        quantiles = [gradient.abs().flatten().quantile(shares) for gradient in gradients[1:]]
        low, lower, middle, upper, high = torch.stack(quantiles, dim=1).numpy()
        depth = np.arange(1, len(values))
        for share in ((low, high), (lower, upper)):
            below.fill_between(depth, *share, color=PALETTE[1], alpha=0.25, linewidth=0)
        below.plot(depth, middle, color=PALETTE[1], linestyle="-")
        below.set(yscale="log", xlabel="layer", xticks=[1, 5, 10])
        above.set_title(name)
    axes[0][0].set(ylabel="values", yticks=[-1, 0, 1], ylim=(-1.1, 1.5))
    axes[1][0].set(ylabel="size of gradients")
    return figure


def valleys(curvatures: Mapping[str, Tensor], steps: int = 30) -> Figure:
    """Draw the loss of a linear unit over its two weights, and gradient descent's way down.

    Args:
        curvatures: what the inputs are called, and their second moments, float64 (2, 2).
        steps: of gradient descent, at one over the largest curvature.
    """
    figure, axes = new_figure(
        3.9, ncols=len(curvatures), sharey=True, subplot_kw={"aspect": "equal"}
    )
    grid = np.linspace(-1.6, 1.6, 161)
    points = np.stack(np.meshgrid(grid, grid), axis=-1)
    for ax, (name, matrix) in zip(axes, curvatures.items(), strict=True):
        H = matrix.numpy()
        loss = np.einsum("...i,ij,...j->...", points, H, points) / 2
        levels = loss.max() * np.linspace(0.02, 1, 9) ** 2
        ax.contour(grid, grid, loss, levels, colors=MUTED, linewidths=0.8)
        path = [np.array([-0.5, 1.5])]
        for _ in range(steps):
            path.append(path[-1] - H @ path[-1] / np.linalg.eigvalsh(H)[-1])
        ax.plot(*np.array(path).T, color=PALETTE[1], marker="o", markersize=4, linestyle="-")
        ax.plot(0, 0, marker="*", color=INK, markersize=13)
        ax.set(title=name, xlabel="first weight − its best")
        ax.grid(visible=False)
    axes[0].set(ylabel="second weight − its best")
    return figure
