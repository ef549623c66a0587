"""What does this layer compute? Its conventions, found by calling it alone, and the course's own
call that does the same.

Every answer is what a probe returned; where a probe cannot decide, the answer begins with "unsure".
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import norms, rope
from course_utils.table import Table
from course_utils.verify import norm_probes as norm
from course_utils.verify import position_probes as position
from course_utils.verify.subject import Parameter, Subject, normal, parameter_roles

__all__ = ["Diagnosis", "diagnose"]


@dataclass
class Diagnosis:
    """What ``diagnose`` found: a table of questions and answers, and ``summary``, one line.

    ``call`` is an expression of the course's that computes the same from ``x`` and ``layer``; it
    was run beside the layer, and ``unlike`` is empty. Where no call does, ``unlike`` says so, with
    a small input that shows it where there is a nearest one.
    """

    name: str
    kind: str
    answers: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    call: str | None = None
    unlike: str = ""
    parameters: list[Parameter] = field(default_factory=list, repr=False)
    formula: norm.Formula | None = field(default=None, repr=False)

    def __getitem__(self, question: str) -> str:
        return self.answers[question]

    def table(self) -> Table:
        """Questions and answers, the course's call last."""
        rows = [*self.answers.items()]
        rows.append(("the course's own", self.call or self.unlike))
        return Table(("question", "answer"), rows, f"{self.name}: {self.summary}")

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def diagnose(layer: Callable[..., Any] | Tensor, *example: Any) -> Diagnosis:
    """Say what a norm, a rotation, a bias or a code computes: any module, function or table.

    Args:
        layer: called on copies and never changed. A tensor is a table that a layer returned: codes
            (T, D), biases of heads (H, Q, K).
        example: one call, ``layer(*example)``, where a lone x of a shape that the parameters tell
            is not what it takes. Of a rotation, x (..., T, ..., D) has 64 positions or so.

    Raises:
        ValueError: the layer is none of these, needs other arguments, or runs only on a GPU; the
            message says which in one sentence.

    >>> print(diagnose(nn.RMSNorm(64, eps=1e-6)).summary)
    RMS norm over the last axis, ε 1e-06 inside the root, weight γ: `torch.nn.RMSNorm`
    """
    name = _name(layer)
    if isinstance(layer, Tensor):
        return _of_table(name, layer.detach().cpu().double(), None)
    subject, x = _first_call(layer, example)
    y = subject(x)
    if y.shape != x.shape or not x.is_floating_point() or not x.dim():
        return _of_table(name, y, None if x.is_floating_point() else x)
    other = normal(x.shape, 7)
    code = _same_for_all(subject, x, other)
    if code is not None and subject.parameters:
        subject.draw()  # a weight that starts at zero hides everything
        code = _same_for_all(subject, x, other)
    if code is not None:
        if (code - code[..., :1, :1]).abs().max() < 1e-4:
            raise ValueError(f"{name} is neither a norm nor a position: it is x, or a constant")
        return _of_table(name, code.reshape(-1, *code.shape[-2:])[0], None)
    y, y_other, both = (subject(v) for v in (x, other, x + other))
    near = 1e-4 * (y.abs().max() + 1e-3)
    if (both - y - y_other).abs().max() < near:
        found = _of_rotation(name, layer, subject, x, example[1:])
    elif (both - y - y_other + subject(0 * x)).abs().max() < near:
        raise ValueError(f"{name} is neither a norm nor a position: it is linear, and adds a bias")
    else:
        found = _of_norm(name, layer, subject, x, example[1:])
    if subject.overwrites:
        found.answers["its input"] = "is overwritten: it was handed copies"
    return found


def _same_for_all(subject: Subject, x: Tensor, other: Tensor) -> Tensor | None:
    """What comes back for any input, or is added to any; None where it depends on the input."""
    y, y_other = subject(x), subject(other)
    for code, again in ((y, y_other), (y - x, y_other - other)):
        if (code - again).abs().max() < 1e-4 * (code.abs().max() + 1e-3):
            return code
    return None


