"""What a rotation, a bias or a code of positions computes, asked one question at a time; each
function is a question.

Notation used for tensor shapes: T positions, D dimensions of a head, P pairs, H heads.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from course_utils import rope
from course_utils.verify.subject import Subject, share_of

__all__ = ["Turns", "nearest"]

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
    """What a rotation was seen to do to pairs of columns: ``z`` (T, P) holds the complex numbers
    that multiply them; ``order`` is that of the output's columns, where it is another."""

    z: Tensor
    pairs: list[tuple[int, int]]
    axis: int = 0
    order: list[int] | None = None

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
        return nearest((torch.angle(self.z[0]) / self.frequencies)[0].item(), 1e-3)

    def errors(self, frequencies: Tensor, first: float) -> Tensor:
        """Of each angle against float64, for these frequencies."""
        positions = torch.arange(len(self.z), dtype=torch.float64) + first
        exact = torch.polar(torch.ones_like(self.z.real), positions[:, None] * frequencies)
        return torch.angle(self.z / exact).abs()


def along_which_axis_are_the_positions(subject: Subject, shape: Sequence[int]) -> int | None:
    """Ones in: the axis along which they are turned differently."""
    y = subject(torch.ones(tuple(shape)))
    spread = [(y.amax(d) - y.amin(d)).max().item() for d in range(len(shape) - 1)]
    return spread.index(max(spread)) if max(spread) > 1e-6 else None


def which_columns_are_pairs(subject: Subject, shape: Sequence[int], axis: int) -> Turns | None:
    """Unit vectors in, one a head: each comes back in two columns, its own and its partner's."""
    heads = [n for d, n in enumerate(shape[:-1]) if d != axis]
    columns = []
    for units in torch.eye(shape[-1]).split(math.prod(heads)):
        x = torch.zeros(shape[axis], math.prod(heads), shape[-1])
        x[:, : len(units)] = units
        y = subject(x.unflatten(1, heads or (1,)).movedim(0, axis).reshape(*shape))
        columns.append(y.movedim(axis, 0).reshape(x.shape)[:, : len(units)])
    matrix = torch.cat(columns, 1).mT  # (T, into, from)
    start, order = matrix[0].abs() > 0.5, None
    if (start.sum(0) == 1).all() and not start.diagonal().all():
        order = start.float().argmax(0).tolist()  # nothing turns at 0: what is left is an order
        matrix = matrix[:, order]
    others = matrix.abs().amax(0).fill_diagonal_(0)
    partner = others.argmax(0).tolist()
    turning = others.amax(0) > 1e-7
    pairs = [(a, b) for a, b in enumerate(partner) if a < b and turning[a] and partner[b] == a]
    if not pairs or 2 * len(pairs) != turning.sum():
        return None
    z = torch.stack([torch.complex(matrix[:, a, a], matrix[:, b, a]) for a, b in pairs], 1)
    return Turns(z, pairs, axis, order)


def which_layout_have_the_pairs(turns: Turns) -> str:
    """Neighbours, or halves of what turns."""
    gaps = sorted({b - a for a, b in turns.pairs})
    names = {"[1]": "interleaved", f"[{len(turns.pairs)}]": "half"}
    return names.get(str(gaps), f"pairs {gaps} apart")


def how_do_they_turn(subject: Subject, shape: Sequence[int], turns: Turns, length: int) -> Turns:
    """All first columns of the pairs at once, at ``length`` positions."""
    x = torch.zeros([length if d == turns.axis else n for d, n in enumerate(shape)])
    x[..., [a for a, _ in turns.pairs]] = 1
    y = subject(x).movedim(turns.axis, 0).reshape(length, -1, x.shape[-1])
    y = y[:, 0, turns.order or slice(None)]
    z = torch.complex(*(y[:, list(columns)] for columns in zip(*turns.pairs, strict=True)))
    return Turns(z, turns.pairs)


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


