"""Chapter 10: what a kernel does to a tile of rows whose last lanes are padding."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.norm_probes import offset_probe, pair_probes
from course_utils.check.probes import Call, Probe, integers

__all__ = ["masked_layer_norm"]


def reference(block, n_cols, eps=1e-5):
    inside = torch.arange(block.shape[-1], device=block.device) < n_cols
    count = inside.sum()
    x = block.float() if block.dtype in (torch.float16, torch.bfloat16) else block
    x = torch.where(inside, x, 0.0)
    mean = x.sum(-1, keepdim=True) / count
    centred = torch.where(inside, x - mean, 0.0)
    variance = (centred * centred).sum(-1, keepdim=True) / count
    y = centred / torch.sqrt(variance + eps)
    return torch.where(inside, y, 0.0).to(block.dtype)


def _masked_layer_norm(block, n_cols, eps=1e-5):
    if not 1 <= n_cols <= block.shape[-1]:
        raise ValueError(f"n_cols must be from 1 to the width of the block: got {n_cols}, width {block.shape[-1]}")
    y = F.layer_norm(block[:, :n_cols], (n_cols,), eps=eps)
    return F.pad(y, (0, block.shape[-1] - n_cols))


def _call(rows: Tensor, width: int = 4, padding: float = 0.0, **others) -> Call:
    block = F.pad(rows, (0, width - rows.shape[-1]), value=padding)
    return Call({"block": block, "n_cols": rows.shape[-1], **others}, {"block": "RW"})


def _probe(name: str, stage: str, rows: Tensor, width: int, padding: float = 0.0, rough=False, **others) -> Probe:
    return Probe(name, stage, _call(rows, width, padding, **others), rough=rough)


def _rows(*shape: int, seed: int, offset: float = 200.0) -> Tensor:
    return integers(*shape, seed=seed, scale=100.0, offset=offset)  # epsilon is below float32's rounding there


_FAR, _HALF = pair_probes(_call)
_WORKED = torch.tensor([[3.0, 5.0, 4.0, 6.0, 2.0]])

masked_layer_norm = Check(
    "masked_layer_norm",
    _masked_layer_norm,
    [
        _probe("a block without padding", "whole blocks", _rows(3, 8, seed=200), 8),
        _probe("rows of 5 in a block of 8", "padding", _rows(3, 5, seed=201), 8),
        _probe("the worked number", "padding", _WORKED, 8, eps=0.0),
        _probe("rows of 100 in a block of 128", "padding", _rows(2, 100, seed=202), 128),
        _probe("rows of 2 in a block of 16", "padding", _rows(4, 2, seed=203), 16),
        _probe("1,000 in the padding", "garbage", _rows(3, 5, seed=204), 8, 1000.0),
        _probe("NaN in the padding", "NaN", _rows(3, 5, seed=205), 8, float("nan")),
        _probe("values around 0.001", "epsilon", integers(3, 5, seed=206, scale=3e-4), 8),
        _probe("eps=1", "epsilon", integers(3, 5, seed=207), 8, eps=1.0),
        _probe("one value a row", "epsilon", integers(3, 1, seed=208), 4),
        _FAR,
        offset_probe(_call(integers(64, 48, seed=209, scale=0.25, offset=1e4), 64)),
        _HALF,
        _probe(
            "float16, sums beyond it", "half precision", _rows(3, 100, seed=210, offset=4e3).half(), 128, rough=True
        ),
    ],
    load("masked_layer_norm", reference),
    is_possible=lambda call: call.arguments["n_cols"] >= 3,
)
