"""What does this layer compute? Its conventions, found by calling it alone, and the course's own
call that does the same.

Every answer is what a probe returned; where a probe cannot decide, the answer begins with "unsure".
The course's own call is found by trying: candidates with the numbers that the probes found are run
beside the layer, and the first that agrees is it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import norms, rope
from course_utils.table import Table
from course_utils.verify import norm_probes as norm
from course_utils.verify import position_probes as position
from course_utils.verify.subject import Parameter, Subject, normal, parameter_roles

__all__ = ["Diagnosis", "diagnose"]

_MOST = 2**22  # numbers in x: a buffer may be a table of all positions


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
    parameters: Sequence[Parameter] = field(default=(), repr=False)

    def __getitem__(self, question: str) -> str:
        return self.answers[question]

    def table(self) -> Table:
        """Questions and answers, the course's call last."""
        rows = [*self.answers.items(), ("the course's own", self.call or self.unlike)]
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
    y, other = subject(x), normal(x.shape, 7)
    if y.shape != x.shape or not x.is_floating_point() or not x.dim():
        return _of_table(name, y, None if x.is_floating_point() else x)
    code = _same_for_all(subject, x, other)
    if code is not None and subject.parameters:
        subject.draw()  # a weight that starts at zero hides everything
        code = _same_for_all(subject, x, other)
    if code is not None:
        if (code - code[..., :1, :1]).abs().max() < 1e-4:
            raise ValueError(f"{name} is neither a norm nor a position: it is x, or a constant")
        return _of_table(name, code.reshape(-1, *code.shape[-2:])[0], None)
    y = subject(x)
    sum_of_two = y + subject(other) - subject(x + other)
    near = 1e-4 * (y.abs().max() + 1e-3)
    if sum_of_two.abs().max() < near:
        found = _of_rotation(name, subject, x)
    elif (sum_of_two - subject(0 * x)).abs().max() < near:
        raise ValueError(f"{name} is neither a norm nor a position: it is linear, and adds a bias")
    else:
        found = _of_norm(name, subject, x)
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
        call, rest, inputs = (lambda _: layer(*example)), (), [torch.zeros(())]
    whole = [x for x in inputs if not x.is_floating_point()]
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


def _why_not(name: str, errors: Sequence[Exception], given: bool) -> str:
    """One sentence for a layer that could not be called."""
    messages = [_said(error, 160) for error in errors]
    for message in messages:
        if any(word in message for word in ("CUDA", "cuda", "0 active drivers", "Triton")):
            return f"{name} runs only on a GPU, and its parameters are not on one here: {message}"
    if given:
        return f"{name} cannot be called with this example: {messages[0]}"
    return (
        f"{name} needs other arguments than a lone x: give an example call, diagnose({name}, x, "
        f"...): {messages[0]}"
    )


def _said(error: Exception, length: int) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:length]}"


def _shapes(subject: Subject) -> list[tuple[int, ...]]:
    """What x may be: (..., C), images, a list of vectors, C by the largest tensor of the layer."""
    tensors = (*subject.parameters.values(), *subject.buffers.values())
    own = tuple(max(tensors, key=Tensor.numel, default=Tensor()).shape)
    if math.prod(own) < 2:
        return [(2, 5, 4, 64), (3, 5, 64), (6, 64, 5, 4), (6, 64)]
    c = math.prod(own)
    shapes = [(3, 5, c), (6, c, 5, 4), (6, c, 5), (6, c), (6, c, 3, 4, 2)]
    full = tuple(5 if n == 1 else n for n in own)
    shapes = [(2, 3, *own), (2, *full), *shapes] if len(own) > 1 else shapes
    return [shape for shape in shapes if math.prod(shape) <= _MOST] or [(6, 64)]


@torch.no_grad()
def _first_that_agrees(
    calls: Iterable[str], inputs: Sequence[Tensor], subject: Subject, within: float
) -> str | None:
    """The first of the course's calls, of x and ``layer`` as text, that makes the same of every
    input, ``within`` a share of the largest number."""
    names = {"norms": norms, "rope": rope, "torch": torch, "layer": subject.layer}
    expected = [subject(x) for x in inputs]
    for call in calls:
        try:
            agrees = all(
                _agree(eval(call, names | {"x": x.to(subject.device, subject.dtype)}), y, within)
                for x, y in zip(inputs, expected, strict=True)
            )
        except Exception:
            continue  # it takes no such shape or argument
        if agrees:
            return call
    return None


