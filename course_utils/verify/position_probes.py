"""What a rotation, a bias or a code of positions computes, asked one question at a time; each
function is a question.

Notation used for tensor shapes: T positions, D dimensions of a head, P pairs, H heads.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from course_utils import rope
from course_utils.verify.subject import Diagnosis, Subject, agree, nearest, normal, share_of

__all__ = ["describe_rotation", "describe_table"]

UNLIKE = "unlike anything known in course_utils.rope"
WINDOWS = [n * 2**k for k in range(7, 19) for n in (2, 3)]  # that a model may be trained on
BASES = (10_000.0, 500_000.0, 1_000_000.0)
RAMPS: dict[str, dict[str, Any]] = {
    "YaRN by {} from a window of {:,} (β 32 and 1)": {"rope_type": "yarn"},
    "YaRN by {} from a window of {:,} (β 32 and 1, ends not rounded)": {
        "rope_type": "yarn",
        "truncate": False,
    },
    "Llama 3 by {} from a window of {:,} (1 to 4 turns)": {
        "rope_type": "llama3",
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}


@dataclass(frozen=True)
class Turns:
    """What a rotation of x of this ``shape`` was seen to do to pairs of columns along an ``axis``
    of positions: ``z`` (T, P) holds the complex numbers that multiply them, ``order`` says which
    column of the output is which of the input."""

    z: Tensor
    pairs: Sequence[tuple[int, int]] = ()
    order: Sequence[int] = ()
    shape: Sequence[int] = ()
    axis: int = 0

    @property
    def steps(self) -> Tensor:
        """From one position to the next, in radians, (T − 1, P)."""
        return torch.angle(self.z[1:] / self.z[:-1])

    @property
    def frequencies(self) -> Tensor:
        """In radians a position, signed, (P,)."""
        return self.steps.mean(0)

    @property
    def first(self) -> float:
        """The position of the first row."""
        return round((torch.angle(self.z[0]) / self.frequencies)[0].item(), 3) + 0.0


def describe_rotation(found: Diagnosis, subject: Subject, x: Tensor) -> None:
    """Ask a rotation every question, and hold the course's own against it."""
    found.kind, found.unlike = "rotation", UNLIKE
    says, shape = found.answers, list(x.shape)
    axis = along_which_axis_are_the_positions(subject, shape)
    shape[axis] = shape[axis] if subject.rest else 64
    says["positions along"] = f"axis {axis} of {len(shape)}"
    turns = which_columns_are_pairs(subject, shape, axis)
    if turns is None:
        raise ValueError(f"{found.name} is linear and turns no pairs of columns by the position")
    pairs, dim, start = len(turns.pairs), shape[-1], turns.pairs[0][0]
    says["layout"] = which_layout_have_the_pairs(turns)
    if turns.order != sorted(turns.order):
        evens = turns.order[::2] == [*range(dim // 2)]
        says["output order"] = "evens, then odds" if evens else "another than the input's"
    says["turns"] = f"{2 * pairs} of {dim}" + f", from column {start} on" * (start > 0)
    found.summary = f"rotary embedding, {says['layout']} layout, {says['turns']} columns, "
    if not do_angles_grow_evenly(turns):
        says["angles"] = which_grid(turns)
        found.summary += f"angles: {says['angles']}"
        return
    signs, f = turns.frequencies.sign(), turns.frequencies.abs()
    says["sign"] = {-pairs: "−", pairs: "+"}.get(int(signs.sum()), "unsure: both")
    says["first position"] = f"{turns.first:g}"
    parameters, says["frequencies"] = which_frequencies(f)
    says["length changes"], tables = does_the_length_change(turns)
    if not subject.rest:
        says |= what_changes_far_away(subject, turns)
    found.summary += says["frequencies"]
    if says["length changes"] != "no":
        found.summary += f", length: {says['length changes']}"
    if "a longer text" in says:
        found.summary += ", other frequencies in a longer text"
    base = parameters.get("rope_theta", BASES[0])
    trained = rope.rope_inv_freq(2 * pairs, base)
    for pair in ((f - trained).abs() > 1e-3 * trained).nonzero().flatten().tolist()[:1]:
        found.unlike += (
            f": from one position to the next pair {pair} turns by {f[pair]:.4g}, where a base of "
            f"{base:,.6g} without scaling gives {trained[pair]:.4g}"
        )
    positions = f"torch.arange(x.shape[{axis}])" + f" + {turns.first:g}" * (turns.first != 0)
    to, back = f".movedim({axis}, -2)", f".movedim(-2, {axis})"
    if axis == len(shape) - 2:
        to = back = ""
    order = ".unflatten(-1, (-1, 2)).mT.flatten(-2)" if "output order" in says else ""
    calls = []
    for table in ("rope.rope_cos_sin({positions}, *{frequencies})", tables):
        text = table.format(
            positions=positions if signs[0] > 0 else f"-({positions})",
            frequencies=f"rope.rope_frequencies({parameters}, {2 * pairs})",
            base=f"{base:g}",
        )
        calls.append(f"rope.apply_rope(x{to}, *{text}, layout={says['layout']!r}){order}{back}")
    found.try_calls(calls, [normal(shape, 11)], subject, 2e-4)


def describe_table(found: Diagnosis, table: Tensor, positions: Tensor | None = None) -> None:
    """Slopes (H,), a code (T, D), a bias (H, Q, K) or (1, H, Q, K), or buckets of positions."""
    probes: dict[str, Callable[[Tensor], tuple[dict[str, str], str]]] = {
        "slopes": are_they_slopes,
        "code of positions": which_code,
        "bias of relative positions": which_bias,
    }
    if positions is not None:
        probes.clear()
    probes["buckets of relative positions"] = partial(which_buckets, positions=positions)
    squeezed = table[0] if table.dim() > 2 and len(table) == 1 else table
    for found.kind, probe in probes.items():
        found.answers, call = probe(squeezed)
        if found.answers:
            break
    else:
        raise ValueError(
            f"{found.name} is neither a norm nor a position that is known: it returns a table of "
            f"shape {tuple(table.shape)}"
        )
    rows = ", ".join(f"{question}: {answer}" for question, answer in found.answers.items())
    found.summary, found.unlike = f"{found.kind}, {rows}", UNLIKE
    if "buckets" in found.kind:  # learned values have the edges alone in common
        found.call, found.unlike = call, ""
    else:
        same = Subject(lambda _: squeezed, torch.float64)
        found.try_calls([call], [squeezed], same, 1e-5)


# -- questions to a rotation


def along_which_axis_are_the_positions(subject: Subject, shape: Sequence[int]) -> int:
    """Ones in: the axis along which they are turned differently."""
    y = subject(torch.ones(tuple(shape)))
    spread = [(y.amax(d) - y.amin(d)).max().item() for d in range(len(shape) - 1)]
    return spread.index(max(spread))


def which_columns_are_pairs(subject: Subject, shape: Sequence[int], axis: int) -> Turns | None:
    """Unit vectors in: each comes back in two columns, its own and its partner's."""
    columns = range(shape[-1])
    matrix = torch.stack([_ones_in([c], subject, shape, axis) for c in columns], -1)
    start, order = matrix[0].abs() > 0.5, [*columns]  # (T, into, from)
    if (start.sum(0) == 1).all() and not start.diagonal().all():
        order = start.float().argmax(0).tolist()  # nothing turns at 0: what is left is an order
        matrix = matrix[:, order]
    others = matrix.abs().amax(0).fill_diagonal_(0)
    partner = others.argmax(0).tolist()
    turning = others.amax(0) > 1e-7
    pairs = [(a, b) for a, b in enumerate(partner) if a < b and turning[a] and partner[b] == a]
    if not pairs or 2 * len(pairs) != turning.sum() or torch.equal(matrix[0], matrix[1]):
        return None
    z = torch.stack([torch.complex(matrix[:, a, a], matrix[:, b, a]) for a, b in pairs], 1)
    return Turns(z, pairs, order, shape, axis)


def _ones_in(columns: Sequence[int], subject: Subject, shape: Sequence[int], axis: int) -> Tensor:
    """What ones in these columns become, (T, D)."""
    x = torch.zeros(*shape)
    x[..., columns] = 1
    return subject(x).movedim(axis, 0).reshape(shape[axis], -1, shape[-1])[:, 0]


def which_layout_have_the_pairs(turns: Turns) -> str:
    """Neighbours, or halves of what turns."""
    gaps = sorted({b - a for a, b in turns.pairs})
    names = {"[1]": "interleaved", f"[{len(turns.pairs)}]": "half"}
    return names.get(str(gaps), f"pairs {gaps} apart")


def how_do_they_turn(subject: Subject, turns: Turns, length: int) -> Turns:
    """All first columns of the pairs at once, at ``length`` positions."""
    shape = [length if d == turns.axis else n for d, n in enumerate(turns.shape)]
    first, second = ([*columns] for columns in zip(*turns.pairs, strict=True))
    y = _ones_in(first, subject, shape, turns.axis)[:, turns.order]
    return replace(turns, z=torch.complex(y[:, first], y[:, second]))


def do_angles_grow_evenly(turns: Turns) -> bool:
    """The same step from each position to the next, in every pair."""
    return bool((turns.steps - turns.frequencies).abs().max() < 1e-3)


def which_grid(turns: Turns) -> str:
    """Where angles are those of rows and columns: how wide the grid is and which pairs turn by
    which."""
    angles = torch.angle(turns.z / turns.z[:1])
    for width in range(2, len(angles) // 2 + 1):
        if len(angles) % width == 0:
            grid = angles.unflatten(0, (-1, width))  # (rows, width, P)
            by_row = (grid - grid[:, :1]).abs().amax((0, 1)) < 1e-4
            by_column = (grid - grid[:1]).abs().amax((0, 1)) < 1e-4
            if (by_row ^ by_column).all() and by_row.any() and by_column.any():
                first = "rows" if by_row[0] else "columns"
                return f"{width} columns wide; {by_row.sum()} pairs by row, {first} first"
    return "unsure: they do not grow evenly with the position"


def which_frequencies(f: Tensor) -> tuple[dict[str, Any], str]:
    """The dictionary of ``rope_frequencies`` that gives f (P,), and what it says in words; empty
    where none was found."""
    pairs = len(f)
    if not f.min() > 0 or pairs < 3:
        return {}, "unsure: too few pairs turn"
    ratios = (f[1:] / f[:-1]).log()
    even = (ratios - ratios.mean()).abs().max() < 2e-3
    ratio, within = (ratios.mean(), 2e-3) if even else (ratios[0], 2e-2)
    base = nearest(math.exp(-ratio.item() * pairs), within, BASES)
    words = f"base {base:,.6g}{_as_others_say_it(base, pairs) if even else ''}"
    slower = nearest(1 / f[0].item(), 1e-3)
    candidates: dict[str, dict[str, Any]] = {
        "not scaled": {},
        f"all frequencies divided by {slower:g} (linear)": {
            "rope_type": "linear",
            "factor": max(slower, 1.0),
        },
    }
    share = f * base ** (torch.arange(pairs) / pairs)  # of the trained frequency
    factor = nearest((share.max() / share.min()).item(), 1e-2)
    for window, (how, ramp) in product([] if even else WINDOWS, RAMPS.items()):
        keys = {**ramp, "factor": factor, "original_max_position_embeddings": window}
        candidates[how.format(f"{factor:g}", window)] = keys
    for how, keys in candidates.items():
        parameters = {**keys, "rope_theta": base}
        expected, _ = rope.rope_frequencies(parameters, 2 * pairs)
        if ((expected - f).abs() < (3e-2 if even else 1e-3) * expected).all():
            return parameters, f"{words}, {how}"
    if (share.diff() > -1e-2).all() and abs(share[0] * factor - 1) < 2e-2:
        how = f"the FAST pairs divided by {factor:g} and the slow ones kept: a ramp upside down"
        return {}, f"{words}, {how}"
    return {}, f"unsure: a factor for each pair, from {share.max():.3g} to {share.min():.3g}"


def _as_others_say_it(base: float, pairs: int) -> str:
    """Whether a base is a known one with an exponent in other steps, or NTK-aware scaling by a
    round factor."""
    for known in BASES:
        factor = (base / known) ** ((pairs - 1) / pairs)
        if abs(factor * known ** (-1 / pairs) - 1) < 2e-3:
            return f" ({known:,.0f}, its exponent in steps of 1/(d/2 − 1))"
        if 1.4 < factor < 100 and abs(2 * factor - round(2 * factor)) < 4e-3:
            return f" ({known:,.0f} with an NTK-aware factor of {round(2 * factor) / 2:g})"
    return ""


def does_the_length_change(turns: Turns) -> tuple[str, str]:
    """Lengths of turned unit vectors: one, one factor for all, or growing with the position
    (xPos); and the course's tables of such a length."""
    lengths = turns.z.abs()
    factor = nearest(lengths.mean().item(), 1e-6)
    if (lengths - factor).abs().max() < 1e-4:
        tables = f"rope.rope_cos_sin({{positions}}, {{frequencies}}[0], {factor:g})"
        return "no" if factor == 1 else f"by {factor:.4f}", tables
    slope = lengths.log().diff(dim=0).mean(0)  # (P,), log ζ / scale base
    log_zeta = ((torch.arange(len(slope)) / len(slope) + 0.4) / 1.4).log().double()
    power = share_of(log_zeta, slope)
    if (slope - log_zeta * power).abs().max() > 1e-3 * slope.abs().max():
        return "unsure: by pair or position, and not as xPos prints it", ""
    scale, keys = nearest(abs(1 / power), 1e-3), power < 0
    centre = round(-(lengths[0, 0].log() / slope[0]).item(), 1) + 0.0
    middle = f"x.shape[{turns.axis}] // 2" if centre == len(lengths) // 2 else f"{centre:g}"
    return (
        f"with the position: xPos for {'keys' if keys else 'queries'}, scale base {scale:g}, 1 at "
        f"position {centre:g}",
        f"rope.xpos_cos_sin({{positions}}, {2 * len(slope)}, base={{base}}, keys={keys}, "
        f"centre={middle}, scale_base={scale:g})",
    )


def what_changes_far_away(subject: Subject, turns: Turns) -> dict[str, str]:
    """Other dtypes, one object called twice, and a longer text. The call in bfloat16 comes first: a
    table that float32 has filled would hide what it does."""

    def errors(far: Turns, frequencies: Tensor) -> Tensor:
        angles = (torch.arange(len(far.z)) + turns.first)[:, None] * frequencies
        return torch.angle(far.z / torch.polar(torch.ones_like(angles), angles)).abs()

    def wrong(probe: Subject, dtype: torch.dtype, length: int) -> str:
        probe.dtype = dtype
        try:
            far = how_do_they_turn(probe, turns, length)
        except Exception as error:
            return f"raises {type(error).__name__}"
        off = errors(far, turns.frequencies)[:1024, 0].max()
        return f"wrong by up to {off:.1g} rad" if off > 0.03 else ""

    one_object = subject.fresh(torch.float32)
    for length in (4096, 1024, 256):
        half = wrong(one_object, torch.bfloat16, length)
        after = wrong(one_object, torch.float32, length)
        if not after.startswith("raises"):
            break
    else:
        return {"angles": "unsure: no text of 256 positions runs"}
    rows, far = f"{length:,} positions", how_do_they_turn(subject.fresh(), turns, length)
    near = far.steps[:63].mean(0)
    if not after and (near - turns.frequencies).abs().max() > 1e-4 * turns.frequencies.abs().max():
        return {"a longer text": f"has other frequencies at {rows}"}
    says = {
        "bfloat16 queries": half or "turn by the same angles",
        "float32 after bfloat16, one object": after or "as before",
    }
    if subject.buffers:
        cast = wrong(subject.fresh(torch.bfloat16), torch.bfloat16, length)
        says["the module in bfloat16"] = cast or "turns by the same angles"
    if subject.buffers or not after:  # else there is no other object to ask
        off = errors(far, far.frequencies).max().item()
        kind = "exact" if off < 3e-6 else "float32 products" if off < 0.01 else "unsure: not even"
        says["angles"] = f"{kind}, off by {off:.0e} within {rows}"
    return says


# -- questions to a table: the answers, and a call of the course's


def are_they_slopes(table: Tensor) -> tuple[dict[str, str], str]:
    """ALiBi's, one of each head?"""
    known = table.dim() == 1 and agree(rope.alibi_slopes(len(table)), table, 1e-5)
    return {"slopes": "ALiBi's"} if known else {}, f"rope.alibi_slopes({len(table)})"


def which_code(table: Tensor) -> tuple[dict[str, str], str]:
    """Sines and cosines (T, D): turns of which frequencies, in which order of the columns?"""
    if table.dim() != 2 or table.shape[1] % 2:
        return {}, ""
    neighbours, halves = table.unflatten(1, (-1, 2)), table.unflatten(1, (2, -1)).mT  # (T, P, 2)
    orders = {
        "sin and cos interleaved": neighbours,
        "cos and sin interleaved": neighbours.flip(-1),
        "sines, then cosines": halves,
        "cosines, then sines": halves.flip(-1),
    }
    for order, columns in orders.items():  # noqa: B007
        turns = Turns(torch.complex(columns[..., 1], columns[..., 0]))
        # sines for cosines turn the other way
        if do_angles_grow_evenly(turns) and turns.frequencies[0] > 0:
            break
    else:
        return {}, ""
    parameters, words = which_frequencies(turns.frequencies)
    size = nearest(turns.z.abs().mean().item(), 1e-5)
    answers = {
        "order of the columns": order,
        "frequencies": words,
        "first position": f"{turns.first:g}",
        "size": f"{size:.4g}",
    }
    places, base = f"torch.arange({len(table)}) + {turns.first:g}", parameters.get("rope_theta", 0)
    return answers, f"rope.sinusoidal({places}, {table.shape[1]}, {base:g}) * {size:.6g}"


def which_bias(table: Tensor) -> tuple[dict[str, str], str]:
    """Added to scores (H, Q, K): do its rows grow evenly, as ALiBi's do?"""
    if table.dim() not in (2, 3):
        return {}, ""
    table = table.reshape(-1, *table.shape[-2:])
    last = table[:, -1, 1:].diff(dim=1)  # the last query sees every key behind it
    slopes = last.mean(1, keepdim=True)
    if not (last - slopes).abs().max() < 1e-4 * slopes.abs().max():
        return {}, ""
    by_key = (table - table[:, -1:]).abs().nan_to_num(0, 0, 0).max() < 1e-6
    known = agree(rope.alibi_slopes(len(table)), slopes[:, 0], 1e-4)
    few = ", ".join(f"{slope:.3g}" for slope in slopes[:4, 0].tolist())
    answers = {
        "grows": "with the key alone" if by_key else "with the distance",
        "slopes": "ALiBi's" if known else f"unsure: {few}",
    }
    return answers, f"rope.alibi_bias{tuple(table.shape)}"


def which_buckets(table: Tensor, positions: Tensor | None) -> tuple[dict[str, str], str]:
    """Values of relative positions, or numbers of buckets: where T5's change, do they?"""
    if positions is None and table.dim() in (2, 3):
        queries, keys = table.shape[-2:]
        positions = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
        table = table.reshape(-1, queries, keys)
        table = table[table.abs().amax((1, 2)).argmax()]  # of a head that has learned something
    if positions is None or positions.shape != table.shape:
        return {}, ""
    order = positions.flatten().argsort(stable=True)
    distance, changes = positions.flatten()[order], table.flatten()[order].diff() != 0
    sizes = product((True, False), (32, 16, 64, 8, 128, 320), (128, 64, 256, 512, 800, 20, 32))
    for both, buckets, limit in sizes:
        if limit > buckets // (4 if both else 2):
            edges = rope.t5_relative_bucket(distance, both, buckets, limit).diff() != 0
            if edges.any() and torch.equal(edges, changes):
                furthest = int(distance.abs().max())
                unseen = f"unsure: only {furthest} positions seen"
                return {
                    "directions": "both" if both else "keys behind the query alone",
                    "buckets": f"{buckets}, as T5 has them",
                    "last bucket from": unseen if furthest < limit else f"{limit}",
                }, f"rope.t5_relative_bucket(relative_position, {both}, {buckets}, {limit})"
    return {}, ""
