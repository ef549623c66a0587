"""Chapter 08: which setting to choose, and what to report of it."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes

__all__ = ["choose_and_report"]


def _choose_and_report(validation, test):
    arms = torch.arange(len(test))
    rate = validation.mean(dim=2).argmax(dim=1)  # (A,)
    at_rate = test[arms, rate]  # (A, S)
    return rate, at_rate.mean(dim=1), at_rate.std(dim=1)


def _runs(
    size: Sequence[int] = (), seed: int = 0, validation: Any = None, test: Any = None
) -> Call:
    """Return a call with these accuracies; with a ``size``, drawn in percent, different wherever a
    mistake could hide: best means, runs and seeds lie apart."""
    if size:
        rng = torch.Generator().manual_seed(seed)
        count = math.prod(size)
        validation, test = (
            50 + torch.randperm(4 * count, generator=rng)[:count].view(*size).float() / count * 10
            for _ in range(2)
        )
    accuracies = {"validation": torch.as_tensor(validation), "test": torch.as_tensor(test)}
    return Call(accuracies, {"validation": "ARS", "test": "ARS"})


choose_and_report = Exercise(
    "choose_and_report",
    _choose_and_report,
    read_probes(__file__, "choose_and_report", _runs, plain=True),
    load("choose_and_report", _choose_and_report),
    returns=("rate", "mean", "spread"),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["test"].shape[2] > 1,  # one seed has no spread
)