def _first_call(layer: Callable[..., Any], example: Sequence[Any]) -> tuple[Subject, Tensor]:
    """A call that succeeds: the example, or a lone x of the shapes that the parameters tell."""
    errors: list[Exception] = []
    call, rest, inputs = layer, example[1:], [e for e in example[:1] if isinstance(e, Tensor)]
    if example and not inputs:  # numbers in, a table out
        inputs, rest = [torch.zeros(())], ()
        call = functools.partial(_ignoring, layer, example)
    whole = [x for x in inputs if not x.is_floating_point() and x.dim()]
    for dtype in (torch.float64, torch.float32):
        subject = Subject(call, dtype, rest)
        subject.dtype = whole[0].dtype if whole else dtype
        for x in inputs or [normal(shape) for shape in _shapes(subject)]:
            try:
                y = subject(x)
            except Exception as error:
                errors.append(error)
                continue
            if example or y.shape == x.shape:
                return subject, x if whole or y.shape != x.shape else normal(x.shape)
            errors.append(ValueError(f"{tuple(x.shape)} becomes {tuple(y.shape)}"))
    raise ValueError(_why_not(_name(layer), errors, bool(example))) from errors[0]


def _ignoring(layer: Callable[..., Any], arguments: Sequence[Any], x: Tensor) -> Any:
    return layer(*arguments)


def _why_not(name: str, errors: list[Exception], given: bool) -> str:
    """One sentence for a layer that could not be called."""
    messages = [f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:160]}" for e in errors]
    for message in messages:
        if any(word in message for word in ("CUDA", "cuda", "0 active drivers", "Triton")):
            return f"{name} runs only on a GPU, and its parameters are not on one here: {message}"
    if given:
        return f"{name} cannot be called with this example: {messages[0]}"
    return (
        f"{name} needs other arguments than a lone x: give an example call, diagnose({name}, x, "
        f"...): {messages[0]}"
    )


def _shapes(subject: Subject) -> list[tuple[int, ...]]:
    """What x may be: (..., C), images, a list of vectors, C by the largest tensor of the layer."""
    buffers = subject.layer.buffers() if isinstance(subject.layer, nn.Module) else ()
    largest = max((*subject.parameters.values(), *buffers), key=Tensor.numel, default=Tensor())
    if largest.numel() < 2:
        return [(2, 5, 4, 64), (3, 5, 64), (6, 64, 5, 4), (6, 64)]
    c, own = largest.numel(), tuple(largest.shape)
    shapes = [(3, 5, c), (6, c, 5, 4), (6, c, 5), (6, c), (6, c, 3, 4, 2)]
    full = tuple(5 if n == 1 else n for n in own)
    return [(2, 3, *own), (2, *full), *shapes] if len(own) > 1 else shapes


# -- norms


def _of_norm(
    name: str, layer: Callable[..., Any], subject: Subject, x: Tensor, rest: Sequence[Any]
) -> Diagnosis:
    parameters = parameter_roles(subject, 3 * x + 2)
    found = Diagnosis(name, "norm", parameters=parameters)
    says = found.answers
    sets = norm.which_numbers_share_statistics(subject, 3 * x + 2)
    nothing_known = "unlike anything known in course_utils.norms"
    says["parameters"] = _words_of(parameters)
    if sets is None:
        says["set"] = "unsure: no box of axes shares its statistics"
    elif math.prod(sets.shared) == 1:
        says["set"] = "one number: there are no statistics"
        for p in parameters:
            if p.role == "other":
                subject.parameters[p.name].copy_(subject.starts[p.name])
        says["function"] = norm.which_function_of_one_number(subject, x)
        found.kind = "no statistics"
    else:
        says["set"] = _set_words(sets, x.shape)
        formula = norm.what_is_subtracted_and_divided_by(subject, x, sets)
        if formula is None:
            says["divides by"] = "unsure: (x − mean) / s holds for no statistic known"
        else:
            _ask_a_norm(found, layer, subject, x, formula, rest)
    found.summary = _norm_summary(found, x.shape)
    if found.formula is not None and "unsure" not in says["ε"]:
        found.call = _norm_call(found.formula, parameters, x.shape)
        worst = None if found.call is None else _check(found.call, layer, x, subject, rest)
        if worst is None or worst > 1:
            found.call, found.unlike = None, f"{nothing_known}: {_nearest(found, subject, x)}"
    else:
        found.unlike = nothing_known
    return found


