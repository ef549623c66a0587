"""What a norm computes, asked one question at a time; each function is a question.

All answers are read off outputs. A set is the numbers that share their statistics; the formula is
y = (x − mean) / s on each set, s from one statistic and ε.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from course_utils.session import generator
from course_utils.verify.subject import Parameter, Subject

__all__ = ["Formula"]

ROUNDING = 2e-5  # a share that float32 inside cannot reach, and no other convention falls short of

# what is called s below, of each set
STATISTICS: dict[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "variance / n": lambda z, dims: z.std(dims, correction=0, keepdim=True),
    "variance / (n − 1)": lambda z, dims: z.std(dims, correction=1, keepdim=True),
    "mean square": lambda z, dims: z.square().mean(dims, keepdim=True).sqrt(),
    "sum of squares": lambda z, dims: z.square().sum(dims, keepdim=True).sqrt(),
    "sum of (x − mean)²": lambda z, dims: (
        (z - z.mean(dims, True)).square().sum(dims, keepdim=True).sqrt()
    ),
    "mean |x|": lambda z, dims: z.abs().mean(dims, keepdim=True),
    "largest |x|": lambda z, dims: z.abs().amax(dims, keepdim=True),
    "mean |x − mean|": lambda z, dims: (z - z.mean(dims, True)).abs().mean(dims, keepdim=True),
}
PLACES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "inside the root": lambda s, eps: (s.square() + eps).sqrt(),
    "outside the root": lambda s, eps: s + eps,
    "as a floor": lambda s, eps: s.clamp(min=eps),
    "nowhere": lambda s, eps: s,
}


@dataclass(frozen=True)
class Formula:
    """A norm as a formula in float64. ``shared`` holds, for each axis, how many of its numbers a
    set has."""

    shared: tuple[int, ...]
    strided: bool = False
    centred: bool = False
    statistic: str = "mean square"
    factor: float = 1.0
    eps: float = 0.0
    place: str = "nowhere"

    def grouped(self, shape: torch.Size) -> int | None:
        """The axis of which a set has a part."""
        return next((d for d, n in enumerate(self.shared) if 1 < n < shape[d]), None)

    def sets(self, x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """``x`` with the axis of groups as two, and the axes of a set in it."""
        axis = self.grouped(x.shape)
        full = [d for d, n in enumerate(self.shared) if n > 1 and d != axis]
        if axis is None:
            return x, tuple(full)
        groups = x.shape[axis] // self.shared[axis]
        within = axis + (not self.strided)
        z = x.unflatten(axis, (-1, groups) if self.strided else (groups, -1))
        return z, (within, *[d + (d > axis) for d in full])

    def unit(self, x: Tensor) -> Tensor:
        """``x`` scaled so that s is one in every set, and its mean zero where it is subtracted."""
        z, dims = self.sets(x)
        z = z - z.mean(dims, keepdim=True) if self.centred else z
        return (z / STATISTICS[self.statistic](z, dims)).reshape(x.shape)

    def __call__(self, x: Tensor) -> Tensor:
        z, dims = self.sets(x.double())
        s = PLACES[self.place](STATISTICS[self.statistic](z, dims), self.eps)
        z = z - z.mean(dims, keepdim=True) if self.centred else z
        return (self.factor * z / s).reshape(x.shape)


def which_numbers_share_statistics(subject: Subject, x: Tensor) -> Formula | None:
    """Move one number: what else moves is its set. None where that is no box of axes."""
    boxes = []
    for at in (tuple(n // 2 for n in x.shape), tuple(0 for _ in x.shape)):
        moved = torch.zeros(x.shape, dtype=torch.bool)
        for bump in (1.0, -2.7, 5.0, 1e3):
            bumped = x.clone()
            bumped[at] += bump
            moved |= (subject(bumped) - subject(x)).abs() > 1e-5
        members = [
            moved.movedim(d, 0).flatten(1).any(1).nonzero().flatten() for d in range(x.dim())
        ]
        shared = tuple(len(m) for m in members)
        if math.prod(shared) != moved.sum():
            return None
        strided = any(len(m) > 1 and m[-1] - m[0] + 1 > len(m) for m in members)
        boxes.append(Formula(shared, strided))
    parts = sum(1 < n < size for n, size in zip(boxes[0].shared, x.shape, strict=True))
    return boxes[0] if boxes[0] == boxes[1] and parts < 2 else None


def what_is_subtracted_and_divided_by(subject: Subject, x: Tensor, sets: Formula) -> Formula | None:
    """Hold the output, far above any ε, against each statistic, with the mean and without."""
    large = 1000 * x + 500
    y = subject(large)
    fits = []
    for centred in (False, True):
        for statistic in STATISTICS:
            formula = replace(sets, centred=centred, statistic=statistic)
            factor = _share(y, formula(large))
            if (y - factor * formula(large)).abs().max() < ROUNDING * y.abs().max():
                fits.append(replace(formula, factor=factor))
    exact = [replace(f, factor=1.0) for f in fits if abs(f.factor - 1) < ROUNDING]
    return next(iter(exact + fits), None)


def how_large_is_eps_and_where(subject: Subject, x: Tensor, formula: Formula) -> Formula | None:
    """Shrink an input whose s is t: inside the root s becomes √(t² + ε), outside t + ε, a floor
    max(t, ε). None where it is none of these."""
    unit = formula.unit(x)

    def size(t: float) -> float:
        share = _share(subject(t * unit), unit)
        return formula.factor * t / share if share else math.inf

    scan = [(t, size(t)) for t in (10 ** (-k / 4) for k in range(-4, 60))]
    scan = [(t, s) for t, s in scan if 0 < s < math.inf]
    if not scan or scan[-1][1] < 1.05 * scan[-1][0]:
        return formula
    t, smallest = scan[-1]
    for place, eps in (
        ("inside the root", smallest**2 - t**2),
        ("outside the root", smallest - t),
        ("as a floor", smallest),
    ):
        model = PLACES[place]
        if all(abs(model(torch.tensor(v).double(), eps).item() / s - 1) < 1e-3 for v, s in scan):
            return replace(formula, place=place, eps=_rounded(eps))
    return None


def what_do_zeros_give(subject: Subject, x: Tensor) -> str:
    """Zero, or NaN where ε is missing or too small for the dtype."""
    y = subject(torch.zeros_like(x))
    if not y.isfinite().all():
        return "NaN"
    return "zeros" if not y.any() else "other numbers"


def what_is_computed_in_float64(subject: Subject, x: Tensor, formula: Formula) -> str:
    """Float64 in, and the error against the formula: float64's rounding or float32's."""
    if subject.dtype != torch.float64:
        return "takes no float64"
    error = (subject(3 * x + 2) - formula(3 * x + 2)).abs().max()
    if error < 1e-11:
        return "float64"
    return "float32 inside" if error < 1e-4 else "unsure: the formula does not hold to float32"


def how_far_from_zero_does_it_hold(subject: Subject, x: Tensor, formula: Formula) -> str:
    """Float32 at an offset of 10,000: E[x²] − E[x]² loses everything there, two passes little."""
    far = (x + 1e4).float()
    error = (subject(far) - formula(far)).abs().max().nan_to_num(nan=math.inf).item()
    if error > 0.1:
        return "no: E[x²] − E[x]²"
    if error > 0.02:
        return f"unsure: off by {error:.2g}"
    return "yes, two passes" if error > 3e-5 else "yes, the mean exact (centred twice, or float64)"


def what_is_rounded_in_half_precision(
    subject: Subject, x: Tensor, formula: Formula, parameters: list[Parameter]
) -> str:
    """Half precision in: bit by bit, the output is that of one rounding, of two, or of more."""
    half = (x + 8 * formula.centred).to(subject.dtype)
    weights = [p for p in parameters if p.role == "γ" and p.shape is not None]
    gain = torch.ones((), dtype=torch.float64)
    for seed, weight in enumerate(weights):
        value = subject.parameters[weight.name]
        drawn = 0.5 + torch.rand(value.shape, generator=generator(seed))
        value.copy_(drawn)
        gain = gain * (weight.offset + value.cpu().double().reshape(weight.shape or ()))
    y = subject(half)
    x_hat = formula(half)
    if subject.raw_dtype != subject.dtype:
        exact = (y - x_hat * gain).abs().max() < 1e-4 * (1 + y.abs().max())
        kept = "float32 inside" if exact else "rounded on the way"
        return f"{kept}, returns {_short(subject.raw_dtype)}"
    once = (x_hat * gain).to(subject.dtype).double()
    twice = (x_hat.to(subject.dtype).double() * gain).to(subject.dtype).double()
    shares = [(y == candidate).double().mean().item() for candidate in (once, twice)]
    if shares[0] > 0.985:
        return "float32 inside, rounded once"
    if shares[1] > 0.985:
        return "float32 inside, rounded before the weight and after it"
    return f"rounded on the way: {1 - shares[0]:.0%} of the values differ from one rounding"


def what_do_the_buffers_keep(subject: Subject, x: Tensor, formula: Formula) -> dict[str, str]:
    """Two calls: which buffer moved towards which statistic, and by which share."""
    if not isinstance(subject.layer, nn.Module):
        return {}
    spread = 3 * x + 5
    z, dims = formula.sets(spread)
    dims = tuple(sorted({0, *dims}))
    statistics = {
        "the mean": z.mean(dims),
        "the variance / n": z.var(dims, correction=0),
        "the variance / (n − 1)": z.var(dims, correction=1),
    }
    if 0 not in formula.sets(spread)[1]:  # instance norm: the average over the samples
        own = formula.sets(spread)[1]
        for name, correction in (("the variance / n", 0), ("the variance / (n − 1)", 1)):
            statistics[name] = z.var(own, correction=correction).mean(0)
    before = _buffers(subject.layer)
    subject(spread)
    first = _buffers(subject.layer)
    subject(spread)
    second = _buffers(subject.layer)
    kept = {}
    for name, start in before.items():
        if torch.equal(start, first[name]) or start.numel() != statistics["the mean"].numel():
            continue
        kept[name] = "unsure: it moves towards no statistic of the batch"
        for what, value in statistics.items():
            to = value.flatten() - start.flatten()
            shares = (first[name] - start).flatten() / to
            if (shares - shares.mean()).abs().max() < 1e-3 * shares.mean().abs():
                share = shares.mean().item()
                again = ((second[name] - first[name]).flatten() / (to * (1 - share))).mean().item()
                average = abs(share - 1) < 1e-3
                kept[name] = (
                    f"{what}, all batches averaged"
                    if average
                    else f"{what}, the new with a share of {_number(share)}"
                )
                if not average and abs(again - share) > 1e-3:
                    kept[name] = "unsure: its second step is not like its first"
    return kept


def what_is_different_in_eval(subject: Subject, x: Tensor) -> str:
    """The same input in both modes, after a call has moved the running statistics."""
    module = subject.layer
    assert isinstance(module, nn.Module)
    module.train()
    train = subject(3 * x + 5)
    module.eval()
    evaluated = subject(3 * x + 5)
    module.train()
    same = (train - evaluated).abs().max() < 1e-6
    return "nothing" if same else "it takes the running statistics"


def which_function_of_one_number(subject: Subject, x: Tensor) -> str:
    """Without statistics: tanh or erf of a multiple of x, found by undoing it."""
    y = subject(x)
    for name, undo in (("tanh", torch.atanh), ("erf", torch.erfinv)):
        inner = (y.abs() < 0.95) & (x.abs() > 0.01)
        ratio = undo(y.clamp(-0.999, 0.999))[inner] / x[inner]
        if len(ratio) and (ratio - ratio.mean()).abs().max() < 1e-3 * ratio.mean().abs():
            return f"{name}({_number(ratio.mean().item())}·x)"
    return "unsure: neither tanh nor erf of a multiple of x"


def _share(y: Tensor, unit: Tensor) -> float:
    """How many units of ``unit`` are in y, by least squares."""
    return ((y * unit).sum() / unit.square().sum()).item()


def _rounded(value: float) -> float:
    """The shortest decimal within what float32 leaves open."""
    for digits in range(4):
        if abs(float(f"{value:.{digits}e}") / value - 1) < 1e-3 * 10**-digits or digits == 3:
            return float(f"{value:.{digits}e}")
    return value


def _number(value: float) -> str:
    return f"{_rounded(value):g}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    floating = ((n, b) for n, b in module.named_buffers() if b.is_floating_point())
    return {name: buffer.detach().clone().cpu().double() for name, buffer in floating}