def which_frequencies(f: Tensor, dim: int) -> tuple[dict[str, Any], str]:
    """The dictionary of ``rope_frequencies`` that gives f (P,), and what it says in words; empty
    where none was found."""
    pairs = len(f)
    if not f.min() > 0 or pairs < 3:
        return {}, "unsure: too few pairs turn"
    ratios = (f[1:] / f[:-1]).log()
    even = (ratios - ratios.mean()).abs().max() < 2e-3
    ratio, tolerance = (ratios.mean(), 2e-3) if even else (ratios[0], 2e-2)
    base = nearest(math.exp(-ratio.item() * pairs), tolerance)
    share = f * base ** (torch.arange(pairs) / pairs)  # of the trained frequency
    factor = nearest((share.max() / share.min()).item(), 1e-2)
    words = f"base {base:,.6g}{_as_others_say_it(base, pairs) if even else ''}"
    slower = nearest(1 / f[0].item(), 1e-3)
    candidates: list[tuple[str, dict[str, Any]]] = [
        ("not scaled", {}),
        (
            f"all frequencies divided by {slower:g} (linear)",
            {"rope_type": "linear", "factor": max(slower, 1.0)},
        ),
    ]
    for window, (how, ramp) in product([] if even else WINDOWS, RAMPS.items()):
        keys = {**ramp, "factor": factor, "original_max_position_embeddings": window}
        candidates.append((how.format(f"{factor:g}", window), keys))
    for how, keys in candidates:
        parameters = {**keys, "rope_theta": base}
        if 2 * pairs != dim:
            parameters["partial_rotary_factor"] = 2 * pairs / dim
        expected, _ = rope.rope_frequencies(parameters, dim)
        if ((expected - f).abs() < (3e-2 if even else 1e-3) * expected).all():
            return parameters, f"{words}, {how}"
    if even:
        return {}, f"{words}, all frequencies times {f[0]:.4g}"
    if (share.diff() > -1e-2).all() and abs(share[0] * factor - 1) < 2e-2:
        how = f"the FAST pairs divided by {factor:g} and the slow ones kept: a ramp upside down"
        return {}, f"{words}, {how}"
    return {}, f"unsure: a factor for each pair, from {share.max():.3g} to {share.min():.3g}"


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
    centre = nearest(-(lengths[0, 0].log() / slope[0]).item(), 1e-2)
    middle = f"x.shape[{turns.axis}] // 2" if centre == len(lengths) // 2 else f"{centre:g}"
    return (
        f"with the position: xPos for {'keys' if keys else 'queries'}, scale base {scale:g}, 1 at "
        f"position {centre:g}",
        f"rope.xpos_cos_sin({{positions}}, {2 * len(slope)}, base={{base}}, keys={keys}, "
        f"centre={middle}, scale_base={scale:g})",
    )


def what_changes_far_away(subject: Subject, shape: Sequence[int], turns: Turns) -> dict[str, str]:
    """Other dtypes, one object called twice, and a longer text. The call in bfloat16 comes first: a
    table that float32 has filled would hide what it does."""
    frequencies, first = turns.frequencies, turns.first

    def wrong(probe: Subject, queries: torch.dtype, length: int) -> str:
        probe.dtype = queries
        try:
            far = how_do_they_turn(probe, shape, turns, length)
        except Exception as error:
            return f"raises {type(error).__name__}"
        off = far.errors(frequencies, first)[:, 0].max()
        return f"wrong by up to {off:.1g} rad" if off > 0.03 else ""

    one_object = subject.fresh(torch.float32)
    for length in (1024, 256):
        half, after = (
            wrong(one_object, dtype, length) for dtype in (torch.bfloat16, torch.float32)
        )
        if not after.startswith("raises"):
            break
    far = turns
    for longer in (length, 4096):
        with contextlib.suppress(Exception):
            far = how_do_they_turn(subject.fresh(), shape, turns, longer)
    rows = f"{len(far.z):,} positions"
    if far is turns:
        return {"angles": f"unsure: no text longer than {rows} runs"}
    near = far.steps[:63].mean(0)
    if not after and (near - frequencies).abs().max() > 1e-4 * frequencies.abs().max():
        return {"a longer text": f"has other frequencies at {rows}"}
    says = {
        "bfloat16 queries": half or "turn by the same angles",
        "float32 after bfloat16, one object": after or "as before",
    }
    if subject.buffers:
        cast = wrong(subject.fresh(torch.bfloat16), torch.bfloat16, length)
        says["the module in bfloat16"] = cast or "turns by the same angles"
    if subject.buffers or not after:  # else there is no other object to ask
        off = far.errors(far.frequencies, first).max().item()
        kind = "exact" if off < 3e-6 else "float32 products" if off < 0.01 else "unsure: not even"
        says["angles"] = f"{kind}, off by {off:.0e} within {rows}"
    return says


