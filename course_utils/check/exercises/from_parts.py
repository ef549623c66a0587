"""Chapters 04, 08 and 11: what comes together from parts: averages, moments, steps of a scan, sums over ranks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, Tolerance, counting, integers
from course_utils.check.report import shown_tensor
from course_utils.norms.statistics import Moments
from course_utils.parallel import simulate_ranks

__all__ = ["ema", "linear_scan", "merge_moments", "sync_backward"]


def _ema(average, value, momentum, convention="torch"):
    new = momentum if convention == "torch" else 1 - momentum
    old = 1 - new
    return old * average + new * value


def _step(name: str, stage: str, average: Any, value: Any, momentum: float, **others: Any) -> Probe:
    arguments = {"average": average, "value": value, "momentum": momentum}
    if "convention" in others:
        arguments["convention"] = others.pop("convention")
    letters = "RC"[-average.dim() :] if isinstance(average, Tensor) and average.dim() else ""
    return Probe(name, stage, Call(arguments, {"average": letters, "value": letters} if letters else {}), **others)


_FIVE, _FIVE_NEW = integers(5, seed=90), integers(5, seed=91)
_GRID, _GRID_NEW = integers(2, 3, seed=94), integers(2, 3, seed=95)
_FOUR, _FOUR_NEW = integers(4, seed=92), integers(4, seed=93)
_CLOSE = 1 + integers(6, seed=96) / 4096  # numbers that bfloat16 and float16 cannot tell from 1, or hardly

ema = Check(
    "ema",
    _ema,
    [
        _step("momentum 0.1", "torch's convention", _FIVE, _FIVE_NEW, 0.1),
        _step("momentum 0.5", "torch's convention", _FOUR, _FOUR_NEW, 0.5),
        _step("momentum 0.75, spelled out", "torch's convention", _GRID, _GRID_NEW, 0.75, convention="torch"),
        _step("momentum 0: nothing new", "torch's convention", _FOUR, _FOUR_NEW, 0.0),
        _step("momentum 1: nothing old", "torch's convention", _FOUR, _FOUR_NEW, 1.0),
        _step("a single number", "torch's convention", torch.tensor(2.0), torch.tensor(-6.0), 0.25),
        _step("an average of zeros", "torch's convention", torch.zeros(3), torch.tensor([1.0, -2.0, 4.0]), 0.1),
        _step("momentum 0.9", "keras' convention", _FIVE, _FIVE_NEW, 0.9, convention="keras"),
        _step("momentum 0.25", "keras' convention", _GRID, _GRID_NEW, 0.25, convention="keras"),
        _step("averages near 1", "precision", _CLOSE, _CLOSE.flip(0), 0.25, rough=True),
        _step("thirds in float64", "float64", _FIVE.double() / 3, _FIVE_NEW.double() / 3, 0.1,
               rough=True, tolerance=Tolerance(0.0, 1e-14)),
        _step("plain numbers", "plain numbers", 2.0, -6.0, 0.25),
        _step("0 and then 1", "plain numbers", 0.0, 1.0, 0.1),
        _step("0 and then 1, keras", "plain numbers", 0.0, 1.0, 0.1, convention="keras"),
    ],
    load("ema", _ema),
)  # fmt: skip


def _merge_moments(a, b):
    n = a.count + b.count
    delta = b.mean - a.mean
    mean = a.mean + delta * b.count / n.clamp(min=1)
    between = delta**2 * a.count * b.count / n.clamp(min=1)
    return n, mean, a.m2 + b.m2 + between


def _of_values(merge: Callable[[Moments, Moments], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return ``merge`` as a function of the values of two parts: whatever they are, such a part is possible."""

    def of_values(a, b):
        parts = [Moments.of(values.double(), 0) for values in (a, b)]
        merged = merge(*parts)
        for values, part in zip((a, b), parts, strict=True):
            if any((now != before).any() for now, before in zip(part, Moments.of(values.double(), 0), strict=True)):
                values += 1  # what it does to a part is seen in the part's values
        return tuple(merged) if isinstance(merged, Moments) else merged

    return of_values


