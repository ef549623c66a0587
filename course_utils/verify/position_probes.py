"""What a rotation, a bias or a code of positions computes, asked one question at a time; each
function is a question.

Notation used for tensor shapes: T positions, D dimensions of a head, P pairs, H heads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils import rope
from course_utils.verify.subject import Subject

__all__ = ["Turns"]

WINDOWS = [
    n * 2**k for k in range(7, 19) for n in (1, 1.5)
]  # that a model may have been trained on
BASES = (10_000.0, 500_000.0, 1_000_000.0)


@dataclass(frozen=True)
class Turns:
    """What a rotation was seen to do: which columns are pairs, and by how much each turns.

    ``frequencies`` (P,) are in radians a position, signed; ``lengths`` (T, P) what a unit vector
    becomes; ``order`` is that of the output's columns, where it is another.
    """

    axis: int
    dim: int
    pairs: list[tuple[int, int]]
    z: Tensor
    order: list[int] | None = None

    @property
    def steps(self) -> Tensor:
        """From one position to the next, (T − 1, P)."""
        return torch.angle(self.z[1:] / self.z[:-1])

    @property
    def frequencies(self) -> Tensor:
        return self.steps.mean(0)

    @property
    def layout(self) -> str:
        gaps = {b - a for a, b in self.pairs}
        if gaps == {1}:
            return "interleaved"
        return "half" if gaps == {len(self.pairs)} else f"pairs {sorted(gaps)} apart"


def along_which_axis_are_the_positions(subject: Subject, shape: Sequence[int]) -> int | None:
    """Ones in: the axis along which they are turned differently."""
    y = subject(torch.ones(tuple(shape)).double())
    spread = [(y.amax(d) - y.amin(d)).max().item() for d in range(len(shape) - 1)]
    return spread.index(max(spread)) if max(spread) > 1e-6 else None


def which_columns_are_pairs(subject: Subject, shape: Sequence[int], axis: int) -> Turns | None:
    """Unit vectors in, one column at a time: each comes back in two columns, its own and its
    partner's."""
    units = torch.eye(shape[-1], dtype=torch.float64)
    others = [d for d in range(len(shape) - 1) if d != axis]
    if others:  # all of them in one call, along an axis that nothing depends on
        sizes = [shape[-1] if d == others[0] else n for d, n in enumerate(shape)]
        aligned = units.reshape(
            [n if d in (others[0], len(shape) - 1) else 1 for d, n in enumerate(sizes)]
        )
        y = subject(aligned.expand(sizes)).movedim((axis, others[0]), (0, 1))
        matrix = y.reshape(*y.shape[:2], -1, shape[-1])[:, :, 0].mT  # (T, into, from)
    else:
        columns = [subject(unit.expand(tuple(shape))) for unit in units]
        matrix = torch.stack([y.movedim(axis, 0).flatten(1) for y in columns], -1)
    start, order = matrix[0].abs() > 0.5, None
    if (start.sum(0) == 1).all() and not start.diagonal().all():
        order = start.float().argmax(0).tolist()  # nothing turns at 0: what is left is an order
        matrix = matrix[:, order]
    seen = matrix.abs().amax(0)
    partner = seen.clone().fill_diagonal_(0).argmax(0).tolist()
    turning = seen.clone().fill_diagonal_(0).amax(0) > 1e-7
    pairs = [(a, b) for a, b in enumerate(partner) if a < b and turning[a] and partner[b] == a]
    if not pairs or 2 * len(pairs) != turning.sum():
        return None
    z = torch.stack([torch.complex(matrix[:, a, a], matrix[:, b, a]) for a, b in pairs], 1)
    return Turns(axis, shape[-1], pairs, z, order)


def how_do_they_turn(subject: Subject, shape: Sequence[int], turns: Turns, length: int) -> Tensor:
    """All first columns of the pairs at once, at ``length`` positions: (length, P), complex."""
    longer = [length if d == turns.axis else n for d, n in enumerate(shape)]
    x = torch.zeros(longer).double()
    x[..., [a for a, _ in turns.pairs]] = 1
    y = subject(x).movedim(turns.axis, 0).reshape(length, -1, turns.dim)[:, 0]
    y = y if turns.order is None else y[:, turns.order]
    return torch.complex(*(y[:, list(columns)] for columns in zip(*turns.pairs, strict=True)))


def do_angles_grow_evenly(turns: Turns) -> bool:
    """The same step from each position to the next, in every pair."""
    return bool((turns.steps - turns.frequencies).abs().max() < 1e-3)