def _ask_a_norm(
    found: Diagnosis,
    layer: Callable[..., Any],
    subject: Subject,
    x: Tensor,
    formula: norm.Formula,
    rest: Sequence[Any],
) -> None:
    says = found.answers
    says["mean"] = "subtracted" if formula.centred else "not subtracted"
    says["divides by"] = _root(formula.statistic)
    if formula.factor != 1:
        says["divides by"] += f", times {1 / formula.factor:.4g}"
    with_eps = norm.how_large_is_eps_and_where(subject, x, formula)
    if with_eps is None:
        says["ε"] = "unsure: neither inside the root, nor outside, nor a floor"
    else:
        formula = with_eps
        says["ε"] = _eps_words(formula, x.shape)
    found.formula = formula
    says["zeros give"] = norm.what_do_zeros_give(subject, x)
    says["float64"] = norm.what_is_computed_in_float64(subject, x, formula)
    if formula.centred:
        single = _neutral(Subject(layer, torch.float32, rest), found.parameters)
        says["at an offset of 10,000"] = norm.how_far_from_zero_does_it_hold(single, x, formula)
    for dtype in (torch.bfloat16, torch.float16):
        try:
            half = _neutral(Subject(layer, dtype, rest), found.parameters)
            answer = norm.what_is_rounded_in_half_precision(half, x, formula, found.parameters)
            if norm.what_do_zeros_give(half, x) == "NaN" and says["zeros give"] != "NaN":
                answer += "; zeros give NaN"
        except Exception as error:
            answer = f"raises {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
        says[str(dtype).removeprefix("torch.")] = answer
    trained = _neutral(Subject(layer, subject.dtype, rest), found.parameters)
    kept = norm.what_do_the_buffers_keep(trained, x, formula)
    says |= {f"buffer {name}": what for name, what in kept.items()}
    if kept and isinstance(layer, nn.Module):
        says["different in eval"] = norm.what_is_different_in_eval(trained, x)
    for p in found.parameters:
        if p.role in "γβ" and p.gain != {"γ": 1.0, "β": 0.0}[p.role]:
            says[f"{p.name} holds"] = "different numbers" if p.start is None else f"{p.start:g}"


def _neutral(subject: Subject, parameters: list[Parameter]) -> Subject:
    for p in parameters:
        if p.role != "other":
            subject.parameters[p.name].fill_(0.0 if p.role == "β" else 1.0 - p.offset)
    return subject


def _words_of(parameters: list[Parameter]) -> str:
    meanings = {
        "before": "multiplies the input",
        "other": "unsure: neither multiplies nor adds",
        "unused": "changes nothing",
    }
    forms = [f"{p.name}: {meanings.get(p.role, p.form)}" for p in parameters]
    forms = [
        form + (", unsure along which axis" if p.role in "γβ" and p.shape is None else "")
        for form, p in zip(forms, parameters, strict=True)
    ]
    return "; ".join(forms) or "none"


def _set_words(sets: norm.Formula, shape: torch.Size) -> str:
    """The axes that share statistics, such as "axis 1 (16 of 64) × axis 2 × axis 3"."""
    last, part = len(shape) - 1, sets.grouped(shape)
    words = []
    for axis, count in enumerate(sets.shared):
        if count == 1:
            continue
        word = "the last axis" if axis == last else "the batch" if axis == 0 else f"axis {axis}"
        if axis == part:
            spread = f", every {shape[axis] // count}th" if sets.strided else ""
            word += f" ({count} of {shape[axis]}{spread})"
        words.append(word)
    return " × ".join(words)


def _root(statistic: str) -> str:
    return statistic if "|" in statistic else f"the root of: {statistic}"


