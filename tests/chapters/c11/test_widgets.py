"""The widget of chapter 11: what a kernel's slots hold."""

import pytest
import torch
from widget_states import MAKERS


def test_a_kernels_slots_hold_and_give_what_the_masks_leave(figures):
    widget = MAKERS["kernel_blocks"]()
    for state, figure in figures("kernel_blocks", "blockFigure", 120):
        rows, columns, block, row, mask = (
            state[name] for name in ("rows", "columns", "block", "row", "mask")
        )
        memory = torch.full((rows * columns + 16,), torch.nan, dtype=torch.float64)
        memory[: rows * columns] = torch.tensor(
            MAKERS["kernel_blocks"]().data["memory"][: rows * columns]
        )
        slots = torch.arange(block)
        held = memory[row * columns + slots]
        held = held if mask == "none" else held.where(slots < columns, 0.0)
        centred = held - held.sum() / columns
        centred = centred.where(slots < columns, 0.0) if mask == "both" else centred
        found = [figure["mean"], figure["variance"]]
        expected = [held.sum().item() / columns, centred.square().sum().item() / columns]
        assert [float(value) for value in found] == pytest.approx(expected, nan_ok=True), state
        widget.state = state
        assert torch.equal(widget.x.flatten().double(), memory[: rows * columns])
        x = memory[row * columns : (row + 1) * columns]
        assert list(figure["right"].values()) == pytest.approx(
            [x.mean().item(), x.var(correction=0).item()]
        )
        if mask == "both" and block >= columns:
            assert found == pytest.approx(list(figure["right"].values()))
        assert figure["unread"] == max(0, columns - block)
