"""How the kernels are cut into programs: tiles, warps, programs per multiprocessor (chapter 10).

A rule, not an autotuner, which at every new shape would compile every candidate and wait for the device. It follows
what Triton's compiler reports for sm_90: 16 elements a thread load 16 bytes at a time, keep several forward programs on
a multiprocessor (40 registers a thread) and hold the backward pass, with two float32 sums beside each element, to 128;
sums and row no longer fit together at 16,384 features, so there a 16-bit row is read twice and a longer one looped
over. No timing went into it.
"""

from dataclasses import dataclass
from functools import cache

import torch

__all__ = ["Launch", "backward_launch", "column_sums_launch", "forward_launch", "multiprocessors", "rotary_tile"]

_MAX_FORWARD_BLOCK = 32_768
_LOOPED_BYTES = 32_768  # of a block: up to three are in flight, and many a GPU has 99 KB of shared memory for them
_MAX_BACKWARD_ROW_BYTES = 32_768
_REREAD_BYTES = 131_072  # of x, and as many of dy: 35 MB on 132 multiprocessors, of 50 MB of L2
_MAX_WARPS = 32
_RESIDENT_BACKWARD_WARPS = 16  # on one multiprocessor: 65,536 registers at 128 a thread and 32 threads a warp
_INTERPRETED_MULTIPROCESSORS = 4  # enough programs for their sums to matter, few enough for a loop in Python


@dataclass(frozen=True)
class Launch:
    """One way to run a norm kernel; the fields from ``looped`` on say what it does with a row."""

    rows: int  # of a tile
    block: int  # columns of a tile, a power of two
    warps: int  # of 32 threads, that hold a tile
    looped: bool = False  # walk along the row in blocks; otherwise a block holds the row
    reload: bool = False  # read the row a second time instead of holding it (backward)
    stages: int = 1  # tiles in flight: 2 fetches the next while one is computed (backward, and any loop)
    programs_per_multiprocessor: int = 1  # that share the rows (backward)

    def programs(self, num_rows: int, num_multiprocessors: int) -> int:
        """Return how many programs share ``num_rows``: none idle, and their sums a small share of what they read."""
        tiles = -(-num_rows // self.rows)
        # a program of fewer than 8 rows writes nearly as many sums as it reads inputs
        worthwhile = max(num_multiprocessors, num_rows // 8)
        return min(tiles, worthwhile, num_multiprocessors * self.programs_per_multiprocessor)


@cache
def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of ``device``, each of which runs programs of its own."""
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


def forward_launch(num_columns: int, itemsize: int) -> Launch:
    """Return how to run the forward kernel on rows of ``num_columns`` elements of ``itemsize`` bytes."""
    rows, block = _tile(num_columns)
    if block > _MAX_FORWARD_BLOCK:
        return Launch(rows=1, block=min(_LOOPED_BYTES // itemsize, 8192), warps=16, looped=True, stages=2)
    return Launch(rows, block, _warps(rows * block, 16 if block < 16_384 else 32))


def backward_launch(num_columns: int, itemsize: int) -> Launch:
    """Return how to run the backward kernel on rows of ``num_columns`` elements of ``itemsize`` bytes."""
    rows, block = _tile(num_columns)
    row_bytes = block * itemsize
    if row_bytes > _MAX_BACKWARD_ROW_BYTES:
        # dy and x are read twice: the rows at hand on all multiprocessors should stay in the L2 cache in between
        return Launch(rows=max(_REREAD_BYTES // row_bytes, 1), block=2048, warps=16, looped=True, stages=2)
    reload = block > 8192
    warps = _warps(rows * block, 32 if reload else 16)
    resident = max(_RESIDENT_BACKWARD_WARPS // warps, 1)
    return Launch(rows, block, warps, reload=reload, stages=1 if reload else 2, programs_per_multiprocessor=resident)


def column_sums_launch(num_programs: int) -> Launch:
    """Return the tile of the kernel that adds up the sums of ``num_programs`` programs, in one step if it can."""
    rows = min(_power_of_two(num_programs), 512)
    return Launch(rows, block=min(8192 // rows, 256), warps=8)


def rotary_tile(num_heads: int, num_pairs: int) -> tuple[int, int]:
    """Return (heads, positions) of a tile of the rotary kernel, which four warps hold: 16 pairs a thread."""
    heads = min(_power_of_two(num_heads), 4)
    return heads, max(2048 // (heads * _power_of_two(num_pairs)), 1)
