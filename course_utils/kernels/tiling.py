"""How the kernels are cut into programs: tiles, warps, programs per multiprocessor (chapter 11).

A rule, not an autotuner, which at every new shape would compile every candidate and wait for the
device. It follows what Triton's compiler and ptxas report for sm_80 to sm_120: 16 elements a thread
load 16 bytes at a time, keep several forward programs on a multiprocessor (40 registers a thread)
and hold the backward pass, with two sums beside each element, to 128; sums and row no longer fit
together at 16,384 features, so there a 16-bit row is read twice, by threads of twice the registers.
Longer rows would spill registers to memory (0.5 KB a thread in float32 at 16,384 features backward,
72 bytes in float64 at 16,384 forward): they are refused. No timing went into it.
"""

from dataclasses import dataclass
from functools import cache

import torch

__all__ = [
    "Tiling",
    "backward_tiling",
    "column_sums_tiling",
    "forward_tiling",
    "longest_row",
    "multiprocessors",
    "rotary_tile",
]

_FORWARD_ROW = 32_768  # features in float32: half of the registers of a multiprocessor
_BACKWARD_ROW_BYTES = (
    32_768  # in the type of the input: row and gradient, beside two sums for each element
)
_MAX_WARPS = 32
_RESIDENT_BACKWARD_WARPS = (
    16  # on one multiprocessor: 65,536 registers at 128 a thread and 32 threads a warp
)
_INTERPRETED_MULTIPROCESSORS = (
    4  # enough programs for their sums to matter, few enough for a loop in Python
)


@dataclass(frozen=True)
class Tiling:
    """One way to cut the rows of a norm kernel."""

    rows: int  # of a tile
    block: int  # columns of a tile, a power of two that holds a row
    warps: int  # of 32 threads, that hold a tile
    reload: bool = False  # read the row a second time instead of holding it (backward)
    stages: int = 1  # tiles in flight: 2 fetches the next while one is computed (backward)
    programs_per_multiprocessor: int = 1  # that share the rows (backward)

    def programs(self, num_rows: int, num_multiprocessors: int) -> int:
        """Return how many programs share ``num_rows``: none idle, and their sums a small share of
        what they read."""
        tiles = -(-num_rows // self.rows)
        # a program of fewer than 8 rows writes nearly as many sums as it reads inputs
        worthwhile = max(num_multiprocessors, num_rows // 8)
        return min(tiles, worthwhile, num_multiprocessors * self.programs_per_multiprocessor)


def longest_row(dtype: torch.dtype, backward: bool) -> int:
    """Return how many features of ``dtype`` a program holds in its registers, forward or
    backward."""
    if backward:
        return _BACKWARD_ROW_BYTES // dtype.itemsize
    # half precisions are computed in float32; float64 of 16,384 spills, though its row alone fits
    return _FORWARD_ROW if dtype.itemsize <= 4 else _FORWARD_ROW // 4


@cache
def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of ``device``, each of which runs programs of its
    own."""
    if device.type != "cuda":
        return _INTERPRETED_MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _warps(elements: int, elements_per_thread: int) -> int:
    return min(max(elements // (32 * elements_per_thread), 1), _MAX_WARPS)


def _tile(num_columns: int) -> tuple[int, int]:
    """Return (rows, block) of a tile that holds whole rows, several where they are short."""
    block = max(_power_of_two(num_columns), 16)
    return max(1024 // block, 1), block


def forward_tiling(num_columns: int) -> Tiling:
    """Return how to run the forward kernel on rows of ``num_columns`` elements."""
    rows, block = _tile(num_columns)
    return Tiling(rows, block, _warps(rows * block, 16 if block < 16_384 else 32))


def backward_tiling(num_columns: int) -> Tiling:
    """Return how to run the backward kernel on rows of ``num_columns`` elements."""
    rows, block = _tile(num_columns)
    reload = block > 8192
    warps = _warps(rows * block, 64 if reload else 16)
    resident = 1 if reload else max(_RESIDENT_BACKWARD_WARPS // warps, 1)
    return Tiling(
        rows, block, warps, reload, stages=1 if reload else 2, programs_per_multiprocessor=resident
    )


def column_sums_tiling(num_programs: int) -> Tiling:
    """Return the tile of the kernel that adds up the sums of ``num_programs`` programs, in one step
    if it can."""
    rows = min(_power_of_two(num_programs), 512)
    return Tiling(rows, block=min(8192 // rows, 256), warps=8)


def rotary_tile(num_heads: int, num_pairs: int) -> tuple[int, int]:
    """Return (heads, positions) of a tile of the rotary kernel, which four warps hold: 16 pairs a
    thread."""
    heads = min(_power_of_two(num_heads), 4)
    return heads, max(2048 // (heads * _power_of_two(num_pairs)), 1)
