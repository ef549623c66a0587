"""Chapter 07: which setting to choose, and what to report of it."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe

__all__ = ["choose_and_report"]


def _choose_and_report(validation, test):
    arms = torch.arange(len(test))
    rate = validation.mean(dim=2).argmax(dim=1)  # (A,)
    at_rate = test[arms, rate]  # (A, S)
    return rate, at_rate.mean(dim=1), at_rate.std(dim=1)


def a_rate_for_each_seed(validation, test):
    """Each seed of an arm at the rate that is best for this seed."""
    rate = validation.argmax(dim=1, keepdim=True)  # (A, 1, S)
    chosen = test.gather(1, rate).squeeze(1)
    return _choose_and_report(validation, test)[0], chosen.mean(dim=1), chosen.std(dim=1)


def spread_over_everything(validation, test):
    rate, mean, _ = _choose_and_report(validation, test)
    return rate, mean, test.flatten(1).std(dim=1)


def _accuracies(arms: int, rates: int, seeds: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return accuracies in percent, different wherever a mistake could hide: best means, runs and
    seeds lie apart."""
    rng = torch.Generator().manual_seed(seed)
    count = arms * rates * seeds
    values = [
        torch.randperm(4 * count, generator=rng)[:count].view(arms, rates, seeds) for _ in range(2)
    ]
    return 50 + values[0].float() / count * 10, 50 + values[1].float() / count * 10


def _runs(name: str, stage: str, validation: Tensor, test: Tensor, *compares: str) -> Probe:
    return Probe(
        name,
        stage,
        Call({"validation": validation, "test": test}, {"validation": "ARS", "test": "ARS"}),
        compares=compares or None,
    )


_WORKED = torch.tensor([[[80.0, 82.0], [90.0, 70.0]]]), torch.tensor([[[79.0, 81.0], [99.0, 65.0]]])
_TABLES = [
    ("the worked runs", *_WORKED),
    ("one arm, three rates, two seeds", *_accuracies(1, 3, 2, seed=1)),
    ("two arms, four rates, three seeds", *_accuracies(2, 4, 3, seed=7)),
    ("four arms, three rates, five seeds", *_accuracies(4, 3, 5, seed=3)),
]

choose_and_report = Exercise(
    "choose_and_report",
    _choose_and_report,
    [
        *(_runs(name, "choice", validation, test, "rate") for name, validation, test in _TABLES),
        *(_runs(name, "report", validation, test, "mean") for name, validation, test in _TABLES),
        *(_runs(name, "spread", validation, test) for name, validation, test in _TABLES),
    ],
    load("choose_and_report", _choose_and_report),
    returns=("rate", "mean", "spread"),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["test"].shape[2] > 1,  # one seed has no spread
)