def _eps_words(formula: norm.Formula, shape: torch.Size) -> str:
    if formula.place == "nowhere":
        return "none seen"
    eps, n = formula.eps, math.prod(formula.shared)
    machine = [
        str(d) for d in (torch.float64, torch.float32) if abs(eps / torch.finfo(d).eps - 1) < 2e-3
    ]
    of_sum = formula.statistic == "mean square"
    words = f"{eps:g} {formula.place}"
    if machine:
        words += f": the machine epsilon of {machine[0].removeprefix('torch.')}"
    elif of_sum and formula.place == "as a floor" and _shorter(eps * n**0.5, eps):
        words = f"{_round(eps * n**0.5):g} as a floor of the L2 norm"
    elif of_sum and formula.place == "inside the root" and _shorter(eps * n, eps):
        words = f"{_round(eps * n):g} inside the root, added to the sum of squares"
    elif formula.place == "as a floor" and _shorter(eps**2, eps):
        words = f"{_round(eps**2):g} as a floor below the root"
    return words


def _round(value: float) -> float:
    return float(f"{value:.2e}")


def _shorter(one: float, other: float) -> bool:
    """Whether one number has fewer digits than another, and is what its digits say."""
    digits = [len(f"{_round(v):g}".split("e")[0]) for v in (one, other)]
    return digits[0] < digits[1] and abs(_round(one) / one - 1) < 1e-3


def _family(formula: norm.Formula, shape: torch.Size) -> tuple[str, str]:
    """The field's word for it, and the layer of torch that is nearest."""
    spatial, axes = f"{max(len(shape) - 2, 1)}d", formula.shared
    if not formula.centred:
        return (
            ("L2 norm", "functional.normalize")
            if "sum" in formula.statistic
            else ("RMS norm", "RMSNorm")
        )
    if axes[0] > 1:
        return "batch norm", f"BatchNorm{spatial}"
    if formula.grouped(shape) is not None or (len(shape) > 2 and all(n > 1 for n in axes[1:])):
        return "group norm", "GroupNorm"
    if axes[-1] > 1 and len(shape) > 3 and axes[1] == 1:
        return "instance norm", f"InstanceNorm{spatial}"
    return "layer norm", "LayerNorm"


def _norm_summary(found: Diagnosis, shape: torch.Size) -> str:
    says, formula = found.answers, found.formula
    if found.kind == "no statistics":
        return f"no norm: {says['function']} of each number by itself"
    if formula is None:
        return f"a norm over {says['set']}, and not (x − mean) / s"
    family, torchs = _family(formula, shape)
    named = [p.name if p.name == "bias" else f"{p.name} {p.form}" for p in found.parameters]
    eps = says["ε"] if says["ε"].startswith(("none", "unsure")) else f"ε {says['ε']}"
    parts = [f"{family} over {says['set']}", eps, ", ".join(named) or "no weight"]
    parts += ["float32 inside"] if says["float64"] == "float32 inside" else []
    usual = {"layer norm": "variance / n", "RMS norm": "mean square", "L2 norm": "sum of squares"}
    odd = {
        "the divisor": formula.statistic != usual.get(family, "variance / n")
        or formula.factor != 1,
        "ε": formula.place
        not in ("nowhere", "as a floor" if family == "L2 norm" else "inside the root"),
        "the weight": any(p.role != "β" and p.form != "γ" for p in found.parameters),
        "the axis": family in usual and not formula.shared[-1] > 1,
        "which channels are a group": formula.strided,
        "E[x²] − E[x]²": "E[x²]" in says.get("at an offset of 10,000", ""),
    }
    but = [what for what, is_odd in odd.items() if is_odd]
    end = f" but for {' and '.join(but)}" if but else ""
    return f"{', '.join(parts)}: `torch.nn.{torchs}`{end}"


