"""Where a published norm leaves PyTorch's: scale, offset, ε and dtype of one row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import MUTED, PALETTE, new_figure
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["LAYERS", "where_they_part"]

ROW = (1.2, -0.4, 0.9, -1.5, 0.3, -0.8, 1.7, -1.4)  # its mean is 0
SCALES = [10.0 ** (half / 2) for half in range(-20, 10)]
LOWEST = 1e-9  # below every output but 0, which is drawn there
STOPS = {
    "scale": SCALES,
    "offset": [0, 1, 10, 100, 1000, 10_000],
    "eps": [0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-3],  # 0: the layer's own
}
ITEMSIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
# how each computes: in the dtype of x or in float32, and whether it rounds what it returns
LAYERS: dict[str, dict[str, Any]] = {
    "labml_nn LayerNorm": {"how": "one pass", "eps": 1e-5, "inner": "x", "rounds": True},
    "flax LayerNorm": {"how": "one pass, clipped", "eps": 1e-6, "inner": "", "rounds": False},
    "keras LayerNormalization": {"how": "two passes", "eps": 1e-3, "inner": "", "rounds": False},
    "timm SimpleNorm": {"how": "no mean, n − 1", "eps": 1e-6, "inner": "", "rounds": True},
    "x_transformers RMSNorm": {"how": "floor", "eps": 1e-12, "inner": "x", "rounds": True},
    "transformers LlamaRMSNorm": {"how": "squares", "eps": 1e-6, "inner": "", "rounds": True},
}
TORCHS = {
    "nn.LayerNorm": {"how": "two passes", "eps": 1e-5, "inner": "", "rounds": True},
    "nn.RMSNorm": {"how": "squares", "eps": torch.finfo().eps, "inner": "", "rounds": True},
}
CENTRED = ("one pass", "one pass, clipped", "two passes")


def where_they_part(
    layer: str = "labml_nn LayerNorm",
    scale: float = 1.0,
    offset: int = 0,
    eps: float = 0.0,
    dtype: str = "float32",
) -> CourseWidget:
    """Return the largest output of a published norm and of PyTorch's, over the scale of a row,
    ready to display.

    Args:
        layer: one of ``LAYERS``, computed by its formula, in the order in which it is written.
        scale: what the row is multiplied by: 1e-10, …, 31,622 in half decades.
        offset: what is added to it then: 0, 1, 10, … 10,000.
        eps: in place of the layer's own; 0 leaves that.
        dtype: of the row: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
    """
    chosen = one_of(
        {**STOPS, "layer": LAYERS, "dtype": ITEMSIZES},
        layer=layer,
        scale=scale,
        offset=offset,
        eps=eps,
        dtype=dtype,
    )
    data = {"stops": STOPS, "itemsizes": ITEMSIZES, "layers": LAYERS, "torchs": TORCHS}
    return _WhereTheyPart(chosen, {**data, "row": ROW, "centred": CENTRED})


class _WhereTheyPart(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("where_they_part.js"))

    @property
    def x(self) -> Tensor:
        """The row at the chosen scale and offset: (8,), in the dtype."""
        return self._rows([self.state["scale"]])[0]

    @property
    def outputs(self) -> tuple[Tensor, Tensor]:
        """What the layer and PyTorch's make of x: (8,) each."""
        return tuple(computed(norm, self.x[None])[0] for norm in self._norms())  # type: ignore[return-value]

    def _norms(self) -> tuple[dict[str, Any], dict[str, Any]]:
        layer = LAYERS[self.state["layer"]]
        return {**layer, "eps": self.state["eps"] or layer["eps"]}, TORCHS[self._torchs()]

    def _torchs(self) -> str:
        """The name of PyTorch's layer of the same kind."""
        how = LAYERS[self.state["layer"]]["how"]
        return "nn.LayerNorm" if how in CENTRED else "nn.RMSNorm"

    def _rows(self, scales: Sequence[float]) -> Tensor:
        scale, row = (torch.tensor(values, dtype=torch.float64) for values in (scales, ROW))
        rows = scale[:, None] * row
        return (rows + self.state["offset"]).float().to(getattr(torch, self.state["dtype"]))

    def picture(self) -> tuple[Figure, str]:
        layer, offset, dtype = (self.state[name] for name in ("layer", "offset", "dtype"))
        mine, torchs = (computed(norm, self._rows(SCALES)) for norm in self._norms())
        figure, axes = new_figure(height=3.2)
        top = 10.0
        for name, y, colour, wide in (
            (self._torchs(), torchs, PALETTE[0], 4),  # below the other
            (layer, mine, PALETTE[1], 2),
        ):
            largest = y.float().abs().amax(-1).nan_to_num(torch.nan, posinf=torch.nan)
            axes.plot(SCALES, largest.clamp(min=LOWEST), "-", color=colour, lw=wide, label=name)
            top = max(top, largest.nan_to_num(0).max().item())
        axes.axvline(self.state["scale"], color=MUTED, linestyle=":")
        axes.set(xscale="log", yscale="log", ylim=(0.7 * LOWEST, 1.5 * top))
        axes.set(xlabel="scale of the row", ylabel="largest output (0: lower edge)")
        axes.legend(loc="lower right", fontsize=9)
        apart = (self.outputs[0].float() - self.outputs[1].float()).abs().max().item()
        return figure, (
            f"The largest output of {layer} and of PyTorch's layer for one row in {dtype}, at "
            f"scales from 1e-10 to 30,000 and an offset of {offset:,}, ε "
            f"{self._norms()[0]['eps']:g}: apart by {format_number(apart)} at a scale of "
            f"{format_number(self.state['scale'])}."
        )


def computed(norm: dict[str, Any], x: Tensor) -> Tensor:
    """What a norm makes of rows (R, C), each step rounded to the dtype that it computes in."""
    z = x if norm["inner"] else x.float()
    eps = torch.tensor(norm["eps"]).to(z.dtype)
    how, n = norm["how"], x.shape[-1]
    if how == "floor":
        root = torch.maximum(_root(_sum(z.float() * z.float())).to(z.dtype), eps)
        y = z / root * torch.tensor(n**0.5).to(z.dtype)
    elif how.startswith("one pass"):
        mean = _mean(z)
        variance = _mean(z * z) - mean * mean
        variance = variance.clamp(min=0) if "clipped" in how else variance
        y = (z - mean) / _root(variance + eps)
    else:
        centred = z if how == "squares" else z - _mean(z)
        count = torch.tensor(n - 1.0 if "n − 1" in how else n)  # a tensor: it divides, exactly
        square = (_sum(centred * centred) / count).to(z.dtype)
        y = (z if "no mean" in how else centred) / _root(square + eps)
    return y.to(x.dtype) if norm["rounds"] else y


def _sum(z: Tensor) -> Tensor:
    """In float32, one after the other: (R, 1)."""
    total = torch.zeros(len(z), 1)
    for column in z.float().split(1, dim=-1):
        total = total + column
    return total


def _root(square: Tensor) -> Tensor:
    """Rounded exactly: torch's own may be off by a last digit, and differs between machines."""
    return square.double().sqrt().float().to(square.dtype)


def _mean(z: Tensor) -> Tensor:
    return (_sum(z) / z.shape[-1]).to(z.dtype)