def which_code(table: Tensor) -> tuple[Turns | None, str]:
    """A table (T, D) of sines and cosines as turns, and the order of its columns."""
    half = table.shape[-1] // 2
    orders = {
        "sin and cos interleaved": (table[:, 1::2], table[:, 0::2]),
        "cos and sin interleaved": (table[:, 0::2], table[:, 1::2]),
        "sines, then cosines": (table[:, half:], table[:, :half]),
        "cosines, then sines": (table[:, :half], table[:, half:]),
    }
    for order, (cosines, sines) in orders.items():
        if cosines.shape == sines.shape:
            turns = Turns(torch.complex(cosines, sines), [])
            # sines for cosines turn the other way
            if do_angles_grow_evenly(turns) and turns.frequencies[0] > 0:
                return turns, order
    return None, ""


def which_bias(table: Tensor) -> dict[str, str]:
    """A table (H, Q, K) that is added to scores: do its rows grow evenly, as ALiBi's do?"""
    last = table[:, -1, 1:].diff(dim=1)  # the last query sees every key behind it
    slopes = last.mean(1)
    if not (last - slopes[:, None]).abs().max() < 1e-4 * slopes.abs().max():
        return {}
    by_key = (table - table[:, -1:]).abs().nan_to_num(0, 0, 0).max() < 1e-6
    known = torch.allclose(slopes, rope.alibi_slopes(len(table)).double(), rtol=1e-4)
    few = ", ".join(f"{slope:.3g}" for slope in slopes[:4].tolist())
    return {
        "grows": "with the key alone" if by_key else "with the distance",
        "slopes": "ALiBi's" if known else f"unsure: {few}",
    }


def which_buckets(distance: Tensor, values: Tensor) -> tuple[str | None, dict[str, str]]:
    """Values of relative positions, or numbers of buckets: where T5's change, do they?"""
    order = distance.flatten().argsort(stable=True)
    distance, values = distance.flatten()[order], values.flatten()[order]
    sizes = product((True, False), (32, 16, 64, 8, 128, 320), (128, 64, 256, 512, 800, 20, 32))
    for both, buckets, limit in sizes:
        if limit > buckets // (4 if both else 2):
            number = rope.t5_relative_bucket(distance, both, buckets, limit)
            edges = number.diff() != 0
            if edges.any() and torch.equal(edges, values.diff() != 0):
                furthest = int(distance.abs().max())
                unseen = f"unsure: only {furthest} positions seen"
                return f"rope.t5_relative_bucket(relative_position, {both}, {buckets}, {limit})", {
                    "directions": "both" if both else "keys behind the query alone",
                    "buckets": f"{buckets}, as T5 has them",
                    "last bucket from": unseen if furthest < limit else f"{limit}",
                }
    return None, {}


def nearest(value: float, tolerance: float) -> float:
    """A known base, or the roundest number within a share of ``tolerance``; the value itself where
    none is round."""
    rounded = [(float(f"{value:.{digits}e}"), 10**-digits) for digits in range(4)]
    for candidate, share in [*((base, 1.0) for base in BASES), *rounded]:
        if abs(candidate - value) <= tolerance * max(abs(value), 1e-3) * share:
            return candidate
    return value


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