def _norm_call(formula: norm.Formula, parameters: list[Parameter], shape: torch.Size) -> str | None:
    """The course's call for a formula, as text; None where the course has none."""
    if any(p.role in ("other", "before") or p.shape is None for p in parameters):
        return None
    if formula.strided or formula.factor != 1:
        return None
    eps, dims, part = f"eps={formula.eps!r}", len(shape), formula.grouped(shape)
    shared = [d for d, n in enumerate(formula.shared) if n > 1]
    kind = (formula.centred, formula.statistic, formula.place)
    layer_like = kind in ((True, "variance / n", place) for place in ("inside the root", "nowhere"))
    x, back, after = "x", "", ""
    trailing = shared == list(range(dims - len(shared), dims))
    sizes = tuple(formula.shared[d] for d in shared)
    inside = (1,) * (dims - len(sizes)) + sizes  # the shape of a weight of each number of a set
    if layer_like and 0 in shared and dims - 1 not in shared and dims > 2:
        x, back, inside = "x.movedim(-1, 1)", ".movedim(1, -1)", (1,) * (dims - 1) + shape[-1:]
        function, first = "batch_norm", "None, None"
    elif layer_like and 0 in shared and shared == [0, *range(2, dims)]:
        function, first = "batch_norm", "None, None"
        inside = (1, shape[1], *[1] * (dims - 2))
    elif layer_like and 0 not in shared and part == 1 and shared == list(range(1, dims)):
        function, first = "group_norm", f"{shape[1] // formula.shared[1]}"
        inside = (1, shape[1], *[1] * (dims - 2))
    elif layer_like and part == dims - 1 and shared == list(range(1, dims)):
        x, back, inside = "x.movedim(-1, 1)", ".movedim(1, -1)", (1,) * (dims - 1) + shape[-1:]
        function, first = "group_norm", f"{shape[-1] // formula.shared[-1]}"
    elif part is not None and shared == [part]:
        x, back = f"x.unflatten({part}, (-1, {sizes[0]}))", f".flatten({part}, {part + 1})"
        x += "" if part == dims - 1 else f".movedim({part + 1}, -1)"
        back = ("" if part == dims - 1 else f".movedim(-1, {part + 1})") + back
        function, first, inside = "", f"{sizes}", (0,)
    elif part is not None or 0 in shared:
        return None
    elif not trailing:
        ends = -1 if len(shared) == 1 else tuple(range(-len(shared), 0))
        starts = shared[0] if len(shared) == 1 else tuple(shared)
        x, back = f"x.movedim({starts}, {ends})", f".movedim({ends}, {starts})"
        inside = tuple(formula.shared)
        function, first = "", f"{sizes}"
    else:
        function, first = "", f"{sizes}"
    if not function and layer_like:
        function = "layer_norm"
    elif not function and not formula.centred:
        n = math.prod(sizes)
        last = "dim=-1" if len(sizes) == 1 else f"dim={tuple(range(-len(sizes), 0))}"
        match formula.statistic, formula.place:
            case "mean square", "inside the root" | "nowhere":
                function = "rms_norm"
            case "sum of squares", "inside the root" | "nowhere":
                function, eps = "rms_norm", f"eps={formula.eps / n!r}"
                after = f" / {n}**0.5"
            case "sum of squares" | "mean square", "as a floor":
                function, first = "l2_norm", last
                root = formula.statistic == "mean square"
                eps = f"eps={_round(formula.eps * n**0.5) if root else formula.eps!r}"
                after = f" * {n}**0.5" if root else ""
    if not function:
        return None
    return _with_parameters(function, x, first, eps, back, after, parameters, inside)


def _with_parameters(
    function: str,
    x: str,
    first: str,
    eps: str,
    back: str,
    after: str,
    parameters: list[Parameter],
    inside: tuple[int, ...],
) -> str:
    """Hand weight and bias to the function where it takes them so, and apply them after it where
    not."""
    arguments, gains, shifts = [x, first], [], []
    takes = {"rms_norm": ("weight", "offset"), "l2_norm": ()}.get(function, ("weight", "bias"))
    weights = [p for p in parameters if p.role == "γ"]
    biases = [p for p in parameters if p.role == "β"]
    fits = len(weights) == 1 and weights[0].shape == inside and not after and "weight" in takes
    fits = fits and (not weights[0].offset or ("offset" in takes and weights[0].offset == 1))
    squeezed = tuple(n for n in inside if n != 1)
    for p in weights:
        if fits:
            arguments.append(f"weight={p.expression(squeezed)}")
            arguments += ["offset=1"] if p.offset else []
        else:
            form = p.expression(p.shape or ())
            gains.append(f"({p.offset:g} + {form})" if p.offset else form)
    for p in biases:
        if p.shape == inside and "bias" in takes and (fits or not weights):
            arguments.append(f"bias={p.expression(squeezed)}")
        else:
            shifts.append(p.expression(p.shape or ()))
    arguments += ["training=True"] if function == "batch_norm" else []
    call = f"norms.{function}({', '.join([*arguments, eps])}){back}{after}"
    return " + ".join([" * ".join([call, *gains]), *shifts])


