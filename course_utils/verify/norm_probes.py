"""What a norm computes, asked one question at a time; each function is a question.

All answers are read off outputs. A set is the numbers that share their statistics; the formula is
y = (x − mean) / s on each set, s from one statistic and ε.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from course_utils.session import generator
from course_utils.verify.subject import Subject, share_of

__all__ = ["QUESTIONS", "Formula", "rounded"]

MACHINE_EPSILONS = {torch.finfo(torch.float64).eps: "float64", torch.finfo().eps: "float32"}
ROUNDING = 2e-5  # a share that float32 inside cannot reach, and no other convention falls short of


def _centred(z: Tensor) -> Tensor:
    return z - z.mean(-1, keepdim=True)


# what is called s below, of each set: a row of z
STATISTICS: dict[str, Callable[[Tensor], Tensor]] = {
    "variance / n": lambda z: z.std(-1, correction=0, keepdim=True),
    "variance / (n − 1)": lambda z: z.std(-1, correction=1, keepdim=True),
    "mean square": lambda z: z.square().mean(-1, keepdim=True).sqrt(),
    "sum of squares": lambda z: z.norm(dim=-1, keepdim=True),
    "sum of (x − mean)²": lambda z: _centred(z).norm(dim=-1, keepdim=True),
    "mean |x|": lambda z: z.abs().mean(-1, keepdim=True),
    "largest |x|": lambda z: z.abs().amax(-1, keepdim=True),
    "mean |x − mean|": lambda z: _centred(z).abs().mean(-1, keepdim=True),
}
PLACES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "inside the root": lambda s, eps: (s.square() + eps).sqrt(),
    "outside the root": lambda s, eps: s + eps,
    "as a floor": lambda s, eps: s.clamp(min=eps),
    "nowhere": lambda s, eps: s,
}


@dataclass(frozen=True, eq=False)
class Formula:
    """A norm as a formula in float64, for x of this ``shape``: a set has ``shared`` numbers of each
    axis, ``strides`` apart."""

    shape: tuple[int, ...]
    shared: tuple[int, ...]
    strides: tuple[int, ...]
    centred: bool = False
    statistic: str = "mean square"
    factor: float = 1.0
    eps: float = 0.0
    place: str = "nowhere"

    @property
    def axes(self) -> list[int]:
        """Those of a set."""
        return [axis for axis, count in enumerate(self.shared) if count > 1]

    @property
    def part(self) -> int | None:
        """The axis of which a set has a part."""
        return next((axis for axis in self.axes if self.shared[axis] < self.shape[axis]), None)

    @cached_property
    def sets(self) -> Tensor:
        """The places of the numbers of each set in x flattened, (sets, n)."""
        label = torch.zeros(self.shape, dtype=torch.long)  # of the set that a number is in
        for axis, size in enumerate(self.shape):
            count, stride = self.shared[axis], self.strides[axis]
            places = torch.arange(size)
            own = places // count if stride == 1 else places % stride
            label = label * size + own.reshape([-1] + [1] * (len(self.shape) - axis - 1))
        return label.flatten().argsort(stable=True).reshape(-1, math.prod(self.shared))

    def __call__(self, x: Tensor) -> Tensor:
        """The norm of x, in float64."""
        z = x.double().flatten()[self.sets]
        s = PLACES[self.place](STATISTICS[self.statistic](z), self.eps)
        y = torch.empty(math.prod(self.shape), dtype=torch.float64)
        y[self.sets] = self.factor * (_centred(z) if self.centred else z) / s
        return y.reshape(self.shape)


def which_numbers_share_statistics(subject: Subject, x: Tensor) -> Formula | None:
    """Move one number: what else moves is its set. None where that is no box of axes."""
    at = tuple(n // 2 for n in x.shape)
    y, moved = subject(x), torch.zeros(x.shape, dtype=torch.bool)
    for bump in (1.0, -2.7, 5.0, 1e3):
        bumped = x.clone()
        bumped[at] += bump
        moved |= (subject(bumped) - y).abs() > 1e-5
    members = [places.unique().tolist() for places in moved.nonzero().T]
    shared = tuple(len(places) for places in members)
    strides = tuple(places[1] - places[0] if len(places) > 1 else 1 for places in members)
    is_box = moved.any() and moved.sum() == math.prod(shared)
    if not is_box or any(n % count for n, count in zip(x.shape, shared, strict=True)):
        return None
    return Formula(tuple(x.shape), shared, strides)


def what_is_subtracted_and_divided_by(subject: Subject, x: Tensor, sets: Formula) -> Formula | None:
    """Hold the output, far above any ε, against each statistic, with the mean and without."""
    large = 1000 * x + 500
    y = subject(large)
    fits = []
    for centred in (False, True):
        for statistic in STATISTICS:
            formula = replace(sets, centred=centred, statistic=statistic)
            factor = share_of(formula(large), y)
            factor = 1.0 if abs(factor - 1) < ROUNDING else factor
            if (y - factor * formula(large)).abs().max() < ROUNDING * y.abs().max():
                fits.append(replace(formula, factor=factor))
    return min(fits, key=lambda formula: formula.factor != 1, default=None)


def how_large_is_eps_and_where(subject: Subject, x: Tensor, formula: Formula) -> Formula | None:
    """Shrink an input whose s is t: inside the root s becomes √(t² + ε), outside t + ε, a floor
    max(t, ε). None where it is none of these."""
    unit = formula(x) / formula.factor
    scan = []
    for t in (10 ** (-k / 4) for k in range(-4, 60)):
        share = share_of(unit, subject(t * unit))
        if share > 0 and math.isfinite(share):
            scan.append((torch.tensor(t).double(), formula.factor * t / share))
    if not scan or scan[-1][1] < 1.05 * scan[-1][0]:
        return formula
    smallest, its_size = scan[-1][0].item(), scan[-1][1]
    values = {
        "inside the root": its_size**2 - smallest**2,
        "outside the root": its_size - smallest,
        "as a floor": its_size,
    }
    for place, eps in values.items():
        if all(abs(PLACES[place](t, eps) / s - 1) < 1e-3 for t, s in scan):
            return replace(formula, place=place, eps=rounded(eps))
    return None


def what_do_zeros_give(subject: Subject, x: Tensor, formula: Formula) -> str:
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
    if not formula.centred:
        return ""
    far = (x + 1e4).float()
    error = (subject.fresh(torch.float32)(far) - formula(far)).abs().max().nan_to_num(math.inf)
    if error > 0.1:
        return "no: E[x²] − E[x]²"
    if error > 0.02:
        return f"unsure: off by {error:.2g}"
    return "yes, two passes" if error > 3e-5 else "yes, the mean exact (centred twice, or float64)"


def what_is_rounded(dtype: torch.dtype, subject: Subject, x: Tensor, formula: Formula) -> str:
    """Half precision in: bit by bit, the output is that of one rounding, of two, or of more."""
    half = subject.fresh(dtype)
    zeros = what_do_zeros_give(half, x, formula)
    only_here = zeros == "NaN" != what_do_zeros_give(subject, x, formula)
    z = (x + 8 * formula.centred).to(dtype)
    gain = torch.ones((), dtype=torch.float64)
    for seed, weight in enumerate(p for p in subject.roles if p.role == "γ" and p.shape):
        value = half.parameters[weight.name]
        value.copy_(0.5 + torch.rand(value.shape, generator=generator(seed)))
        gain = gain * (weight.offset + value.cpu().double().reshape(weight.shape or ()))
    y, x_hat = half(z), formula(z)
    once = (x_hat * gain).to(dtype)
    twice = (x_hat.to(dtype).double() * gain).to(dtype)
    if half.raw_dtype != dtype:
        exact = (y - x_hat * gain).abs().max() < 1e-4 * (1 + y.abs().max())
        kept = "float32 inside" if exact else "rounded on the way"
        answer = f"{kept}, returns {str(half.raw_dtype).removeprefix('torch.')}"
    elif (y == once).double().mean() > 0.985:
        answer = "float32 inside, rounded once"
    elif (y == twice).double().mean() > 0.985:
        answer = "float32 inside, rounded before the weight and after it"
    else:
        others = (y != once).double().mean()
        answer = f"rounded on the way: {others:.0%} of the values differ from one rounding"
    return answer + "; zeros give NaN" * only_here


def what_do_the_buffers_keep(subject: Subject, x: Tensor, formula: Formula) -> dict[str, str]:
    """Two calls: which buffer moved towards which statistic, and by which share."""
    z = (3 * x + 5).flatten()[formula.sets]
    statistics = {
        "the mean": z.mean(-1),
        "the variance / n": z.var(-1, correction=0),
        "the variance / (n − 1)": z.var(-1, correction=1),
    }
    trained = subject.fresh()
    buffers = [trained.buffers]
    for _ in range(2):
        trained(3 * x + 5)
        buffers.append(trained.buffers)
    kept = {}
    for name in buffers[0]:
        start, first, second = (state[name].flatten() for state in buffers)
        if torch.equal(start, first) or len(z) % len(start):
            continue
        kept[f"buffer {name}"] = "unsure: it moves towards no statistic of the batch"
        closest = 1e-3 * (first - start).abs().max()  # n and n − 1 may be nearly the same
        for what, value in statistics.items():
            # instance norm has a set a sample: their average
            target = value.reshape(-1, len(start)).mean(0)
            share = share_of(target - start, first - start)
            steps = (first - start - share * (target - start)).abs()
            steps += (second - first - share * (target - first)).abs()
            if steps.max() < closest:
                closest = steps.max()
                average = abs(share - 1) < 1e-3
                how = f"the new with a share of {rounded(share):g}"
                kept[f"buffer {name}"] = f"{what}, {'all batches averaged' if average else how}"
    return kept


def what_is_different_in_eval(subject: Subject, x: Tensor, formula: Formula) -> str:
    """The same input in both modes, after a call has moved the running statistics."""
    trained = subject.fresh()
    if not subject.buffers or not isinstance(trained.layer, nn.Module):
        return ""
    train = trained(3 * x + 5)
    trained.layer.eval()
    same = (train - trained(3 * x + 5)).abs().max() < 1e-6
    return "nothing" if same else "it takes the running statistics"


def which_function_of_one_number(subject: Subject, x: Tensor) -> str:
    """Without statistics: tanh or erf of a multiple of x, found by undoing it."""
    y = subject(x)
    for name, undo in (("tanh", torch.atanh), ("erf", torch.erfinv)):
        inner = (y.abs() < 0.95) & (x.abs() > 0.01)
        ratio = undo(y.clamp(-0.999, 0.999))[inner] / x[inner]
        if len(ratio) and (ratio - ratio.mean()).abs().max() < 1e-3 * ratio.mean().abs():
            return f"{name}({rounded(ratio.mean().item()):g}·x)"
    return "unsure: neither tanh nor erf of a multiple of x"


def rounded(value: float) -> float:
    """A machine epsilon or the shortest decimal, within what float32 leaves open."""
    for eps in MACHINE_EPSILONS:
        if abs(value / eps - 1) < 1e-3:
            return eps
    shorter = [float(f"{value:.{digits}e}") for digits in range(4)]
    near = (c for d, c in enumerate(shorter) if abs(c - value) <= 1e-3 * 10**-d * abs(value))
    return next(near, shorter[-1])


QUESTIONS: dict[str, Callable[[Subject, Tensor, Formula], str]] = {
    "zeros give": what_do_zeros_give,
    "float64": what_is_computed_in_float64,
    "at an offset of 10,000": how_far_from_zero_does_it_hold,
    "bfloat16": partial(what_is_rounded, torch.bfloat16),
    "float16": partial(what_is_rounded, torch.float16),
    "different in eval": what_is_different_in_eval,
}
