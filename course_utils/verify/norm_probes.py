"""What a norm computes, asked one question at a time; each function is a question.

All answers are read off outputs. A set is the numbers that share their statistics; the formula is
y = (x − mean) / s on each set, s from one statistic and ε.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from course_utils.session import generator
from course_utils.verify.subject import (
    BEFORE,
    Diagnosis,
    Parameter,
    Subject,
    agree,
    nearest,
    normal,
    parameter_roles,
    said,
    share_of,
)

__all__ = ["Formula", "describe_norm"]

MACHINE_EPSILONS = {torch.finfo(torch.float64).eps: "float64", torch.finfo().eps: "float32"}
ROUNDING = 2e-5  # a share that float32 inside cannot reach, and no other convention falls short of
# what s is: a p-norm of the set, of x − mean or of x; p; what is divided by: n less this, or None
STATISTICS = {
    "variance / n": (True, 2, 0),
    "variance / (n − 1)": (True, 2, 1),
    "mean square": (False, 2, 0),
    "sum of squares": (False, 2, None),
    "sum of (x − mean)²": (True, 2, None),
    "mean |x|": (False, 1, 0),
    "mean |x − mean|": (True, 1, 0),
}
# s with ε for a set whose statistic is t, and ε from both
PLACES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "nowhere": (lambda t, eps: t, lambda t, s: 0 * s),
    "inside the root": (lambda t, eps: (t.square() + eps).sqrt(), lambda t, s: s**2 - t**2),
    "outside the root": (lambda t, eps: t + eps, lambda t, s: s - t),
    "as a floor": (lambda t, eps: t.clamp(min=eps), lambda t, s: s),
}
# the course's own: of x, of its sizes along the set's axes, or over ``dims``
CALLS = (
    "layer_norm({x}, {sizes}{affine}, eps={eps}){back}",
    "rms_norm({x}, {sizes}{affine}, eps={eps}){back}",
    "rms_norm({x}, {sizes}{affine}, eps={eps_of_mean}){back} / {n}**0.5",
    "group_norm({x}, {groups}{affine}, eps={eps}){back}",
    "instance_norm({x}{affine}, eps={eps}){back}",
    "batch_norm({x}, None, None{affine}, training=True, eps={eps}){back}",
    "l2_norm({x}, dim={dims}, eps={eps}){back}",
    "l2_norm({x}, dim={dims}, eps={eps_of_length}){back} * {n}**0.5",
)


@dataclass(frozen=True)
class Formula:
    """A norm as a formula in float64. A set has so many numbers (``sizes``) of each of its axes;
    in ``view``, a shape of x, it is whole axes: the middle ones of each three."""

    words: str  # for the set
    axes: Sequence[int]
    sizes: Sequence[int]
    groups: int  # in how many sets its axes are parted
    view: Sequence[int]
    centred: bool = False
    statistic: str = "mean square"
    eps: float = 0.0
    place: str = "nowhere"

    @property
    def n(self) -> int:
        """How many numbers a set has."""
        return math.prod(self.sizes)

    @property
    def dims(self) -> tuple[int, ...]:
        """Those of a set in ``view``."""
        return tuple(range(1, len(self.view), 3))

    def above(self, x: Tensor, centred: bool) -> Tensor:
        """What is divided: x, or x − mean."""
        z = x.double().reshape(self.view)
        return z - z.mean(self.dims, keepdim=True) if centred else z

    def size(self, x: Tensor, statistic: str) -> Tensor:
        """One statistic of each set."""
        of_centred, p, fewer = STATISTICS[statistic]
        n = 1 if fewer is None else self.n - fewer
        z = self.above(x, of_centred)
        return torch.linalg.vector_norm(z, p, self.dims, keepdim=True) / n ** (1 / p)

    def __call__(self, x: Tensor) -> Tensor:
        """The norm of x, in float64."""
        s = PLACES[self.place][0](self.size(x, self.statistic), self.eps)
        return (self.above(x, self.centred) / s).reshape(x.shape)


def describe_norm(found: Diagnosis, subject: Subject, x: Tensor) -> None:
    """Ask a norm every question, and hold the course's own against it."""
    found.kind, found.unlike = "norm", "unlike anything known in course_utils.norms"
    found.parameters = parameter_roles(subject, 3 * x + 2)
    says = found.answers
    says["parameters"] = what_do_the_parameters_do(subject)
    formula = which_numbers_share_statistics(subject, 3 * x + 2)
    unsure = "unsure: no box of axes shares its statistics"
    says["set"] = formula.words if formula else unsure
    found.summary = f"a norm over {says['set']}, and not (x − mean) / s"
    if formula is None:
        return
    if not formula.axes:
        says["function"] = which_function_of_one_number(subject, x)
        found.kind = "no statistics"
        found.summary = f"no norm: {says['function']} of each number by itself"
        return
    formula = what_is_subtracted_and_divided_by(subject, x, formula)
    if formula is None:
        says["divides by"] = "unsure: (x − mean) / s holds for no statistic known"
        return
    says["mean"] = "subtracted" if formula.centred else "not subtracted"
    says["divides by"] = "the root of: " * ("|" not in formula.statistic) + formula.statistic
    with_eps = how_large_is_eps_and_where(subject, x, formula)
    formula = with_eps or formula
    unsure = "unsure: neither inside the root, nor outside, nor a floor"
    says["ε"] = _eps_words(formula) if with_eps else unsure
    for question, probe in QUESTIONS.items():
        try:
            says[question] = probe(subject, x, formula)
        except Exception as error:
            says[question] = f"raises {said(error, 80)}"
        if not says[question]:
            del says[question]  # it does not arise
    if subject.buffers:
        says |= what_is_kept_from_call_to_call(subject, x, formula)
    found.summary = _summary(found, formula)
    if with_eps:
        fresh, v, eps = subject.fresh(), normal(x.shape, 11), formula.eps
        fresh.draw()
        # where ε shows, and where it does not
        inputs = [3 * v + 2, *(scale * v for scale in {1, 1e-3, 1e-6, eps**0.5, eps} - {0})]
        found.try_calls(_calls(formula, found.parameters), inputs, fresh, ROUNDING)
        if not found.call:
            found.unlike += f": {_smallest_difference(formula, subject, x)}"


