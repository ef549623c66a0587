"""Chapter 12: a linear recurrence, all steps at once."""

from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, counting, integers, read_probes

__all__ = ["linear_scan"]


def _linear_scan(a, b, h0=None):
    if h0 is not None:
        b = torch.cat([(a[:, 0] * h0 + b[:, 0]).unsqueeze(1), b[:, 1:]], dim=1)
    k = 1
    while k < b.shape[1]:
        joined = a[:, k:] * b[:, :-k] + b[:, k:]  # the last 2k steps up to t as one
        a = torch.cat([a[:, :k], a[:, k:] * a[:, :-k]], dim=1)
        b = torch.cat([b[:, :k], joined], dim=1)
        k = 2 * k
    return b


def divided_by_product(a, b):
    product = a.cumprod(dim=1)
    return product * (b / product).cumsum(dim=1)


def divided_by_it_in_logarithms(a, b):
    logs = a.log().cumsum(dim=1)
    return logs.exp() * (b * (-logs).exp()).cumsum(dim=1)


def logs_of_gates_and_inputs(a, b):
    """Feng et al. 2024, appendix B, for gates and inputs above 0."""
    log_products = a.log().cumsum(dim=1)
    return (log_products + (b.log() - log_products).logcumsumexp(dim=1)).exp()


def logs_of_gates_and_sizes(a, b):
    """The same for either sign of b."""
    return logs_of_gates_and_inputs(a, b.clamp_min(0)) - logs_of_gates_and_inputs(
        a, (-b).clamp_min(0)
    )


def detached(a, b):
    h, states = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        states.append(a[:, t] * h + b[:, t])
        h = states[-1].detach()
    return torch.stack(states, dim=1)


def _gates(*shape: int, seed: int) -> Tensor:
    """Return gates of 1/2, 1 and 2: products of a few are exact."""
    return 2.0 ** torch.randint(-1, 2, shape, generator=torch.Generator().manual_seed(seed))


def _scan(length: int = 0, seed: int = 0, forgets_at: int | None = None, **arguments: Any) -> Call:
    """Return a call on so many steps with these ``arguments`` beside, or without a length on the
    arguments alone."""
    if length:
        a, b = _gates(3, length, 2, seed=seed), integers(3, length, 2, seed=seed + 1)
        if forgets_at is not None:
            a[:, forgets_at] = 0.0
        arguments = {"a": a, "b": b, **arguments}
    return Call(arguments, {"a": "BTC", "b": "BTC", "h0": "BC"})


linear_scan = Exercise(
    "linear_scan",
    _linear_scan,
    read_probes(__file__, "linear_scan", _scan),
    load("linear_scan", _linear_scan),
    # a gate of 1 hides what is left out
    simplest={"a": lambda shape, dtype: counting(shape, dtype) + 1},
)
