"""The runs that the chapter compares: of each arm at its own rate, which three seeds chose, those
of ten seeds that had no part in the choice.

Chapter 08.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from chapters import records_of
from course_utils.experiments import Difference, Rows, at_best, paired_difference

__all__ = [
    "ONE_IMAGE",
    "accuracies",
    "adding_runs",
    "by_depth_and_weights",
    "digits_runs",
    "flattery",
    "lead",
    "saved",
    "tied_lead",
    "vit_runs",
]

_load = records_of("08")
ONE_IMAGE = 1 / 240  # of the validation part: rates so close count as level


def accuracies(rows: Rows, norms: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the validation and the test accuracies of ``rows``, (A, R, S) each: norms, rates,
    seeds."""
    cells = [[rows.select(norm=norm, lr=lr) for lr in rows.values("lr")] for norm in norms]
    validation, test = (
        torch.tensor([[[row[part] for row in runs] for runs in arm] for arm in cells])
        for part in ("validation", "test")
    )
    # whole images, so that equal ones are exactly equal
    return (240 * validation).round() / 240, test


def digits_runs(norm: str, network: str, batch: int, budget: str) -> Rows:
    """Return the new seeds of a norm in the CNN or the MLP, after ``"200 updates"``, ``"2
    epochs"`` or ``"15 epochs"``."""
    wanted = {"net": network, "norm": norm, "batch": batch}
    runs = _load("digits-seeds").select(**wanted, budget=budget)
    if budget != "15 epochs":
        return runs
    # recorded at more rates than the chosen one
    old = _load("cnn-long").select(norm=norm, batch=batch)
    best = at_best(old, "lr", by=("norm",), value="validation", level=ONE_IMAGE)
    return runs.select(lr=best[0]["lr"])


def lead(one: str, other: str, network: str, batch: int, budget: str = "2 epochs") -> Difference:
    """Return how far one norm's test accuracy is ahead of another's, seed by seed."""
    runs, others = (digits_runs(norm, network, batch, budget) for norm in (one, other))
    return paired_difference(runs, others, "test")


def tied_lead(batch: int) -> Difference:
    """Return the lead of batch norm over layer norm in the CNN after 15 epochs where layer norm has
    the rate below its chosen one, which validation holds level."""
    fifteen = _load("digits-seeds").select(net="CNN", batch=batch, budget="15 epochs")
    chosen = digits_runs("layer", "CNN", batch, "15 epochs")[0]["lr"]
    below = max(lr for lr in fifteen.values("lr") if lr < chosen)
    layer = fifteen.select(norm="layer", lr=below)
    return paired_difference(digits_runs("batch", "CNN", batch, "15 epochs"), layer, "test")


def flattery(part: str) -> float:
    """Return how much better three seeds look on the test part than the other seven of ten, at the
    rate that the three chose on ``part``: the mean over all threes, batch and layer norm, batches
    of 16 and 64."""
    fresh = _load("digits-seeds").select(budget="15 epochs")
    found = []
    for batch in (16, 64):
        rows = fresh.select(batch=batch)
        arms = rows.select(norm="batch"), rows.select(norm="layer")
        for runs in arms:
            validation, test = (table[0] for table in accuracies(runs, runs.values("norm")))
            chosen_on = test if part == "test" else validation
            for three in map(list, combinations(range(10), 3)):
                seven = [seed for seed in range(10) if seed not in three]
                rate = (chosen_on[:, three].double().sum(dim=1) * 1e6).round().argmax()
                found.append((test[rate, three].mean() - test[rate, seven].mean()).item())
    return statistics.fmean(found)


def adding_runs(arm: str, length: int, batch: int = 32, gamma: float = 1.0) -> Rows:
    """Return the new seeds of the adding problem, each with the logarithm ("log2") of the updates
    that it took."""
    if gamma != 1.0 or (arm == "LN-LSTM" and length == 50):
        old = _load("lstm-gamma").select(gamma=gamma)
    elif batch == 4:
        old = _load("lstm-batch").select(arm=arm)
    else:
        rows = Rows([*_load("lstm-length"), *_load("lstm-edges")])
        old = rows.select(arm=arm, length=length)
    best = at_best(old, "lr", by=("arm",), value="taken", lowest=True)
    wanted = {"arm": arm, "length": length, "batch": batch, "gamma": gamma}
    runs = _load("lstm-seeds").select(**wanted, lr=best[0]["lr"])
    return Rows({**row, "log2": math.log2(row["taken"])} for row in runs)


def saved(arm: str, length: int, batch: int = 32, value: str = "taken") -> Difference:
    """Return how many updates fewer ``arm`` takes than the plain LSTM, or by how much their
    logarithm ("log2") is less."""
    plain, other = (adding_runs(name, length, batch) for name in ("LSTM", arm))
    return paired_difference(plain, other, value)


def vit_runs(placement: str, lr: float, warm_up: int = 0, init: str = "torch") -> Rows:
    """Return the new seeds of a vision transformer: 12 layers, with Xavier's weights 24."""
    fields = {"placement": placement, "lr": lr, "warm_up": warm_up, "init": init}
    return _load("vit-seeds").select(**fields)


def by_depth_and_weights() -> list[tuple[str, str, str]]:
    """Return the test accuracy of vision transformers without norms and with pre-norm, each at its
    best rate, three seeds: of 12 and 24 layers, with PyTorch's first weights and with Xavier's."""
    rows = Rows([*_load("vit-depth-init").select(warm_up=0), *_load("vit-xavier")])
    arms = ("init", "depth", "placement")
    best = at_best(rows, "lr", by=arms, value="validation").mean_and_spread("test", arms)
    return [
        (
            f"{depth}, {'PyTorch' if init == 'torch' else init}'s",
            f"{best[init, depth, 'none'].mean:.2f}",
            f"{best[init, depth, 'pre'].mean:.2f}",
        )
        for init in ("torch", "Xavier")
        for depth in (12, 24)
    ]