# -- the questions


def what_do_the_parameters_do(subject: Subject) -> str:
    """Each by name; and what it holds, where that is not the value at which it does nothing."""
    starts, words = Subject(subject.original, subject.dtype).parameters, []
    for p in subject.roles:
        values = starts[p.name].unique()
        does = p.role if p.role == BEFORE else p.form
        if p.role in "γβ" and (values != p.neutral).any():
            does += f", holds {values[0]:g}" if len(values) == 1 else ", holds different numbers"
        words.append(f"{p.name}: {does}")
    return "; ".join(words) or "none"


def which_numbers_share_statistics(subject: Subject, x: Tensor) -> Formula | None:
    """Move one number: what else moves is its set. None where that is no box of axes."""
    at = tuple(n // 2 for n in x.shape)
    y, moved = subject(x), torch.zeros(x.shape, dtype=torch.bool)
    for bump in (1.0, -2.7, 5.0, 1e3):
        bumped = x.clone()
        bumped[at] += bump
        moved |= (subject(bumped) - y).abs() > 1e-5
    if not moved.any():
        return None
    words, axes, sizes, view = [], [], [], []
    for axis, places in enumerate(moved.nonzero().T):
        members, size = places.unique(), x.shape[axis]
        count, step = len(members), int(members.diff()[:1].sum().clamp(min=1))
        view += [size // count // step, count, step]
        if count > 1:
            axes.append(axis)
            sizes.append(count)
            name = {0: "the batch", x.dim() - 1: "the last axis"}.get(axis, f"axis {axis}")
            every = f", every {step}th" * (step > 1)
            words.append(name + f" ({count} of {size}{every})" * (count < size))
    is_box = moved.sum() == math.prod(sizes) and math.prod(view) == x.numel()
    groups = math.prod(x.shape[axis] for axis in axes) // math.prod(sizes)
    text = " × ".join(words) or "one number: there are no statistics"
    return Formula(text, axes, sizes, groups, view) if is_box else None


def what_is_subtracted_and_divided_by(subject: Subject, x: Tensor, sets: Formula) -> Formula | None:
    """Hold the output, far above any ε, against each statistic, with the mean and without."""
    large = 1000 * x + 500
    y = subject(large)
    for centred, statistic in product((False, True), STATISTICS):
        formula = replace(sets, centred=centred, statistic=statistic)
        if agree(formula(large), y, ROUNDING):
            return formula
    return None


def how_large_is_eps_and_where(subject: Subject, x: Tensor, formula: Formula) -> Formula | None:
    """Shrink an input whose s is t: inside the root s becomes √(t² + ε), outside t + ε, a floor
    max(t, ε). None where it is none of these."""
    unit = formula(x)
    t = 10 ** (torch.arange(4, -60, -1, dtype=torch.float64) / 4)
    s = torch.stack([size / share_of(unit, subject(size * unit)) for size in t])
    usable = (s > 0) & s.isfinite()
    t, s = t[usable], s[usable]
    for place, (with_eps, eps_of) in PLACES.items():
        eps = eps_of(t, s)[-1:].sum().item()  # of the smallest input
        if ((with_eps(t, eps) / s - 1).abs() < 1e-3).all():
            return replace(formula, place=place, eps=nearest(eps, 1e-3, MACHINE_EPSILONS))
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
    gain = torch.ones((), dtype=torch.float64)
    for weight in subject.roles:
        if weight.role == "γ":
            value = half.parameters[weight.name]
            value.copy_(0.5 + torch.rand(weight.own, generator=generator(0)))
            gain = weight.offset + weight.placed(value.cpu().double())
    z = (x + 8 * formula.centred).to(dtype)
    y, x_hat = half(z), formula(z)
    once = (x_hat * gain).to(dtype)
    twice = (x_hat.to(dtype).double() * gain).to(dtype)
    others = (y != once).double().mean()
    if half.raw_dtype != dtype:
        kept = "float32 inside" if agree(x_hat * gain, y, 1e-4) else "rounded on the way"
        answer = f"{kept}, returns {str(half.raw_dtype).removeprefix('torch.')}"
    elif others < 0.015:
        answer = "float32 inside, rounded once"
    elif (y != twice).double().mean() < 0.015:
        answer = "float32 inside, rounded before the weight and after it"
    else:
        answer = f"rounded on the way: {others:.0%} of the values differ from one rounding"
    return answer + "; zeros give NaN" * only_here


def what_is_kept_from_call_to_call(subject: Subject, x: Tensor, formula: Formula) -> dict[str, str]:
    """One batch, and twice another, and once more in eval: which buffer moves towards which
    statistic of the first, by which share, and whether the next move is that of an average."""
    z, other, trained = 3 * x + 5, 7 * x - 2, subject.fresh()
    states = [trained.buffers]
    for batch in (z, other, other):
        y = trained(batch)
        states.append(trained.buffers)
    trained.layer.eval()
    same = agree(trained(other), y, 1e-6)
    kept = {"different in eval": "nothing" if same else "it takes the running statistics"}
    statistics = {
        "the mean": z.reshape(formula.view).mean(formula.dims),
        "the variance / n": formula.size(z, "variance / n") ** 2,
        "the variance / (n − 1)": formula.size(z, "variance / (n − 1)") ** 2,
    }
    for name in states[0]:
        start, first, second, third = (state[name].cpu().double().flatten() for state in states)
        step, errors = first - start, {}
        for what, value in statistics.items():
            if step.any() and value.numel() % len(start) == 0:
                # instance norm has a set a sample: their average
                way = value.reshape(-1, len(start)).mean(0) - start
                share = nearest(share_of(way, step), 1e-3)
                average = (
                    share == 1 and abs(share_of(second - first, third - second) - 1 / 3) < 1e-3
                )
                how = "all batches averaged" if average else f"the new with a share of {share:g}"
                errors[f"{what}, {how}"] = (step - share * way).abs().max() / step.abs().max()
        if errors:
            answer = min(errors, key=lambda words: errors[words])
            unsure = "unsure: it moves towards no statistic of the batch"
            kept[f"buffer {name}"] = answer if errors[answer] < 1e-3 else unsure
    return kept


def which_function_of_one_number(subject: Subject, x: Tensor) -> str:
    """Without statistics: tanh or erf of a multiple of x, by the slope at 0."""
    subject.roles = [p for p in subject.roles if p.role in "γβ"]
    fresh = subject.fresh()
    y, slope = fresh(x), share_of(x, fresh(1e-6 * x)) * 1e6
    functions = (("tanh", torch.tanh, slope), ("erf", torch.erf, slope * math.pi**0.5 / 2))
    for name, function, a in functions:
        if agree(function(a * x), y, 1e-3):
            return f"{name}({nearest(a, 1e-3):g}·x)"
    return "unsure: neither tanh nor erf of a multiple of x"


QUESTIONS: dict[str, Callable[[Subject, Tensor, Formula], str]] = {
    "zeros give": what_do_zeros_give,
    "float64": what_is_computed_in_float64,
    "at an offset of 10,000": how_far_from_zero_does_it_hold,
    "bfloat16": partial(what_is_rounded, torch.bfloat16),
    "float16": partial(what_is_rounded, torch.float16),
}

# -- the answers in words


def _eps_words(formula: Formula) -> str:
    """ε by the reading that makes it the shortest decimal."""
    eps, place, n = formula.eps, formula.place, formula.n
    if place == "nowhere":
        return "none seen"
    if eps in MACHINE_EPSILONS:
        return f"{eps:.3g} {place}: the machine epsilon of {MACHINE_EPSILONS[eps]}"
    readings = {place: eps, "as a floor below the root": eps**2}
    if formula.statistic == "mean square":
        readings["as a floor of the L2 norm"] = eps * n**0.5
        readings["inside the root, added to the sum of squares"] = eps * n
    words = [f"{nearest(e, 1e-3):g} {how}" for how, e in readings.items() if how.startswith(place)]
    return min(words, key=lambda text: len(text.partition(" ")[0].partition("e")[0]))


def _family(formula: Formula) -> tuple[str, str]:
    """The field's word for it, and the layer of torch that is nearest."""
    axes, dims = formula.axes, len(formula.view) // 3
    spatial = f"{max(dims - 2, 1)}d"
    if not formula.centred:
        is_l2 = "sum" in formula.statistic
        return ("L2 norm", "functional.normalize") if is_l2 else ("RMS norm", "RMSNorm")
    if 0 in axes:
        return "batch norm", f"BatchNorm{spatial}"
    if formula.groups > 1 or len(axes) == dims - 1 > 1:
        return "group norm", "GroupNorm"
    if len(axes) == dims - 2 > 1 and axes[0] == 2:
        return "instance norm", f"InstanceNorm{spatial}"
    return "layer norm", "LayerNorm"


def _summary(found: Diagnosis, formula: Formula) -> str:
    says = found.answers
    family, torchs = _family(formula)
    named = [p.name if p.name == "bias" else f"{p.name} {p.form}" for p in found.parameters]
    text = f"{family} over {says['set']}, ε {says['ε']}, {', '.join(named) or 'no weight'}"
    text += ", float32 inside" * (says["float64"] == "float32 inside")
    usual = {"RMS norm": "mean square", "L2 norm": "sum of squares"}.get(family, "variance / n")
    place = "as a floor" if family == "L2 norm" else "inside the root"
    odd = {
        "the divisor": formula.statistic != usual,
        "ε": formula.place not in ("nowhere", place),
        "the weight": any(p.role != "β" and p.form != "γ" for p in found.parameters),
        "the axis": family[:2] in ("la", "RM", "L2") and "last" not in formula.words,
        "which channels are a group": "every" in formula.words,
        "E[x²] − E[x]²": "E[x²]" in says.get("at an offset of 10,000", ""),
    }
    but = " and ".join(what for what, is_odd in odd.items() if is_odd)
    return f"{text}: `torch.nn.{torchs}`" + f" but for {but}" * bool(but)


def _smallest_difference(formula: Formula, subject: Subject, x: Tensor) -> str:
    """The smallest input on which the layer leaves the nearest norm of the course."""
    statistic = "variance / n" if formula.centred else "mean square"
    plain = replace(formula, statistic=statistic, place="inside the root")
    one = torch.zeros_like(x)
    one[tuple(0 for _ in x.shape)] = 1.0
    # a hundredth apart if there is such an input, else as far as can be told
    for (share, digits), scale in product(((0.01, 4), (0.0, 8)), (1.0, 1e-4)):
        theirs, ours = subject(scale * one), plain(scale * one)
        apart = (theirs - ours).abs() > (share * ours.abs()).clamp(min=1e-4)
        for at in map(tuple, apart.nonzero().tolist()):
            return (
                f"of a single {scale:g} among zeros it makes {theirs[at]:.{digits}g} at {at}, "
                f"where {_family(plain)[0]} makes {ours[at]:.{digits}g}"
            )
    return "its parameters or its groups act otherwise"


# -- the course's own


def _calls(formula: Formula, parameters: Sequence[Parameter]) -> Iterator[str]:
    """The course's norms over these axes, as text: weight and bias as arguments, or after it."""
    gains, shifts, affine, x = "", "", "", "x"
    for p in parameters:
        value = f"layer.{p.name}" if p.name.isidentifier() else f"layer.get_parameter({p.name!r})"
        repeated = f".repeat_interleave({p.times})" * (p.times > 1)
        placed = value if p.shape == p.own else f"{value}{repeated}.reshape{p.shape}"
        placed = f"({p.offset:g} + {placed})" if p.offset else placed
        flat = f"{value}.squeeze()" if 1 in p.own else value
        if p.role == "γ":
            affine += f", weight={flat}" + f", offset={p.offset:g}" * bool(p.offset)
            gains += f" * {placed}"
        elif p.role == "β":
            affine += f", bias={flat}"
            shifts += f" + {placed}"
        elif p.role == BEFORE:
            x = f"({x} * {placed})"
    axes: Any = tuple(formula.axes)
    ends: Any = tuple(range(-len(axes), 0))
    if len(axes) == 1:
        axes, ends = axes[0], -1
    turned = (f"{x}.movedim({axes}, {ends})", f".movedim({ends}, {axes})")
    channels_first = (f"{x}.movedim(-1, 1)", ".movedim(1, -1)")
    ways = [(affine, ""), ("", gains + shifts)]
    for (given, after), (of, back), call in product(ways, [(x, ""), channels_first, turned], CALLS):
        text = call.format(
            x=of,
            back=back,
            affine=given,
            sizes=tuple(formula.sizes),
            dims=axes,
            groups=formula.groups,
            n=formula.n,
            eps=formula.eps,
            eps_of_mean=nearest(formula.eps / formula.n, 1e-3),
            eps_of_length=nearest(formula.eps * formula.n**0.5, 1e-3),
        )
        if not given or given in text:
            yield f"norms.{text}{after}"