def which_grid(turns: Turns) -> str | None:
    """Where angles are those of rows and columns: how wide the grid is and which pairs turn by
    which."""
    angles = torch.angle(turns.z / turns.z[:1])
    for width in range(2, len(angles) // 2 + 1):
        if len(angles) % width:
            continue
        grid = angles.unflatten(0, (-1, width))  # (rows, width, P)
        by_row = (grid - grid[:, :1]).abs().amax((0, 1)) < 1e-4
        by_column = (grid - grid[:1]).abs().amax((0, 1)) < 1e-4
        if (by_row ^ by_column).all() and by_row.any() and by_column.any():
            first = "rows" if by_row[0] else "columns"
            return f"{width} columns wide; {by_row.sum()} pairs by row, {first} first"
    return None


def which_rope_parameters(frequencies: Tensor, dim: int) -> tuple[dict[str, Any] | None, str]:
    """The dictionary of ``rope_frequencies`` that gives these (P,), and what it says in words; None
    where none was found."""
    f, pairs = frequencies.abs(), len(frequencies)
    partial = {} if 2 * pairs == dim else {"partial_rotary_factor": 2 * pairs / dim}
    if not f.min() > 0 or pairs < 3:
        return None, "unsure: too few pairs turn"
    index = torch.arange(pairs, dtype=torch.float64)
    ratios = (f[1:] / f[:-1]).log()
    if (ratios - ratios.mean()).abs().max() < 2e-3:
        base = _near(math.exp(-ratios.mean().item() * pairs), 2e-3)
        factor = _near(1 / f[0].item(), 1e-3)
        words = f"base {base:,.6g}{_by_ntk(base, 2 * pairs)}"
        if factor == 1:
            return {"rope_theta": base, **partial}, f"{words}, not scaled"
        linear = {"rope_type": "linear", "factor": factor, "rope_theta": base, **partial}
        if factor < 1:
            return None, f"{words}, all frequencies times {f[0]:.4g}"
        return linear, f"{words}, all frequencies divided by {factor:g} (linear)"
    base = _near(math.exp(-ratios[0].item() * pairs), 2e-2)
    share = f * base ** (index / pairs)  # of the trained frequency
    factor = _near((share.max() / share.min()).item(), 1e-2)
    falls, rises = (share.diff() < 1e-2).all(), (share.diff() > -1e-2).all()
    if rises and not falls and abs(share[0] * factor - 1) < 2e-2:
        return None, (
            f"base {base:,.6g}, the FAST pairs divided by {factor:g} and the slow ones kept: a "
            "ramp upside down"
        )
    common = {"factor": factor, "rope_theta": base, **partial}
    if falls and abs(share[0] - 1) < 1e-2:
        for window in WINDOWS:
            common["original_max_position_embeddings"] = int(window)
            for kind, keys, how in (
                ("yarn", {"truncate": True}, "β 32 and 1"),
                ("yarn", {"truncate": False}, "β 32 and 1, ends not rounded"),
                ("llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, "1 to 4 turns"),
            ):
                parameters = {"rope_type": kind, **common, **keys}
                expected, _ = rope.rope_frequencies(parameters, dim)
                if ((expected - f).abs() < 1e-3 * expected).all():
                    name = {"yarn": "YaRN", "llama3": "Llama 3"}[kind]
                    return parameters, (
                        f"base {base:,.6g}, {name} by {factor:g} from a window of {window:,.0f} "
                        f"({how})"
                    )
    return None, (
        "unsure: a factor for each pair, from "
        f"{share.max():.3g} to {share.min():.3g} if the base is {base:,.6g}"
    )


def does_the_length_change(turns: Turns) -> tuple[float, str]:
    """Lengths of turned unit vectors: one, one factor for all, or growing with the position
    (xPos)."""
    lengths = turns.z.abs()
    if (lengths - lengths[:1]).abs().max() < 1e-4:
        factor = _near(lengths.mean().item(), 1e-6)
        even = (lengths - factor).abs().max() < 1e-4
        return factor, "no" if factor == 1 else f"by {factor:.4f}" if even else "unsure: by pair"
    slope = lengths.log().diff(dim=0).mean(0)  # (P,), log ζ / scale base
    i = torch.arange(len(slope), dtype=torch.float64) / len(slope)
    printed = ((i + 0.4) / 1.4).log()
    scale = (slope[0] / printed[0]).item()
    if (slope - printed * scale).abs().max() < 1e-3 * slope.abs().max():
        middle = -(lengths[0, 0].log() / slope[0]).item()
        of = "queries" if scale > 0 else "keys"
        return math.nan, (
            f"with the position: xPos for {of}, scale base {abs(1 / scale):.4g}, 1 at position "
            f"{_near(middle, 1e-2):g}"
        )
    return math.nan, "unsure: with the position, and not as xPos prints it"


def how_far_is_it_from(z: Tensor, frequencies: Tensor, first: float) -> Tensor:
    """The error of each angle against float64, (T, P), for these frequencies."""
    positions = torch.arange(len(z), dtype=torch.float64) + first
    angles = positions[:, None] * frequencies
    return torch.angle(z * torch.polar(torch.ones_like(angles), -angles)).abs()


def which_code(table: Tensor) -> tuple[str | None, list[tuple[str, str]]]:
    """A table (T, D) of sines and cosines: their order, wavelengths, first position and size."""
    half = table.shape[-1] // 2
    orders = {
        "sin and cos interleaved": (table[:, 1::2], table[:, 0::2]),
        "cos and sin interleaved": (table[:, 0::2], table[:, 1::2]),
        "sines, then cosines": (table[:, half:], table[:, :half]),
        "cosines, then sines": (table[:, :half], table[:, half:]),
    }
    for order, (cosines, sines) in orders.items():
        if cosines.shape != sines.shape:
            return None, []
        z = torch.complex(cosines, sines)
        steps = torch.angle(z[1:] / z[:-1])
        even = (z.abs() - z.abs().mean()).abs().max() < 1e-3 * z.abs().mean()
        # sines for cosines turn the other way
        if not even or (steps - steps.mean(0)).abs().max() > 1e-3 or steps[:, 0].mean() < 0:
            continue
        f, size = steps.mean(0), _near(z.abs().mean().item(), 1e-5)
        first = _near((torch.angle(z[0]) / f)[0].item(), 1e-3)
        slope = (f[1] / f[0]).log().item()
        bases = {
            "d/2": _near(math.exp(-slope * half), 2e-3),
            "d/2 − 1": _near(math.exp(-slope * (half - 1)), 2e-3),
        }
        steps_of = "d/2 − 1" if bases["d/2 − 1"] in BASES else "d/2"
        rows = [
            ("order of the columns", order),
            ("base", f"{bases[steps_of]:,.6g}, its exponent in steps of 1/({steps_of})"),
            ("first position", f"{first:g}"),
            ("size", f"{size:g}" if size == 1 else f"{size:.4g}"),
        ]
        known = order == "sin and cos interleaved" and steps_of == "d/2"
        call = f"rope.sinusoidal(torch.arange({len(table)}) + {first:g}, {2 * half}, "
        call += f"{bases['d/2']:g}) * {size:.6g}"
        return (call if known else None), rows
    return None, []


def which_bias(table: Tensor) -> tuple[str | None, list[tuple[str, str]]]:
    """A table (H, Q, K) that is added to scores: slopes of ALiBi, or T5's buckets."""
    heads, queries, keys = table.shape
    last = table[:, -1]  # the last query sees every key behind it
    slopes = last[:, 1:].diff(dim=1).mean(1) if keys > 2 else last[:, 0]
    straight = (last[:, 1:].diff(dim=1) - slopes[:, None]).abs().max() < 1e-4 * slopes.abs().max()
    if straight and slopes.abs().max() > 0:
        known = torch.allclose(slopes, rope.alibi_slopes(heads).double(), rtol=1e-4)
        by_key = (table - table[:, -1:]).abs().nan_to_num(0, 0, 0).max() < 1e-6
        exact = rope.alibi_bias(heads, queries, keys).double() if queries <= keys else table + 1
        seen = table.isfinite()
        same = known and (table - exact)[seen].abs().max() < 1e-6
        rows = [
            ("grows", "with the key alone" if by_key else "with the distance"),
            ("slopes", "ALiBi's" if known else "unsure: " + _few(slopes)),
        ]
        return (f"rope.alibi_bias({heads}, {queries}, {keys})" if same else None), rows
    distance = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    values = table[table.abs().amax((1, 2)).argmax()]
    return which_buckets(distance, values)


def which_buckets(distance: Tensor, values: Tensor) -> tuple[str | None, list[tuple[str, str]]]:
    """Values of relative positions, or numbers of buckets: where T5's change, do they?"""
    order = distance.flatten().argsort(stable=True)
    distance, values = distance.flatten()[order], values.flatten()[order]
    furthest = int(distance.abs().max())
    for bidirectional in (True, False):
        for buckets in (32, 16, 64, 8, 128, 320):
            for limit in (128, 64, 256, 512, 800, 20, 32):
                if limit <= buckets // (4 if bidirectional else 2):
                    continue
                number = rope.t5_relative_bucket(distance, bidirectional, buckets, limit)
                edges = number.diff() != 0
                if torch.equal(edges, values.diff() != 0) and edges.any():
                    call = (
                        "rope.t5_relative_bucket(relative_position, "
                        f"{bidirectional}, {buckets}, {limit})"
                    )
                    rows = [
                        ("directions", "both" if bidirectional else "keys behind the query alone"),
                        ("buckets", f"{buckets}, as T5 has them"),
                        ("last bucket from", f"{limit}"),
                    ]
                    if furthest < limit:
                        rows[2] = ("last bucket from", f"unsure: only {furthest} positions seen")
                    return call, rows
    return None, []


def _near(value: float, tolerance: float) -> float:
    """A known base, or the roundest number within a share of ``tolerance``; the value itself where
    none is round."""
    for base in BASES:
        if abs(value / base - 1) < tolerance:
            return base
    for digits in range(4):
        rounded = float(f"{value:.{digits}e}")
        if abs(rounded - value) <= tolerance * max(abs(value), 1e-3) * 10**-digits:
            return rounded
    return value


def _by_ntk(base: float, dim: int) -> str:
    """Whether a base is a known one with NTK-aware scaling by a round factor."""
    for known in BASES:
        factor = (base / known) ** ((dim - 2) / dim)
        if 1.4 < factor < 100 and abs(2 * factor - round(2 * factor)) < 4e-3:
            return f" ({known:,.0f} with an NTK-aware factor of {round(2 * factor) / 2:g})"
    return ""


def _few(values: Tensor) -> str:
    return ", ".join(f"{value:.3g}" for value in values[:4].tolist())
