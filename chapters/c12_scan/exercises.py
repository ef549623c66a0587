"""Chapter 12: a linear recurrence, all steps at once; one with a matrix for a state, in chunks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import examine
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, counting, integers, read_probes
from course_utils.check.report import Report
from course_utils.check.sandbox import Sandbox, TimeUp
from course_utils.timing import traffic

__all__ = ["in_chunks", "left_of", "linear_scan"]

_STEPS, _MOST_CALLS = 1024, 500  # a loop makes a call a step, ten rounds of a scan some fifty


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


def _no_loop(exercise: Exercise, *given: Tensor) -> Exercise:
    """Return ``exercise`` that passes no answer which makes a call for each step of ``given``."""

    def judge(function: Callable[..., Any], sandbox: Sandbox) -> Report:
        report = examine(exercise, function, torch.device("cpu"))
        if not report.passed:
            return report
        outcome = sandbox.call(lambda: traffic(function, *given))
        calls = len(outcome.value or ())
        if calls <= _MOST_CALLS and not isinstance(outcome.error, TimeUp):
            return report
        counted = f"{calls:,} calls of PyTorch" if calls else f"more than {sandbox.limit_s:g} s"
        message = (
            f"Right on every probe, but a loop: {counted} for {_STEPS:,} steps, "
            f"where {_MOST_CALLS} calls are plenty."
        )
        return replace(report, passed=False, message=message, probes=())

    return replace(exercise, judge=judge)


linear_scan = _no_loop(
    Exercise(
        "linear_scan",
        _linear_scan,
        read_probes(__file__, "linear_scan", _scan),
        load("linear_scan", _linear_scan),
        # a gate of 1 hides what is left out
        simplest={"a": lambda shape, dtype: counting(shape, dtype) + 1},
    ),
    torch.full((1, _STEPS, 1), 0.5),
    torch.ones(1, _STEPS, 1),
)


def left_of(a: Tensor) -> Tensor:
    """Return what is left of step s at step t, 0 for s > t: (..., L) to (..., L, L)."""
    later = a.new_ones(2 * a.shape[-1:], dtype=torch.bool).tril(-1)  # t > s
    return torch.where(later, a.unsqueeze(-1), 1.0).cumprod(-2).tril()


def divided_products(a):
    product = a.cumprod(-1)
    return (product.unsqueeze(-1) / product.unsqueeze(-2)).tril()


def _in_chunks(a, q, k, v, L=64):
    a, q, k, v = (each.unflatten(0, (-1, L)) for each in (a, q, k, v))
    left = left_of(a)
    inside = (q @ k.mT * left) @ v
    added = (k * left[:, -1, :, None]).mT @ v
    passed = a.cumprod(1)[..., None]
    gates = passed[:, -1].expand(-1, added[0].numel())
    H = _linear_scan(gates[None], added.flatten(1)[None])[0]
    before = F.pad(H[:-1], (0, 0, 1, 0)).view_as(added)
    return (inside + passed * (q @ before)).flatten(0, 1)


def _head(
    steps: int, L: int, D: int = 3, E: int = 2, seed: int = 0, forgets_at: int | None = None
) -> Call:
    """Return a call on so many steps, gates of 1/2, 1 and 2, in chunks of ``L``."""
    a = _gates(steps, seed=seed)
    if forgets_at is not None:
        a[forgets_at] = 0.0
    q, k = integers(2, steps, D, seed=seed + 1)
    given = {"a": a, "q": q, "k": k, "v": integers(steps, E, seed=seed + 2), "L": L}
    return Call(given, {"a": "T", "q": "TD", "k": "TD", "v": "TE"})


in_chunks = _no_loop(
    Exercise(
        "in_chunks",
        _in_chunks,
        read_probes(__file__, "in_chunks", _head, plain=True),
        load("in_chunks", _in_chunks),
        # a small call has whole chunks, and two at least
        may_shrink_to=lambda call: (
            "L" in call.arguments
            and call.arguments["a"].numel() % call.arguments["L"] == 0
            and call.arguments["a"].numel() > call.arguments["L"]
        ),
        simplest={"a": lambda shape, dtype: counting(shape, dtype) + 1},
    ),
    torch.full((_STEPS,), 0.5),
    *torch.ones(3, _STEPS, 4),
)
