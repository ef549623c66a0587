"""Chapter 12: the permutation between the rotary layouts: which rows of a projection move where."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe, integers

__all__ = ["half_to_interleaved"]


def _half_to_interleaved(weight, num_heads):
    grid = weight.reshape(num_heads, 2, -1, weight.shape[-1])  # (H, half, i, in_features)
    return grid.transpose(1, 2).reshape(weight.shape)


def writes_into_chunks(weight, num_heads):
    """Right, until autograd has to follow: chunk returns several views of one tensor, which it does not let change."""
    result = torch.zeros_like(weight)
    for rows, head in zip(result.chunk(num_heads), weight.chunk(num_heads), strict=True):
        rows[0::2], rows[1::2] = head.chunk(2)
    return result


def _rows(name: str, stage: str, rows: int, columns: int, num_heads: int) -> Probe:
    # A row says where it came from by its first entry; square weights let a permutation of the columns run through.
    weight = integers(rows, columns, seed=150 + rows)
    weight[:, 0] = torch.arange(rows)
    return Probe(name, stage, Call({"weight": weight, "num_heads": num_heads}, {"weight": "RC"}))


half_to_interleaved = Check(
    "half_to_interleaved",
    _half_to_interleaved,
    [
        _rows("one head of six rows", "order", 6, 6, 1),
        _rows("one head", "order", 8, 8, 1),
        _rows("two heads", "order", 12, 12, 2),
        _rows("three heads", "other widths", 24, 5, 3),
        Probe("gradient", "gradient", Call({"weight": integers(8, 3, seed=153), "num_heads": 2}), ("weight",)),
    ],
    load("half_to_interleaved", _half_to_interleaved),
)