def _check(
    call: str, layer: Callable[..., Any], x: Tensor, subject: Subject, rest: Sequence[Any]
) -> float:
    """Run the call beside the layer, with drawn parameters, where ε shows and where it does not:
    the largest error as a share of what rounding explains."""
    fresh = Subject(layer, subject.dtype, rest)
    fresh.draw()
    errors = []
    for scale, shift in ((1.0, 0.0), (3.0, 2.0), (1e-3, 0.0), (1e-6, 0.0)):
        drawn = scale * normal(x.shape, 11) + shift
        names = {"norms": norms, "rope": rope, "torch": torch, "layer": fresh.layer}
        with torch.no_grad():
            mine = eval(call, names | {"x": drawn.to(fresh.device, fresh.dtype)}).cpu().double()
        theirs = fresh(drawn)
        errors.append(((mine - theirs).abs().max() / (2e-5 * theirs.abs().max())).item())
    return max(errors)


def _nearest(found: Diagnosis, subject: Subject, x: Tensor) -> str:
    """The smallest of a few plain inputs on which the layer leaves the nearest norm of the
    course."""
    formula = found.formula
    assert formula is not None
    plain = norm.Formula(formula.shared, False, formula.centred)
    plain = replace(plain, statistic="variance / n" if formula.centred else "mean square")
    plain = replace(plain, eps=formula.eps, place="inside the root")
    one = torch.zeros_like(x)
    one[tuple(0 for _ in x.shape)] = 1.0
    ladder = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape) % 7
    for words, plain_input in (
        ("a single 1 among zeros", one),
        ("0, 1, 2, …, 6 again and again", ladder),
        ("a single 0.0001 among zeros", 1e-4 * one),
    ):
        theirs, ours = subject(plain_input), plain(plain_input)
        differs = (theirs - ours).abs() > 1e-4
        if differs.any():
            at = tuple(int(n) for n in differs.nonzero()[0])
            name = _family(plain, x.shape)[0]
            return (
                f"of {words} it makes {theirs[at]:.4g} at {at}, where {name} makes {ours[at]:.4g}"
            )
    return "its parameters act otherwise"


# -- positions