def _shown(call: Call) -> list[str]:
    parts = [", ".join(f"{value:.12g}" for value in call.arguments[name].tolist()) for name in "ab"]
    return ["merge_moments(a, b)", *(f"{name} = Moments.of([{part}])" for name, part in zip("ab", parts, strict=True))]


def _parts(name: str, stage: str, a: Any, b: Any, *compares: str, **others: Any) -> Probe:
    arguments = {"a": torch.as_tensor(a, dtype=torch.float64), "b": torch.as_tensor(b, dtype=torch.float64)}
    return Probe(name, stage, Call(arguments, {"a": "A", "b": "B"}), compares=compares or None, **others)


_NEAR, _FAR = 100 + integers(4, seed=104).double() / 7, 1e8 + integers(5, seed=105).double()
# Right forms in float64 are off by up to 1e-13 of the largest; float32 anywhere on the way costs 3e-8.
_DOUBLE = Tolerance(0.0, 1e-10)

merge_moments = Check(
    "merge_moments",
    _merge_moments,
    [
        *(
            probe
            for stage, compares in (("count and mean", ("count", "mean")), ("m2", ("m2",)))
            for probe in (
                _parts("two values and three", stage, [0, 0], [1, 1, 4], *compares),
                _parts("two values and two", stage, [1, 4], [9, 3], *compares),
                _parts("two values and six", stage, integers(2, seed=100), integers(6, seed=101, offset=4), *compares),
                _parts("nine values and three", stage, integers(9, seed=102), integers(3, seed=103), *compares),
                _parts("one value and one", stage, [1], [6], *compares),
            )
        ),
        _parts("nothing, then two values", "empty part", [], [1, 4]),
        _parts("two values, then nothing", "empty part", [1, 4], []),
        _parts("nothing and nothing", "empty part", [], []),
        _parts("means near 100", "precision", _NEAR, _NEAR[:3].flip(0) - 2, tolerance=_DOUBLE, rough=True),
        _parts("means near 100,000,000", "large offset", _FAR, _FAR[:3] + 5, "m2", rough=True),
    ],
    load("merge_moments", _merge_moments),
    returns=("count", "mean", "m2"),
    any_dtype=True,
    flatten=_of_values,
    simplest={"b": lambda shape, dtype: counting(shape, dtype) + 5},
    shown=_shown,
)


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
        logs_of_gates_and_inputs(a, (s * b).clamp_min(0), None if h0 is None else (s * h0).clamp_min(0)) for s in signs
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


def _scan_probe(name: str, stage: str, a: Tensor, b: Tensor, h0: Tensor | None = None, gradients=()) -> Probe:
    arguments = {"a": a, "b": b} | ({} if h0 is None else {"h0": h0})
    return Probe(name, stage, Call(arguments, {"a": "BTC", "b": "BTC", "h0": "BC"}), gradients)


def _steps(length: int, seed: int) -> tuple[Tensor, Tensor]:
    return _gates(3, length, 2, seed=seed), integers(3, length, 2, seed=seed + 1)


_CUT = _steps(6, 120)[0]
_CUT[:, 2] = 0.0
_START = integers(3, 2, seed=130)
_TEN = torch.tensor([[10.0]])

linear_scan = Check(
    "linear_scan",
    _linear_scan,
    [
        _scan_probe("four steps", "values", *_steps(4, 100)),
        _scan_probe("five steps", "values", *_steps(5, 102)),
        _scan_probe("seven steps", "values", *_steps(7, 104)),
        _scan_probe("one step", "values", *_steps(1, 106)),
        _scan_probe("as many sequences as steps", "values", *_steps(3, 108)),
        _scan_probe("a gate of exactly 0", "forgetting", _CUT, integers(3, 6, 2, seed=121)),
        _scan_probe("300 gates of 1/2", "forgetting", torch.full((2, 300, 1), 0.5), integers(2, 300, 1, seed=123)),
        _scan_probe("three gates of 2, h0 = 10", "h0", torch.full((1, 3, 1), 2.0), torch.ones(1, 3, 1), _TEN),
        _scan_probe("h0, five steps", "h0", *_steps(5, 110), _START),
        _scan_probe("h0, one step", "h0", *_steps(1, 112), _START),
        _scan_probe("gradients", "gradient", *_steps(5, 114), _START, ("a", "b", "h0")),
    ],
    load("linear_scan", _linear_scan),
    simplest={"a": lambda shape, dtype: counting(shape, dtype) + 1},  # a gate of 1 hides what is left out
)