def _agree(mine: Tensor, y: Tensor, within: float) -> bool:
    finite = y.isfinite()  # a bias may be −∞ ahead
    error = (mine.cpu().double() - y)[finite].abs().max()
    return bool(error <= within * y[finite].abs().max())


# -- norms

CALLS = (
    "layer_norm({x}, {sizes}{weights}, eps={eps}){back}",
    "rms_norm({x}, {sizes}{weights}, eps={eps}){back}",
    "rms_norm({x}, {sizes}{weights}, eps={eps_of_mean}){back} / {n}**0.5",
    "group_norm({x}, {groups}{weights}, eps={eps}){back}",
    "instance_norm({x}{weights}, eps={eps}){back}",
    "batch_norm({x}, None, None{weights}, training=True, eps={eps}){back}",
    "l2_norm({x}, dim={dims}, eps={eps}){back}",
    "l2_norm({x}, dim={dims}, eps={eps_of_length}){back} * {n}**0.5",
)


def _of_norm(name: str, subject: Subject, x: Tensor) -> Diagnosis:
    found = Diagnosis(name, "norm", parameters=parameter_roles(subject, 3 * x + 2))
    found.unlike = "unlike anything known in course_utils.norms"
    says = found.answers
    says["parameters"] = _words_of(found.parameters)
    sets = norm.which_numbers_share_statistics(subject, 3 * x + 2)
    says["set"] = _set_words(sets)
    found.summary = f"a norm over {says['set']}, and not (x − mean) / s"
    if sets is None:
        return found
    if not sets.axes:
        subject.roles = [p for p in found.parameters if p.role in "γβ"]
        says["function"] = norm.which_function_of_one_number(subject.fresh(), x)
        found.kind = "no statistics"
        found.summary = f"no norm: {says['function']} of each number by itself"
        return found
    formula = norm.what_is_subtracted_and_divided_by(subject, x, sets)
    if formula is None:
        says["divides by"] = "unsure: (x − mean) / s holds for no statistic known"
        return found
    says["mean"] = "subtracted" if formula.centred else "not subtracted"
    root = "" if "|" in formula.statistic else "the root of: "
    times = "" if formula.factor == 1 else f", times {1 / formula.factor:.4g}"
    says["divides by"] = f"{root}{formula.statistic}{times}"
    with_eps = norm.how_large_is_eps_and_where(subject, x, formula)
    formula = with_eps or formula
    unsure = "unsure: neither inside the root, nor outside, nor a floor"
    says["ε"] = _eps_words(formula) if with_eps else unsure
    for question, probe in norm.QUESTIONS.items():
        try:
            answer = probe(subject, x, formula)
        except Exception as error:
            answer = f"raises {_said(error, 80)}"
        says |= {question: answer} if answer else {}
    says |= norm.what_do_the_buffers_keep(subject, x, formula)
    for p in found.parameters:
        start = Subject(subject.original, subject.dtype).parameters[p.name].unique()
        if p.role in "γβ" and (start != p.neutral).any():
            says[f"{p.name} holds"] = f"{start[0]:g}" if len(start) == 1 else "different numbers"
    found.summary = _norm_summary(found, formula)
    if with_eps is not None:
        fresh, v, eps = subject.fresh(), normal(x.shape, 11), formula.eps
        fresh.draw()
        # where ε shows, and where it does not
        inputs = [3 * v + 2, *(scale * v for scale in {1, 1e-3, 1e-6, eps**0.5, eps} - {0})]
        found.call = _first_that_agrees(_norm_calls(formula, found.parameters), inputs, fresh, 2e-5)
        found.unlike = "" if found.call else f"{found.unlike}: {_nearest(formula, subject, x)}"
    return found


def _words_of(parameters: Sequence[Parameter]) -> str:
    meanings = {
        "before": "multiplies the input",
        "other": "unsure: neither multiplies nor adds",
        "unused": "changes nothing",
    }
    words = [f"{p.name}: {meanings.get(p.role, p.form)}" for p in parameters]
    for i, p in enumerate(parameters):
        words[i] += ", unsure along which axis" * (p.role in "γβ" and p.shape is None)
    return "; ".join(words) or "none"