def _of_rotation(
    name: str, layer: Callable[..., Any], subject: Subject, x: Tensor, rest: Sequence[Any]
) -> Diagnosis:
    found = Diagnosis(name, "rotation", unlike="unlike anything known in course_utils.rope")
    says = found.answers
    axis = position.along_which_axis_are_the_positions(subject, x.shape)
    if axis is None:
        raise ValueError(
            f"{name} is linear and the same at every position: it rotates nothing by position"
        )
    shape = list(x.shape)
    if len(rest) == 0:
        shape[axis] = 64
    turns = position.which_columns_are_pairs(subject, shape, axis)
    says["positions along"] = f"axis {axis} of {len(shape)}"
    if turns is None:
        says["pairs"] = "unsure: columns do not turn in pairs"
        found.summary = "linear, with the position, and no rotation of pairs"
        return found
    pairs, dim = len(turns.pairs), turns.dim
    says["layout"] = turns.layout
    if turns.order is not None:
        evens = turns.order[:pairs] == list(range(0, 2 * pairs, 2))
        says["output order"] = "evens, then odds" if evens else "another than the input's"
    start = turns.pairs[0][0]
    says["turns"] = f"{2 * pairs} of {dim}" + (f", from column {start} on" if start else "")
    if not position.do_angles_grow_evenly(turns):
        grid = position.which_grid(turns)
        says["angles"] = grid or "unsure: they do not grow evenly with the position"
        found.summary = f"rotation in pairs ({turns.layout}), {grid or 'of unknown angles'}"
        return found
    signs = turns.frequencies.sign()
    sign = int(signs[0])
    says["sign"] = {1: "+", -1: "−"}[sign] if (signs == sign).all() else "unsure: both"
    first = _whole((torch.angle(turns.z[0]) / turns.frequencies)[0].item())
    says["first position"] = f"{first:g}"
    parameters, says["frequencies"] = position.which_rope_parameters(turns.frequencies, dim)
    factor, says["length changes"] = position.does_the_length_change(turns)
    if len(rest) == 0:
        _ask_far_positions(says, layer, subject, shape, turns, first)
    summary = (
        f"rotary embedding, {turns.layout} layout, {says['turns']} columns, {says['frequencies']}"
    )
    summary += "" if factor == 1 else f", length: {says['length changes']}"
    if "a longer text" in says:
        summary += ", other frequencies in a longer text"
    found.summary = summary
    trained = (parameters or {}).get("rope_theta", 10_000.0) ** (-torch.arange(pairs) / pairs)
    other = ((turns.frequencies.abs() - trained).abs() > 1e-3 * trained).nonzero().flatten()
    if len(other):
        i = int(other[0])
        found.unlike += (
            f": from one position to the next pair {i} turns by {turns.frequencies[i]:.4g}, where "
            f"a base of 10,000 without scaling gives {trained[i]:.4g}"
        )
    if parameters is None or start or says["layout"] not in ("half", "interleaved"):
        return found
    if math.isnan(factor):
        if "xPos" not in says["length changes"] or "rope_type" in parameters:
            return found
        words = says["length changes"].split()
        scale, middle = float(words[words.index("base") + 1].rstrip(",")), float(words[-1])
        centre = f"x.shape[{axis}] // 2" if middle == shape[axis] // 2 else f"{middle:g}"
        base, keys = parameters["rope_theta"], "for keys" in says["length changes"]
        tables = (
            f"rope.xpos_cos_sin(POSITIONS, {2 * pairs}, base={base:g}, scale_base={scale:g}, "
            f"centre={centre}, keys={keys})"
        )
    else:
        _, expected = rope.rope_frequencies(parameters, dim)
        if abs(expected - factor) > 1e-4 and parameters.get("rope_type") == "yarn":
            parameters["attention_factor"] = factor
        tables = f"rope.rope_cos_sin(POSITIONS, *rope.rope_frequencies({parameters}, {dim}))"
        if abs(expected - factor) > 1e-4 and parameters.get("rope_type") != "yarn":
            tables = tables.replace("*rope.", "rope.").replace(
                f", {dim})", f", {dim})[0], {factor:g}"
            )
    positions = f"torch.arange(x.shape[{axis}])" + (f" + {first:g}" if first else "")
    positions = positions if sign > 0 else f"-({positions})"
    move = axis != len(shape) - 2
    moved = f"x.movedim({axis}, -2)" if move else "x"
    back = f".movedim(-2, {axis})" if move else ""
    tables = tables.replace("POSITIONS", positions)
    reorder = ".unflatten(-1, (-1, 2)).mT.flatten(-2)" if turns.order is not None else ""
    found.call = f"rope.apply_rope({moved}, *{tables}, layout={turns.layout!r}){reorder}{back}"
    error = _check_rotation(found.call, subject, shape)
    if error < 1e-3:
        found.unlike = ""
    else:
        found.call = None
    return found


