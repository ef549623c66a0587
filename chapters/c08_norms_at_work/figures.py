"""What the chapter's experiments gave, as pictures: what was trained in front of the reader, and
what was recorded.

Chapter 08.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chapters import records_of
from chapters.c08_norms_at_work import shaken
from chapters.c08_norms_at_work.comparisons import ONE_IMAGE, adding_runs, lead, saved, tied_lead
from course_utils.experiments import Difference, Rows, at_best
from course_utils.plots import spread_curves
from course_utils.plots.style import (
    INK,
    MUTED,
    PALETTE,
    PAPER,
    line_style,
    marker_style,
    new_figure,
)

__all__ = [
    "adding_problem",
    "by_batch_size",
    "gradients_by_depth",
    "leads",
    "learning_curves",
    "pairs",
    "placements",
    "shaken_losses",
    "transformer_rates",
]

_load = records_of("08")
LENGTHS = (25, 50, 100)
_SHAKEN = {"batch norm": 0, "no norm": 6, "held": 3, "shaken": 4}  # in the palette
_GAP = 0.29  # what is left out of the axis of the leads
_FAILED = 3.5  # where a loss that is no number is drawn
_BUDGETS = {"updates": "200 updates", "epochs": "2 epochs"}


def learning_curves(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], ylabel: str
) -> Figure:
    """Draw a number against the update, a thin line for each seed, named in a legend.

    Args:
        panels: by the panel's title and the arm's name, one list for each seed, of every tenth
            update.
        ylabel: what the number is.
    """
    figure, axes = new_figure(3.6, ncols=len(panels), sharey=True)
    for ax, (title, arms) in zip(axes, panels.items(), strict=True):
        for arm, (name, seeds) in enumerate(arms.items()):
            look = line_style(arm) | {"linewidth": 1.6}
            look["linestyle"] = "-" if arm == 0 else "--"
            for seed, values in enumerate(seeds):
                updates = 10 * (np.arange(len(values)) + 1)
                ax.plot(updates, values, label=name if seed == 0 else None, **look)
        ax.set(title=title, xlabel="updates")
    axes[0].set_ylabel(ylabel)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def by_batch_size() -> Figure:
    """Draw the test accuracy by batch size, each norm at its best rate, three seeds, for the CNN at
    equal updates and epochs, and for the MLP; without a norm a thin line."""
    best: dict[str, Any] = {"value": "validation", "level": ONE_IMAGE}
    cnn = _load("batch-size").select(net="CNN")
    rows = at_best(cnn, "lr", by=("equal", "norm", "batch"), **best)
    titled = [{**row, "panel": f"CNN, {_BUDGETS[row['equal']]}"} for row in rows]
    rows = at_best(_load("mlp-rates"), "lr", by=("norm", "batch"), **best)
    titled += [{**row, "panel": "MLP, 2 epochs"} for row in rows]
    figure = spread_curves(
        [row for row in titled if row["norm"] != "none"],
        "batch",
        "test",
        "norm",
        panels="panel",
        log_x=True,
        xlabel="batch size",
        ylabel="test accuracy",
        height=3.6,
    )
    for ax, panel in zip(figure.axes, dict.fromkeys(row["panel"] for row in titled), strict=True):
        bare = Rows(row for row in titled if row["panel"] == panel).select(norm="none")
        means = bare.mean_and_spread("test", "batch")
        ax.plot(list(means), [spread.mean for spread in means.values()], color=MUTED, linewidth=1)
        side = "left" if means[64].mean > means[16].mean else "right"  # where the line is not
        at = (16, means[16].mean - 0.1)
        ax.annotate("no norm", at, color=MUTED, ha=side, va="center")
    return figure


def pairs(compared: Mapping[str, Any]) -> Figure:
    """Draw the runs of two arms, those with the same seed joined by a line; the means as bars, runs
    of equal accuracy counted beside their dot, and the correlation in the title.

    Args:
        compared: by the panel's title the test accuracies (2, S), batch norm's and layer norm's.
    """
    figure, axes = new_figure(3.4, ncols=len(compared))
    for ax, (title, runs) in zip(axes, compared.items(), strict=True):
        together = f"{np.corrcoef(runs)[0, 1]:.2f}".replace("-", "−")
        ax.plot([0, 1], runs, color=MUTED, linewidth=0.8, linestyle="-")
        for arm, values in enumerate(runs):
            look: dict[str, Any] = {"color": PALETTE[arm]}
            ax.plot([arm] * len(values), values, linestyle="", **marker_style(arm), **look)
            ax.plot([arm - 0.2, arm + 0.2], [values.mean()] * 2, linestyle="-", **look)
            for value, count in zip(*np.unique(values, return_counts=True), strict=True):
                if count > 1:
                    beside = (-9, "right") if arm == 0 else (9, "left")
                    _beside(ax, f"×{count}", (arm, value), *beside)
        ax.set(xlim=(-0.5, 1.5), title=f"{title},\ncorrelation {together}")
        ax.set_xticks([0, 1], labels=["batch norm", "layer norm"])
    axes[0].set_ylabel("right on test")
    return figure


def _beside(axes: Axes, text: str, at: tuple[float, float], points: float, side: str) -> None:
    """Write beside a point, so many points of type away."""
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    axes.annotate(text, at, (points, 0), ha=side, **look)


def leads() -> Figure:
    """Draw how far batch norm's test accuracy is ahead of layer norm's, ten new seeds each, on an
    axis with a gap, the lead written beside it; the interval of a decided difference leaves zero
    out, and the dot of an undecided one is hollow. In grey the lead where layer norm has another
    rate that is level on validation."""
    settings = [
        ("MLP", 2, "2 epochs"),
        ("MLP", 4, "2 epochs"),
        ("CNN", 2, "2 epochs"),
        *(("CNN", batch, budget) for budget in ("2 epochs", "15 epochs") for batch in (16, 64)),
    ]
    figure, axes = new_figure(3.8)
    axes.axvline(0, color=INK, linewidth=1)
    for row, (network, batch, budget) in enumerate(settings):
        tied = budget == "15 epochs"
        gap = lead("batch", "layer", network, batch, budget)
        _interval(axes, gap, 0.15 * tied - row, shift=_GAP if gap.mean < -0.1 else 0)
        if tied:
            _interval(axes, tied_lead(batch), -0.2 - row, colour=MUTED)
    axes.set_yticks(
        -np.arange(len(settings)), labels=[f"{n}, batch {b}, {t}" for n, b, t in settings]
    )
    far, near = (-0.45,), (0, 0.05)
    axes.set_xticks(
        [*(x + _GAP for x in far), *near],
        labels=[f"{x:g}".replace("-", "−") for x in (*far, *near)],
    )
    axes.grid(visible=False, axis="y")
    axes.margins(y=0.1)
    axes.set(xlim=(-0.495 + _GAP, 0.1), xlabel="batch norm's lead, test accuracy")
    stroke = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "center"}
    axes.text(-0.365 + _GAP, 0, " // ", backgroundcolor=PAPER, **stroke)
    return figure


def _interval(
    axes: Axes, difference: Difference, y: float, colour: str = PALETTE[0], shift: float = 0
) -> None:
    reach = difference.t_needed * difference.error
    look: dict[str, Any] = {"color": colour, "marker": "o", "ms": 5, "capsize": 4, "ls": ""}
    look["markerfacecolor"] = colour if difference.decided else "white"
    axes.errorbar(difference.mean + shift, y, xerr=reach, **look)
    number = f"{difference.mean:.3f}".replace("-", "−")
    if difference.mean < 0 and not shift:
        _beside(axes, number, (difference.mean - reach, y), -6, "right")
    else:
        _beside(axes, number, (difference.mean + shift + reach, y), 6, "left")


def shaken_losses(results: Mapping[str, shaken.Training]) -> Figure:
    """Draw the loss of the last 20 of 120 updates, the noise off, by learning rate: a line through
    the means of eight seeds, and the seeds as dots, at most 3 % beside their rate."""
    figure, axes = new_figure(4.4)
    rates = np.array(shaken.RATES)
    for place, (arm, result) in enumerate(results.items()):
        across = rates * 1.02 ** (place - 1.5)
        seeds = result.noise_off.nan_to_num(nan=_FAILED).clamp_max(_FAILED).numpy()  # (R, S)
        look: dict[str, Any] = {"color": PALETTE[_SHAKEN[arm]]}
        axes.plot(across, seeds, ".", alpha=0.4, **look)
        means = result.noise_off.mean(1).numpy()
        axes.plot(rates, means, label=arm, **line_style(_SHAKEN[arm]))
    axes.set(xscale="log", yscale="log", xlabel="learning rate")
    axes.set_ylabel("training loss, noise off")
    axes.set_xticks(rates, labels=[f"{rate:g}" for rate in rates])
    axes.grid(visible=False, axis="x")
    losses = (0.05, 0.1, 0.2, 0.5, 1, 2)
    axes.set_yticks([*losses, _FAILED], labels=[*(f"{loss:g}" for loss in losses), "NaN"])
    axes.minorticks_off()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def adding_problem() -> Figure:
    """Draw the updates until the adding problem is solved by length, ten new seeds, and how many
    times fewer they are than the plain LSTM's."""
    figure, (needed, fewer) = new_figure(3.9, ncols=2)
    for series, arm in enumerate(("LSTM", "LSTM, clipped", "LN-LSTM")):
        look = line_style(series) | marker_style(series)
        taken = [[row["taken"] for row in adding_runs(arm, length)] for length in LENGTHS]
        needed.plot(LENGTHS, np.mean(taken, axis=1), label=arm, **look)
        for length, seeds in zip(LENGTHS, taken, strict=True):
            beside = [length * 1.03 ** (series - 1)] * len(seeds)
            dots = {"marker": ".", "ls": "", "alpha": 0.7, "color": PALETTE[series]}
            needed.plot(beside, seeds, **dots)
        if series:
            _factors(fewer, arm, series)
    for ax in (needed, fewer):
        ax.set_xscale("log")
        ax.set_xticks(LENGTHS, labels=[str(length) for length in LENGTHS])
        ax.minorticks_off()
        ax.set(xlabel="length of the sequence (steps)")
    needed.set(ylabel="updates", title="until the error is below 0.02", ylim=(0, 1600))
    fewer.axhline(1, color=INK, linewidth=1)
    fewer.set(ylabel="times", title="times fewer than the LSTM", ylim=(0, 8))
    figure.legend(*needed.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _factors(axes: Axes, arm: str, series: int) -> None:
    logs = [saved(arm, length, value="log2") for length in LENGTHS]
    reach = np.array([log.t_needed * log.error for log in logs])
    means = np.array([log.mean for log in logs])
    bars = np.stack([2**means - 2 ** (means - reach), 2 ** (means + reach) - 2**means])
    beside = [length * 1.03 ** (2 * series - 3) for length in LENGTHS]
    look = marker_style(series) | {"color": PALETTE[series], "ls": "", "capsize": 4}
    axes.errorbar(beside, 2**means, yerr=bars, **look)


def placements() -> Figure:
    """Draw a block with its norms in the branches beside one with its norms behind the sums; the
    straight path is a thick line from below."""
    figure, panels = new_figure(5.2, ncols=2)
    for axes, placement in zip(panels, ("pre", "post"), strict=True):
        axes.set_axis_off()
        axes.set(xlim=(-2.6, 8.4), ylim=(-0.9, 13.6), title=f"{placement}-norm")
        arrow = {"arrowstyle": "-|>,head_width=0.4,head_length=0.8", "color": PALETTE[0], "lw": 5}
        axes.annotate("", (0, 13.2), (0, -0.4), arrowprops=arrow)
        axes.text(-0.5, -0.4, "x", ha="right", style="italic")
        for bottom, name in ((0.4, "attention"), (6, "MLP")):
            _branch(axes, bottom, name, placement)
    return figure


def _branch(axes: Axes, bottom: float, name: str, placement: str) -> None:
    """Draw what leaves the straight path at ``bottom``, and its sum with it."""
    top = bottom + 3.7
    for tail, head, look in (
        ((0, bottom), (5, bottom), "-"),
        ((5, bottom), (5, top), "-"),
        ((5, top), (0.45, top), "-|>"),
    ):
        arrow = {"arrowstyle": look, "color": INK, "lw": 1.8, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", head, tail, arrowprops=arrow)
    axes.text(0, top, "+", bbox=_box("circle", PAPER, INK), ha="center", va="center", fontsize=12)
    norm: dict[str, Any] = {"color": "white", "weight": "bold", "ha": "center", "va": "center"}
    norm["bbox"] = _box("round", PALETTE[1], PALETTE[1])
    if placement == "pre":
        axes.text(5, bottom + 1, "norm", **norm)
    else:
        axes.text(0, top + 1.2, "norm", **norm)
        axes.text(1.4, top + 1.2, "÷ σ", va="center")
    middle = bottom + (2.5 if placement == "pre" else 1.8)
    axes.text(5, middle, name, bbox=_box("round", PAPER, INK), ha="center", va="center")


def _box(shape: str, inside: str, edge: str) -> dict[str, Any]:
    return {"boxstyle": shape, "facecolor": inside, "edgecolor": edge, "linewidth": 1.8}


def gradients_by_depth() -> Figure:
    """Draw the gradient of each layer of 24, and that of the last layer and of pre-norm's first by
    depth, with twice the standard error of the mean of twenty seeds."""
    rows = _load("gradient-depth")
    depths = np.array(rows.values("depth"))
    figure, (by_layer, by_depth) = new_figure(3.8, ncols=2)
    for series, placement in enumerate(("pre", "post")):
        mine = rows.select(placement=placement)
        every = np.array([row["gradient"] for row in mine.select(depth=24)])  # (seeds, layers)
        _mean_with_error(by_layer, np.arange(1, 25), every, series, f"{placement}-norm")
        last = np.array([[row["last"] for row in mine.select(depth=d)] for d in depths])
        _mean_with_error(by_depth, depths, last.T, series, f"{placement}-norm, last")
        if placement == "pre":
            root = last[1].mean() * (depths[1] / depths) ** 0.5  # from six layers on
            by_depth.plot(depths, root, color=MUTED, linestyle=":", label="as 1 / √L")
            first = [[row["first"] for row in mine.select(depth=d)] for d in depths]
            _mean_with_error(by_depth, depths, np.array(first).T, 2, "pre-norm, first")
    by_layer.set(title="each layer of 24", xlabel="layer", ylabel="norm of the gradient")
    by_layer.set(xticks=[1, 6, 12, 18, 24], ylim=(0, 3))
    by_layer.text(4, 2, "pre-norm", color=PALETTE[0])
    by_layer.text(10, 2.3, "post-norm", color=PALETTE[1])
    by_depth.set(title="by number of layers", xlabel="layers", xscale="log", yscale="log")
    by_depth.set_xticks(depths, labels=[str(d) for d in depths])
    by_depth.set_yticks([0.4, 0.6, 1, 2, 3], labels=["0.4", "0.6", "1", "2", "3"])
    by_depth.minorticks_off()
    figure.legend(*by_depth.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _mean_with_error(
    axes: Axes, x: np.ndarray, values: np.ndarray, series: int, label: str
) -> None:
    """Draw the mean of ``values`` (seeds, len(x)) with a band of two standard errors."""
    mean, error = values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5
    colour = PALETTE[series]
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean, label=label, **line_style(series))


def transformer_rates() -> Figure:
    """Draw the test accuracy of pre- and post-norm by learning rate, three seeds as dots, for two
    depths and with a warm-up."""
    vits = _load("vit-depth")
    deep = vits.select(depth=12)
    parts = {
        "2 layers": vits.select(depth=2),
        "12 layers": deep.select(warm_up=0),
        "12, warm-up": deep.select(warm_up=100),
    }
    figure, axes = new_figure(3.5, ncols=len(parts), sharey=True)
    for ax, (title, rows) in zip(axes, parts.items(), strict=True):
        _accuracy_by_rate(ax, rows)
        ax.set(title=title, xlabel="learning rate")
    axes[0].set_ylabel("test accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _accuracy_by_rate(axes: Axes, rows: Rows) -> None:
    rates = rows.values("lr")
    for series, placement in enumerate(("pre", "post")):
        arm = rows.select(placement=placement)
        test = np.array([[row["test"] for row in arm.select(lr=lr)] for lr in rates])
        places = np.arange(len(rates)) + 0.1 * (series - 0.5)
        name = f"{placement}-norm"
        axes.plot(places, test.mean(1), label=name, **line_style(series), **marker_style(series))
        for place, seeds in zip(places, test, strict=True):
            axes.plot([place] * len(seeds), seeds, ".", color=PALETTE[series], alpha=0.7)
    axes.axhline(0.1, color=MUTED, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(rates)), labels=[f"{lr:g}" for lr in rates], fontsize=9)
    axes.set(xlim=(-0.4, len(rates) - 0.6), ylim=(0, 1))