def _set_words(sets: norm.Formula | None) -> str:
    """The axes that share statistics, such as "axis 1 (16 of 64) × axis 2 × axis 3"."""
    if sets is None:
        return "unsure: no box of axes shares its statistics"
    words = []
    for axis in sets.axes:
        size, count, stride = sets.shape[axis], sets.shared[axis], sets.strides[axis]
        word = {0: "the batch", len(sets.shape) - 1: "the last axis"}.get(axis, f"axis {axis}")
        every = f", every {stride}th" if stride > 1 else ""
        words.append(word if count == size else f"{word} ({count} of {size}{every})")
    return " × ".join(words) or "one number: there are no statistics"


def _eps_words(formula: norm.Formula) -> str:
    """ε by the reading that makes it the shortest decimal."""
    eps, place, n = formula.eps, formula.place, math.prod(formula.shared)
    if place == "nowhere":
        return "none seen"
    if eps in norm.MACHINE_EPSILONS:
        return f"{eps:.3g} {place}: the machine epsilon of {norm.MACHINE_EPSILONS[eps]}"
    readings = {place: eps}
    if formula.statistic == "mean square":
        readings["as a floor of the L2 norm"] = eps * n**0.5
        readings["inside the root, added to the sum of squares"] = eps * n
    readings["as a floor below the root"] = eps**2
    words = [f"{norm.rounded(e):g} {how}" for how, e in readings.items() if how.startswith(place)]
    return min(words, key=lambda text: len(text.partition(" ")[0].partition("e")[0]))


def _family(formula: norm.Formula) -> tuple[str, str]:
    """The field's word for it, and the layer of torch that is nearest."""
    spatial, axes = f"{max(len(formula.shape) - 2, 1)}d", formula.axes
    if not formula.centred and "sum" in formula.statistic:
        return "L2 norm", "functional.normalize"
    if not formula.centred:
        return "RMS norm", "RMSNorm"
    if 0 in axes:
        return "batch norm", f"BatchNorm{spatial}"
    if formula.part is not None or len(axes) == len(formula.shape) - 1 > 1:
        return "group norm", "GroupNorm"
    if axes == [*range(2, len(formula.shape))] and len(axes) > 1:
        return "instance norm", f"InstanceNorm{spatial}"
    return "layer norm", "LayerNorm"


def _norm_summary(found: Diagnosis, formula: norm.Formula) -> str:
    says = found.answers
    family, torchs = _family(formula)
    named = [p.name if p.name == "bias" else f"{p.name} {p.form}" for p in found.parameters]
    eps = says["ε"] if says["ε"].startswith(("none", "unsure")) else f"ε {says['ε']}"
    parts = [f"{family} over {says['set']}", eps, ", ".join(named) or "no weight"]
    parts += ["float32 inside"] if says["float64"] == "float32 inside" else []
    usual = {"RMS norm": "mean square", "L2 norm": "sum of squares"}.get(family, "variance / n")
    place = "as a floor" if family == "L2 norm" else "inside the root"
    odd = {
        "the divisor": (formula.statistic, formula.factor) != (usual, 1),
        "ε": formula.place not in ("nowhere", place),
        "the weight": any(p.role != "β" and p.form != "γ" for p in found.parameters),
        "the axis": family[:2] in ("la", "RM", "L2") and len(formula.shape) - 1 not in formula.axes,
        "which channels are a group": max(formula.strides) > 1,
        "E[x²] − E[x]²": "E[x²]" in says.get("at an offset of 10,000", ""),
    }
    but = [what for what, is_odd in odd.items() if is_odd]
    end = f" but for {' and '.join(but)}" if but else ""
    return f"{', '.join(parts)}: `torch.nn.{torchs}`{end}"


