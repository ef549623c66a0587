"""Chapter 11: a linear recurrence, all steps at once."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, counting, integers

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


def divided_by_product(a, b, h0=None):
    product = a.cumprod(dim=1)
    start = 0.0 if h0 is None else h0.unsqueeze(1)
    return product * (start + (b / product).cumsum(dim=1))


def divided_by_it_in_logarithms(a, b, h0=None):
    logs = a.log().cumsum(dim=1)
    start = 0.0 if h0 is None else h0.unsqueeze(1)
    return logs.exp() * (start + (b * (-logs).exp()).cumsum(dim=1))


def logs_of_gates_and_inputs(a, b, h0=None):
    """Feng et al. 2024, appendix B, for gates and inputs above 0."""
    start = torch.zeros_like(b[:, :1]) if h0 is None else h0.unsqueeze(1)
    log_products = torch.cat([torch.zeros_like(a[:, :1]), a.log().cumsum(dim=1)], dim=1)
    log_values = torch.cat([start, b], dim=1).log()
    return (log_products + (log_values - log_products).logcumsumexp(dim=1)).exp()[:, 1:]


def logs_of_gates_and_sizes(a, b, h0=None):
    """The same for either sign of b."""
    signs = (1.0, -1.0)
    parts = [
        logs_of_gates_and_inputs(
            a, (s * b).clamp_min(0), None if h0 is None else (s * h0).clamp_min(0)
        )
        for s in signs
    ]
    return parts[0] - parts[1]


def detached(a, b, h0=None):
    h, states = torch.zeros_like(b[:, 0]) if h0 is None else h0, []
    for t in range(b.shape[1]):
        states.append(a[:, t] * h + b[:, t])
        h = states[-1].detach()
    return torch.stack(states, dim=1)


def _gates(*shape: int, seed: int) -> Tensor:
    """Return gates of 1/2, 1 and 2: products of a few are exact."""
    return 2.0 ** torch.randint(-1, 2, shape, generator=torch.Generator().manual_seed(seed))


def _scan_probe(
    name: str, stage: str, a: Tensor, b: Tensor, h0: Tensor | None = None, gradients=()
) -> Probe:
    arguments = {"a": a, "b": b} | ({} if h0 is None else {"h0": h0})
    return Probe(name, stage, Call(arguments, {"a": "BTC", "b": "BTC", "h0": "BC"}), gradients)


def _steps(length: int, seed: int) -> tuple[Tensor, Tensor]:
    return _gates(3, length, 2, seed=seed), integers(3, length, 2, seed=seed + 1)


_CUT = _steps(6, 120)[0]
_CUT[:, 2] = 0.0
_START = integers(3, 2, seed=130)
_TEN = torch.tensor([[10.0]])

linear_scan = Exercise(
    "linear_scan",
    _linear_scan,
    [
        _scan_probe("four steps", "values", *_steps(4, 100)),
        _scan_probe("five steps", "values", *_steps(5, 102)),
        _scan_probe("seven steps", "values", *_steps(7, 104)),
        _scan_probe("one step", "values", *_steps(1, 106)),
        _scan_probe("as many sequences as steps", "values", *_steps(3, 108)),
        _scan_probe("a gate of exactly 0", "forgetting", _CUT, integers(3, 6, 2, seed=121)),
        _scan_probe(
            "300 gates of 1/2",
            "forgetting",
            torch.full((2, 300, 1), 0.5),
            integers(2, 300, 1, seed=123),
        ),
        _scan_probe(
            "three gates of 2, h0 = 10", "h0", torch.full((1, 3, 1), 2.0), torch.ones(1, 3, 1), _TEN
        ),
        _scan_probe("h0, five steps", "h0", *_steps(5, 110), _START),
        _scan_probe("h0, one step", "h0", *_steps(1, 112), _START),
        _scan_probe("gradients", "gradient", *_steps(5, 114), _START, ("a", "b", "h0")),
    ],
    load("linear_scan", _linear_scan),
    # a gate of 1 hides what is left out
    simplest={"a": lambda shape, dtype: counting(shape, dtype) + 1},
)