def _sync_backward(g, x_hat, rstd, count, all_reduce):
    mean_g = all_reduce(g.sum(0)) / count
    mean_gx = all_reduce((g * x_hat).sum(0)) / count
    return rstd * (g - mean_g - x_hat * mean_gx)


def _shards(g: Tensor, x: Tensor, rank: Tensor, ranks: int) -> list[tuple[Tensor, Tensor, Tensor, int]]:
    """Return what each rank is given, when row i of the whole batch lies on rank ``rank[i]``."""
    rstd = torch.rsqrt(x.var(0, correction=0))
    x_hat = (x - x.mean(0)) * rstd
    return [(g[rank == r], x_hat[rank == r], rstd.clone(), len(g)) for r in range(ranks)]


def _on_all_ranks(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a rank's ``function`` as one of the whole batch."""

    def whole_batch(g: Tensor, x: Tensor, rank: Tensor, ranks: int) -> Tensor:
        shards = _shards(g, x, rank, ranks)
        parts = simulate_ranks(function, shards)
        for r, (part, (own, *_)) in enumerate(zip(parts, shards, strict=True)):
            if not isinstance(part, Tensor) or part.shape != own.shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise TypeError(f"rank {r} must return the gradient of its own shard, {tuple(own.shape)}: got {got}")
        dx = torch.empty_like(g, dtype=parts[0].dtype)
        for r, part in enumerate(parts):
            dx[rank == r] = part.detach()
        return dx

    return whole_batch


def _first_row(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.ones(1, *shape[1:], dtype=dtype), torch.zeros(shape[0] - 1, *shape[1:], dtype=dtype)])


def _has_all_ranks(call: Call) -> bool:
    """Whether the last rank has a sample, and no channel equal values."""
    x, rank = call.arguments["x"], call.arguments["rank"]
    return int(rank.max()) + 1 == call.arguments["ranks"] and bool((x != x[0]).any(0).all())


def _shown_by_rank(call: Call) -> list[str]:
    shards = _shards(*call.arguments.values())
    ranks = [
        f"rank {r}: g = {shown_tensor(g)}, x_hat = {shown_tensor(x_hat)}" for r, (g, x_hat, *_) in enumerate(shards)
    ]
    _, _, rstd, count = shards[0]
    call_form = "sync_backward(g, x_hat, rstd, count, all_reduce) on every rank, with"
    return [call_form, *ranks, f"rstd = {shown_tensor(rstd)}, count = {count}"]


def _ranks(name: str, stage: str, rank: list[int], g: Tensor, x: Tensor) -> Probe:
    arguments = {"g": g, "x": x, "rank": torch.tensor(rank), "ranks": max(rank) + 1}
    return Probe(name, stage, Call(arguments, {"g": "NC", "x": "NC", "rank": "N"}))


def _numbers(name: str, stage: str, rank: list[int], seed: int) -> Probe:
    return _ranks(name, stage, rank, integers(len(rank), 3, seed=seed), integers(len(rank), 3, seed=seed + 1))


_OF_THE_TASK = torch.tensor([[1.0], [3.0]]), torch.tensor([[-1.0], [1.0]])  # g and x


sync_backward = Check(
    "sync_backward",
    _sync_backward,
    [
        _numbers("five samples on a single rank", "formula", [0] * 5, 300),
        _numbers("two ranks of two samples", "sums", [0, 0, 1, 1], 310),
        _numbers("three ranks of two samples", "sums", [0, 0, 1, 1, 2, 2], 320),
        _numbers("shards of one and of four samples", "sums", [0, 1, 1, 1, 1], 330),
        _ranks("two ranks of one sample", "sums", [0, 1], *_OF_THE_TASK),
        _numbers("shards of three, none and two samples", "empty shard", [0, 0, 0, 2, 2], 340),
    ],
    load("sync_backward", _sync_backward),
    flatten=_on_all_ranks,
    is_possible=_has_all_ranks,
    simplest={"g": _first_row},
    shown=_shown_by_rank,
)