def _norm_calls(formula: norm.Formula, parameters: Sequence[Parameter]) -> Iterator[str]:
    """The course's norms over these axes, as text: weight and bias as arguments, or after it."""
    n, part = math.prod(formula.shared), formula.part
    axes, ends = str(tuple(formula.axes)), str(tuple(range(-len(formula.axes), 0)))
    if len(formula.axes) == 1:
        axes, ends = str(formula.axes[0]), "-1"
    numbers = {
        "sizes": tuple(formula.shared[axis] for axis in formula.axes),
        "groups": 1 if part is None else formula.shape[part] // formula.shared[part],
        "n": n,
        "eps": formula.eps,
        "eps_of_mean": norm.rounded(formula.eps / n),
        "eps_of_length": norm.rounded(formula.eps * n**0.5),
    }
    gains, shifts, before, weights = "", "", "x", ""
    for p in parameters:
        shape = p.shape or p.own
        flat, whole = p.expression(tuple(n for n in shape if n != 1)), p.expression(shape)
        whole = f"({p.offset:g} + {whole})" if p.offset else whole
        if p.role == "before":
            before = f"({before} * {whole})"
        if p.role == "γ":
            weights += f", weight={flat}" + (f", offset={p.offset:g}" if p.offset else "")
            gains += f" * {whole}"
        if p.role == "β":
            weights += f", bias={flat}"
            shifts += f" + {whole}"
    last = f"{before}.movedim({part}, -1)"
    views = [
        (before, "", axes),
        (f"{before}.movedim(-1, 1)", ".movedim(1, -1)", axes),
        (f"{before}.movedim({axes}, {ends})", f".movedim({ends}, {axes})", ends),
        (f"{last}.unflatten(-1, (-1, {n}))", f".flatten(-2).movedim(-1, {part})", "-1"),
    ]
    ways = [(weights, ""), ("", gains + shifts)]
    for (weights, after), (x, back, dims), call in product(ways, views, CALLS):
        numbers |= {"x": x, "back": back, "dims": dims, "weights": weights}
        if not weights or "weights" in call:
            yield f"norms.{call.format(**numbers)}{after}"


