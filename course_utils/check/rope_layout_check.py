"""The check of the permutation between the rotary layouts: which rows of a projection move where."""

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.rope import rotation as positions

__all__ = ["half_to_interleaved"]

MISTAKES = Catalogue()


def _in_heads(weight: Tensor, num_heads: int, *grid: int) -> Tensor:
    return weight.reshape(num_heads, *grid, weight.shape[-1])


@MISTAKES.mistake(
    title="nothing moves",
    wrong="The rows come out in the order in which they went in.",
    matters="A view that splits the rows and a view that joins them again undo each other; in between something has to "
    "be transposed.",
    hint="For one head of four rows 0 1 2 3: in which order should they come out?",
)
def unchanged(weight, num_heads):
    return weight.clone()


@MISTAKES.mistake(
    title="the way back",
    wrong="It is the opposite permutation: from interleaved to half.",
    matters="Each of the two undoes the other. Applied to weights of the half layout, the opposite one mixes the pairs "
    "further.",
    hint="Rows 0 and d/2 of a head are a pair in the half layout. At which rows should they come out?",
)
def way_back(weight, num_heads):
    return _in_heads(weight, num_heads, weight.shape[0] // num_heads // 2, 2).transpose(1, 2).reshape(weight.shape)


@MISTAKES.mistake(
    title="the heads are not kept apart",
    wrong="It permutes all rows at once, as if there were one head.",
    matters="A pair then consists of rows from two different heads, and every head gets rows of others.",
    hint="With two heads of four rows, which row is the partner of row 0: row 2 or row 4?",
)
def one_head(weight, num_heads):
    return _in_heads(weight, 1, 2, weight.shape[0] // 2).transpose(1, 2).reshape(weight.shape)


@MISTAKES.mistake(
    title="heads innermost",
    wrong="It splits the rows as if neighbouring rows belonged to different heads.",
    matters="The rows of a head follow each other: the heads are the outermost part of the row's number.",
    hint="In which order do you name the parts in your view: which one changes slowest from row to row?",
)
def heads_innermost(weight, num_heads):
    grid = weight.reshape(2, -1, num_heads, weight.shape[-1])
    return grid.permute(2, 1, 0, 3).reshape(weight.shape)


@MISTAKES.mistake(
    title="the columns are permuted",
    wrong="It reorders the columns of the weight, not its rows.",
    matters="A row makes one entry of the query; a column takes one feature of the input, which has no pairs.",
    hint="The projection is x Wᵀ. Which index of W numbers the entries of the query?",
)
def columns(weight, num_heads):
    return positions.half_to_interleaved(weight.T, num_heads).T.contiguous()


@MISTAKES.mistake(
    title="the halves are exchanged",
    wrong="The second half of each head comes first, and the rows keep their order inside the halves.",
    matters="The partners are still d/2 apart: it is the half layout still, turned the other way.",
    hint="How far apart are the two rows of a pair after your permutation?",
)
def halves_exchanged(weight, num_heads):
    return _in_heads(weight, num_heads, 2, weight.shape[0] // num_heads // 2).flip(1).reshape(weight.shape)


@MISTAKES.mistake(
    title="the two of a pair are exchanged",
    wrong="The partners come together, but the second one stands first.",
    matters="An exchanged pair turns the other way, and the scores become those of the opposite distance.",
    hint="For one head of four rows 0 1 2 3: is it 0 2 1 3, or 2 0 3 1?",
)
def partners_exchanged(weight, num_heads):
    grid = _in_heads(weight, num_heads, 2, weight.shape[0] // num_heads // 2)
    return grid.flip(1).transpose(1, 2).reshape(weight.shape)


def _half_to_interleaved(weight, num_heads):
    return positions.half_to_interleaved(weight, num_heads)


def _rows(name: str, weight: Tensor, num_heads: int) -> Probe:
    # A row says where it came from by its first entry; square weights let a permutation of the columns run through.
    numbered = weight.clone()
    numbered[:, 0] = torch.arange(len(weight))
    return Probe(name, "order", Call({"weight": numbered, "num_heads": num_heads}, {"weight": "RC"}))


half_to_interleaved = Check(
    "half_to_interleaved",
    _half_to_interleaved,
    [
        _rows("one head", integers(8, 8, seed=150), 1),
        _rows("two heads", integers(12, 12, seed=151), 2),
        _rows("three heads", integers(24, 5, seed=152), 3),
        Probe("gradient", "gradient", Call({"weight": integers(8, 3, seed=153), "num_heads": 2}), ("weight",)),
    ],
    MISTAKES,
)