def _ask_far_positions(
    says: dict[str, str],
    layer: Callable[..., Any],
    subject: Subject,
    shape: list[int],
    turns: position.Turns,
    first: float,
) -> None:
    """What changes with the dtype, the order of calls on one object, and the length. The far
    positions come first in bfloat16: a table that float32 has filled would hide what it does."""
    frequencies = turns.frequencies

    def wrong(probe: Subject, length: int) -> str | None:
        try:
            z = position.how_do_they_turn(probe, shape, turns, length)[:, :1]
        except Exception as error:
            return f"raises {type(error).__name__}"
        off = position.how_far_is_it_from(z, frequencies[:1], first).max().item()
        return f"wrong by up to {off:.1g} rad" if off > 0.03 else None

    one_object = Subject(layer, torch.float32)
    answers: dict[tuple[int, torch.dtype], str | None] = {}
    for length in (1024, 256):
        for one_object.dtype in (torch.bfloat16, torch.float32):  # of the queries alone
            answers[length, one_object.dtype] = wrong(one_object, length)
        if not (answers[length, torch.float32] or "").startswith("raises"):
            break
    far = None
    for longer in (4096, length):
        try:
            far = position.how_do_they_turn(Subject(layer, subject.dtype), shape, turns, longer)
        except Exception:
            continue
        break
    if far is None:
        says["angles"] = "unsure: no text longer than 64 positions runs"
        return
    near = torch.angle(far[1:64] / far[:63]).mean(0)
    spoilt = answers[length, torch.float32]
    if not spoilt and (near - frequencies).abs().max() > 1e-4 * frequencies.abs().max():
        says["a longer text"] = f"has other frequencies at {len(far):,} positions"
        return
    says["bfloat16 queries"] = answers[length, torch.bfloat16] or "turn by the same angles"
    says["float32 after bfloat16, one object"] = spoilt or "as before"
    if isinstance(layer, nn.Module) and dict(layer.named_buffers()):
        cast = wrong(Subject(layer, torch.bfloat16), length)
        says["the module in bfloat16"] = cast or "turns by the same angles"
    elif spoilt:
        return  # and there is no other object to ask
    exact = torch.angle(far[1:] / far[:-1]).mean(0)
    error = position.how_far_is_it_from(far, exact, first).max().item()
    kind = "exact" if error < 3e-6 else "float32 products" if error < 0.01 else "unsure: not even"
    says["angles"] = f"{kind}, off by {error:.0e} within {len(far):,} positions"


def _check_rotation(call: str, subject: Subject, shape: Sequence[int]) -> float:
    x = normal(shape, 11)
    mine = eval(call, {"rope": rope, "torch": torch, "x": x}).double()
    return (mine - subject(x)).abs().max().item()


def _of_table(name: str, table: Tensor, positions: Tensor | None) -> Diagnosis:
    """A code (T, D), a bias (H, Q, K) or (1, H, Q, K), slopes (H,), buckets of relative
    positions."""
    if positions is not None and positions.shape == table.shape:
        call, rows = position.which_buckets(positions, table)
        kind = "buckets of relative positions"
    elif table.dim() == 1:
        known = torch.allclose(table, rope.alibi_slopes(len(table)).double(), rtol=1e-4)
        call = f"rope.alibi_slopes({len(table)})" if known else None
        rows, kind = [("slopes", "ALiBi's")] if known else [], "slopes"
    else:
        table = table[0] if table.dim() in (3, 4) and len(table) == 1 else table
        call, rows = position.which_code(table) if table.dim() == 2 else (None, [])
        kind = "code of positions"
        if not rows and table.dim() in (2, 3):
            heads = table if table.dim() == 3 else table[None]
            call, rows = position.which_bias(heads)
            kind = "bias of relative positions"
    if not rows:
        raise ValueError(
            f"{name} is neither a norm nor a position that is known: it returns a table of shape "
            f"{tuple(table.shape)}"
        )
    summary = f"{kind}, " + ", ".join(f"{question}: {answer}" for question, answer in rows)
    unlike = "" if call else "unlike anything known in course_utils.rope"
    return Diagnosis(name, kind, dict(rows), summary, call, unlike)


def _whole(value: float) -> float:
    return float(round(value)) if abs(value - round(value)) < 1e-3 else value


def _name(layer: Any) -> str:
    if isinstance(layer, nn.Module):
        return type(layer).__name__
    return "table" if isinstance(layer, Tensor) else getattr(layer, "__name__", "layer")