def _nearest(formula: norm.Formula, subject: Subject, x: Tensor) -> str:
    """The smallest input on which the layer leaves the nearest norm of the course."""
    statistic = "variance / n" if formula.centred else "mean square"
    plain = replace(formula, statistic=statistic, factor=1.0, place="inside the root")
    one = torch.zeros_like(x)
    one[tuple(0 for _ in x.shape)] = 1.0
    # a hundredth apart if there is such an input, else as far as can be told
    for share, scale in product((0.01, 0.0), (1.0, 1e-4)):
        theirs, ours = subject(scale * one), plain(scale * one)
        apart = (theirs - ours).abs()
        for at in (apart > (share * ours.abs()).clamp(min=1e-4)).nonzero().tolist():
            at = tuple(at)
            mine, its = _told_apart(theirs[at].item(), ours[at].item())
            return (
                f"of a single {scale:g} among zeros it makes {mine} at {at}, where "
                f"{_family(plain)[0]} makes {its}"
            )
    return "its parameters or its groups act otherwise"


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Both with four digits, or with as many as it takes to differ."""
    for digits in range(4, 18):
        words = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if words[0] != words[1]:
            break
    return words


# -- positions


def _of_rotation(name: str, subject: Subject, x: Tensor) -> Diagnosis:
    found = Diagnosis(name, "rotation", unlike="unlike anything known in course_utils.rope")
    says, shape = found.answers, list(x.shape)
    axis = position.along_which_axis_are_the_positions(subject, shape)
    if axis is None:
        raise ValueError(
            f"{name} is linear and the same at every position: it rotates nothing by position"
        )
    shape[axis] = shape[axis] if subject.rest else 64
    says["positions along"] = f"axis {axis} of {len(shape)}"
    turns = position.which_columns_are_pairs(subject, shape, axis)
    if turns is None:
        says["pairs"] = "unsure: columns do not turn in pairs"
        found.summary = "linear, with the position, and no rotation of pairs"
        return found
    pairs, dim, start = len(turns.pairs), shape[-1], turns.pairs[0][0]
    says["layout"] = position.which_layout_have_the_pairs(turns)
    if turns.order is not None:
        evens = turns.order[:pairs] == list(range(0, 2 * pairs, 2))
        says["output order"] = "evens, then odds" if evens else "another than the input's"
    says["turns"] = f"{2 * pairs} of {dim}" + (f", from column {start} on" if start else "")
    found.summary = f"rotary embedding, {says['layout']} layout, {says['turns']} columns, "
    if not position.do_angles_grow_evenly(turns):
        says["angles"] = position.which_grid(turns)
        found.summary += f"angles: {says['angles']}"
        return found
    signs, f = turns.frequencies.sign(), turns.frequencies.abs()
    says["sign"] = {-pairs: "−", pairs: "+"}.get(int(signs.sum()), "unsure: both")
    says["first position"] = f"{turns.first:g}"
    parameters, says["frequencies"] = position.which_frequencies(f, dim)
    says["length changes"], tables = position.does_the_length_change(turns)
    if not subject.rest:
        says |= position.what_changes_far_away(subject, shape, turns)
    found.summary += says["frequencies"]
    if says["length changes"] != "no":
        found.summary += f", length: {says['length changes']}"
    if "a longer text" in says:
        found.summary += ", other frequencies in a longer text"
    base = parameters.get("rope_theta", 10_000.0)
    positions = f"torch.arange(x.shape[{axis}])" + (f" + {turns.first:g}" if turns.first else "")
    values = {
        "positions": positions if signs[0] > 0 else f"-({positions})",
        "frequencies": f"rope.rope_frequencies({parameters}, {dim})",
        "base": f"{base:g}",
    }
    order = ".unflatten(-1, (-1, 2)).mT.flatten(-2)" if turns.order is not None else ""
    to, back = f".movedim({axis}, -2)", f".movedim(-2, {axis})"
    calls = []
    for table in ("rope.rope_cos_sin({positions}, *{frequencies})", tables):
        table = table.format(**values)
        call = f"rope.apply_rope(x{to}, *{table}, layout={says['layout']!r}){order}{back}"
        if axis == len(shape) - 2:
            call = call.replace(to, "").replace(back, "")
        calls.append(call)
    found.call = _first_that_agrees(calls, [normal(shape, 11)], subject, 2e-4)
    trained = rope.rope_inv_freq(2 * pairs, base)
    other = ((f - trained).abs() > 1e-3 * trained).nonzero().flatten().tolist()
    if found.call is not None:
        found.unlike = ""
    elif other:
        found.unlike += (
            f": from one position to the next pair {other[0]} turns by {f[other[0]]:.4g}, where a "
            f"base of {base:,.6g} without scaling gives {trained[other[0]]:.4g}"
        )
    return found


def _of_table(name: str, table: Tensor, positions: Tensor | None) -> Diagnosis:
    """A code (T, D), a bias (H, Q, K) or (1, H, Q, K), slopes (H,), buckets of relative
    positions."""
    table = table[0] if table.dim() > 2 and len(table) == 1 else table
    shape = tuple(table.shape)
    heads, queries, keys = (1, 1, 1, *shape)[-3:]
    found, calls = Diagnosis(name, "bias of relative positions"), []
    turns, order = position.which_code(table) if table.dim() == 2 else (None, "")
    if turns is not None:
        parameters, words = position.which_frequencies(turns.frequencies, keys)
        size, steps = turns.z.abs().mean().item(), ", its exponent in steps of 1/(d/2)"
        words = words.removeprefix("base ").replace(", not scaled", steps)
        if "d/2 − 1" in words:  # then the base is the one in brackets
            words = words.partition("(")[2].removesuffix(f"){steps}")
        found.kind = "code of positions"
        found.answers = {
            "order of the columns": order,
            "base": words,
            "first position": f"{turns.first:g}",
            "size": f"{size:.4g}",
        }
        places = f"torch.arange({queries}) + {turns.first:g}"
        base, size = parameters.get("rope_theta", 0), position.nearest(size, 1e-5)
        calls = [f"rope.sinusoidal({places}, {keys}, {base:g}) * {size:.6g}"]
    elif positions is not None and positions.shape == table.shape:
        found.kind = "buckets of relative positions"
        found.call, found.answers = position.which_buckets(positions, table)
    elif table.dim() == 1:
        found.kind, found.answers = "slopes", {"slopes": "ALiBi's"}
        calls = [f"rope.alibi_slopes({keys})"]
    elif table.dim() in (2, 3):
        table = table.reshape(heads, queries, keys)
        found.answers = position.which_bias(table)
        calls = [f"rope.alibi_bias{tuple(table.shape)}"]
        if not found.answers:
            distance = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
            largest = table[table.abs().amax((1, 2)).argmax()]
            found.call, found.answers = position.which_buckets(distance, largest)
    same = Subject(lambda _: table, torch.float64)
    found.call = found.call or _first_that_agrees(calls, [table], same, 1e-5)
    if not found.answers or (found.kind == "slopes" and not found.call):
        raise ValueError(
            f"{name} is neither a norm nor a position that is known: it returns a table of shape "
            f"{shape}"
        )
    rows = ", ".join(f"{question}: {answer}" for question, answer in found.answers.items())
    found.summary = f"{found.kind}, {rows}"
    found.unlike = "" if found.call else "unlike anything known in course_utils.rope"
    return found


def _name(layer: Any) -> str:
    if isinstance(layer, nn.Module):
        return type(layer).__name__
    return "table" if isinstance(layer, Tensor) else getattr(layer, "__name__", "layer")
