"""Five layer norms and the right one on a row, as strips; and the ledger as a table to search: by
words, by source, by verdict, without a kernel the whole table. Chapter 20."""

from collections.abc import Iterable, Mapping
from html import escape
from math import isnan
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c20_on_trial import ledger
from chapters.c20_on_trial.ledger import Entry, by_work
from chapters.c20_on_trial.writeup_layer_norms import LAYERS
from chapters.sources import WORKS, Work
from course_utils.claims import VERDICTS
from course_utils.plots.style import PALETTE, new_figure
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, StatefulWidget, browser_module, one_of

__all__ = ["ledger_html", "ledger_table", "six_layers"]

_HERE = Path(__file__).parent
ROW = (1.2, -0.4, 0.9, -1.5, 0.3, -0.8, 1.7, -1.4)  # its mean is 0
RIGHT = "right, float64"  # PyTorch's formula, rounded nowhere
STOPS = {
    "scale": [0.0, *(10.0**power for power in range(-7, 21))],
    "offset": [0.0, 0.1, *(10.0**power for power in range(6))],
}
_COLUMNS = ("claim", "verdict", "found", "tested in")


def six_layers(scale: float = 1.0, offset: float = 0.0) -> CourseWidget:
    """Return what five layer norms make of one row of eight float32 numbers, and PyTorch's formula
    in float64, ready to display.

    Args:
        scale: what the row is multiplied by, a stop of its slider: 0, 1e-7, 1e-6, … 1e20.
        offset: what is added to it then: 0, 0.1, 1, 10, … 100,000.
    """
    chosen = one_of(STOPS, scale=float(scale), offset=float(offset))
    layers = {name: {"formula": norm.formula, "eps": norm.eps} for name, norm in LAYERS.items()}
    layers[RIGHT] = {"formula": LAYERS["Road to ML"].formula, "eps": 1e-5, "isRight": True}
    return _SixLayers(chosen, {"stops": STOPS, "layers": layers, "row": ROW})


class _SixLayers(CourseWidget):
    _esm = browser_module(_HERE / "six_layers.js")

    @property
    def outputs(self) -> dict[str, Tensor]:
        """What each layer makes of the row: (8,), float32."""
        row = torch.tensor(self.state["scale"]) * torch.tensor(ROW) + self.state["offset"]
        right = F.layer_norm(row.double(), (8,)).float()
        return {name: layer(row, (8,)) for name, layer in LAYERS.items()} | {RIGHT: right}

    def picture(self) -> tuple[Figure, str]:
        figure, axes = new_figure(height=3.0)
        outputs = dict(reversed(self.outputs.items()))
        right = outputs[RIGHT].clamp(-2.5, 2.5).tolist()
        for height, (name, y) in enumerate(outputs.items()):
            at = [height] * len(right)
            axes.scatter(right, at, 90, "none", edgecolors=PALETTE[1], linewidths=2, clip_on=False)
            if name == RIGHT:
                continue
            axes.plot(y.clamp(-2.5, 2.5), at, "o", color=PALETTE[0], markersize=5, clip_on=False)
            error = (y - outputs[RIGHT]).abs().max().item()
            words = "NaN" if isnan(error) else "right" if error < 0.05 else f"off by {error:.2g}"
            axes.text(2.6, height, words, va="center")
        axes.set(xlim=(-2.5, 2.5), ylim=(-0.6, 5.6), xlabel="the eight outputs")
        axes.set_yticks(range(len(outputs)), labels=outputs)
        return figure, (
            "The eight outputs of five layer norms, a strip of dots each over rings that are "
            f"right, at a spread of {format_number(self.state['scale'])} and an offset of "
            f"{self.state['offset']:,g}."
        )


def ledger_html(entries: Iterable[Entry]) -> str:
    """Return the entries as one folded table for each source, each row with a link to the cell that
    tests it."""
    return "".join(_group(work, group) for work, group in by_work(entries).items())


def ledger_table(
    entries: Mapping[str, Entry] | None = None,
    *,
    text: str = "",
    source: str = "",
    verdict: str = "",
) -> StatefulWidget:
    """Return the ledger as a table with a field to search in, ready to display.

    Args:
        entries: by ``chapter:key``; by default the whole ledger.
        text: words that a row must hold.
        source: the name of a work, as in ``chapters.sources.WORKS``; empty for any.
        verdict: one of ``course_utils.claims.VERDICTS``; empty for any.
    """
    shown = list((ledger.load() if entries is None else entries).values())
    choices = {"source": ["", *(work.name for work in WORKS)], "verdict": ["", *VERDICTS]}
    works = [[work.name, f"{work.name} ({len(group)})"] for work, group in by_work(shown).items()]
    data = {"html": ledger_html(shown), "sources": works, "verdicts": list(VERDICTS)}
    table = _LedgerTable(one_of(choices, text=text, source=source, verdict=verdict), data)
    table.words = f"Ledger: {len(shown)} claims, to search by words, by source and by verdict."
    return table


class _LedgerTable(StatefulWidget):
    _esm = browser_module(_HERE / "ledger.js")
    _css = StatefulWidget._css + (_HERE / "ledger.css").read_text(encoding="utf-8")
    words = ""  # what stands for it where no table is seen

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        data["text/plain"] = self.words
        data["text/html"] = f"{self.data['html']}<p>Run this notebook to search in it.</p>"
        return data, metadata


def _group(work: Work, entries: list[Entry]) -> str:
    title = work.title if work.name == work.title else f"{work.name}: {work.title}"
    count = "1 claim" if len(entries) == 1 else f"{len(entries)} claims"
    head = "".join(f'<th scope="col" style="text-align:left">{column}</th>' for column in _COLUMNS)
    rows = "".join(_row(entry) for entry in entries)
    read = f'<p><a href="{escape(work.link)}">{escape(work.link)}</a></p>' if work.link else ""
    return (
        f'<details data-source="{escape(work.name)}"><summary>{escape(title)} · '
        f"{count}</summary>{read}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _row(entry: Entry) -> str:
    link = f'<a href="{escape(entry.link)}">{escape(entry.place)}</a>'
    claim = entry.claim
    cells = (
        escape(claim.sentence),
        f"{claim.mark} {escape(claim.words)}",
        escape(entry.found),
        link,
    )
    row = "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells)
    return f'<tr data-verdict="{claim.verdict}">{row}</tr>'
