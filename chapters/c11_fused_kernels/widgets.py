"""The slots of a kernel's program, and what a mask leaves in them."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.widgets.base import CourseWidget, browser_module, one_of
from course_utils.widgets.shapes import draw_cards

__all__ = ["kernel_blocks"]

MASKS = {"both": "loaded and centred", "loaded": "loaded", "none": "nothing"}
BLOCKS = [2, 4, 8, 16]
BLOCK_LIMITS = {"rows": 4, "columns": 16}
MEMORY = [3, 5, 4, 6, 2, 9, 7, 8, 1, 6, 4, 2, 8, 5, 7, 3] * 4  # what x holds, row after row


def kernel_blocks(
    columns: int = 5, block: int = 8, mask: str = "loaded", rows: int = 3
) -> CourseWidget:
    """Return what the slots of a program hold that normalizes a row, ready to display.

    Args:
        columns: of the matrix, 1 to 16.
        block: slots of a program: 2, 4, 8 or 16.
        mask: ``"both"`` (after the load and after centring), ``"loaded"`` or ``"none"``.
        rows: of the matrix, and programs, 1 to 4.
    """
    stops = {name: range(1, most + 1) for name, most in BLOCK_LIMITS.items()}
    chosen = one_of(
        {**stops, "block": BLOCKS, "mask": MASKS},
        columns=columns,
        block=block,
        mask=mask,
        rows=rows,
    )
    data = {"memory": MEMORY, "masks": MASKS, "blocks": BLOCKS, "limits": BLOCK_LIMITS}
    return _KernelBlocks({**chosen, "row": 0}, data)


class _KernelBlocks(CourseWidget):
    _esm = browser_module("cells", Path(__file__).with_name("kernel_blocks.js"))

    @property
    def x(self) -> Tensor:
        """The matrix in memory: (rows, columns), float32."""
        rows, columns = self.state["rows"], self.state["columns"]
        return torch.tensor(MEMORY[: rows * columns]).float().view(rows, columns)

    def picture(self) -> tuple[Figure, str]:
        rows, columns, block, row, mask = (
            self.state[name] for name in ("rows", "columns", "block", "row", "mask")
        )
        memory, address = np.array(MEMORY[: rows * columns]), np.arange(block) + row * columns
        own = np.arange(block) < columns
        inside = address < memory.size
        held = np.where(own & inside, np.pad(memory, (0, block))[address], 0)
        if mask == "none":
            held = np.pad(memory.astype(float), (0, block), constant_values=np.nan)[address]
        mean = held.sum() / columns
        centred = held - mean
        if mask == "both":
            centred = np.where(own, centred, 0.0)
        variance, right = (centred**2).sum() / columns, memory.reshape(rows, columns)[row].var()
        slots = np.where(own, 0, 1)[None]
        read = np.isin(np.arange(memory.size), address if mask == "none" else address[own])
        cards = [
            ("x in memory", np.where(read, 0, 2).reshape(rows, columns), memory),
            (f"slots, sum {_text(held.sum())}", slots, held),
            (f"− mean, variance {_text(variance)}", slots, centred),
        ]
        drawn = [
            (title, ids, np.vectorize(_text, otypes=[object])(values).reshape(ids.shape))
            for title, ids, values in cards
        ]
        beyond = max(0, block - columns)
        return draw_cards(drawn), (
            f"A kernel's program {row} with {block} slots on a matrix of {rows} rows and {columns} "
            "columns in memory, masked: "
            f"{MASKS[mask]}. {beyond} slots are beyond the row; the slots hold "
            f"{', '.join(map(_text, held))}; their variance comes out as {_text(variance)}, "
            f"that of the row is {_text(right)}."
        )


def _text(value: float) -> str:
    """A number with three digits; "?" for what lies behind the end of memory."""
    return "?" if np.isnan(value) else f"{value:.3g}".replace("-", "−")
