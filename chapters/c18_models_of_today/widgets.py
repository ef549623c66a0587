"""Two models layer by layer, and what the last token sees in one of their layers. Chapter 18."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c18_models_of_today.figures import LOOKS, draw_layers, kind_of
from chapters.c18_models_of_today.published_models import Layer
from course_utils.plots.style import INK, MUTED, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["layers_beside"]

_RECORDED = Path(__file__).with_name("layers.json")
STOPS = {
    "tokens": [512, 4096, 8192, 8193, 32_768, 131_072],
    "layer": list(range(61)),
}


def layers_beside(
    model: str = "Command R7B†",
    other: str = "Llama 4 Scout",
    *,
    layer: int = 2,
    tokens: int = 8193,
    models: Mapping[str, Sequence[Layer]] | None = None,
) -> CourseWidget:
    """Return two models layer by layer, and what the last token sees in one layer of each, ready to
    display.

    Args:
        model, other: two of the models.
        layer: from 0; of a model that has fewer, its last.
        tokens: length of the text: 512, 4,096, 8,192, 8,193, 32,768 or 131,072.
        models: what ``read_layers`` returned, by name; without it, what it returned when
            ``layers.json`` was written.
    """
    rows = recorded_strips() if models is None else strips(models)
    chosen = one_of(
        {**STOPS, "model": rows, "other": rows},
        model=model,
        other=other,
        layer=layer,
        tokens=tokens,
    )
    looks = {kind: [height, colour] for kind, (height, colour, _) in LOOKS.items()}
    names = list(rows)
    return _LayersBeside(
        chosen, {"rows": rows, "models": names, "others": names, "looks": looks, "stops": STOPS}
    )


def strips(models: Mapping[str, Sequence[Layer]]) -> dict[str, list[dict[str, Any]]]:
    """Return what the widget shows of each layer."""
    return {
        name: [
            {"kind": kind_of(one), "sees": one.sees, "turn": 2 * len(one.frequencies)}
            | {"dim": one.head_dim, "base": one.base, "besides": one.besides}
            for one in layers
        ]
        for name, layers in models.items()
    }


def recorded_strips() -> dict[str, list[dict[str, Any]]]:
    """Return the strips of chapter 18's models, which take half a minute to read."""
    recorded = json.loads(_RECORDED.read_text())
    return {
        name: [recorded["layers"][index] for index in indices]
        for name, indices in recorded["models"].items()
    }


def record_strips(models: Mapping[str, Sequence[Layer]]) -> None:
    """Write ``layers.json``: each kind of layer once, and each model as a list of them."""
    layers: list[dict[str, Any]] = []
    indices: dict[str, list[int]] = {}
    for name, rows in strips(models).items():
        layers += [row for at, row in enumerate(rows) if row not in layers + rows[:at]]
        indices[name] = [layers.index(row) for row in rows]
    _RECORDED.write_text(json.dumps({"layers": layers, "models": indices}))


def reach(sees: str, tokens: int) -> Tensor:
    """Which tokens the last of a text sees, by what a layer sees: (tokens,) 1 where as it is, 0.5
    where in blocks or among chosen ones, 0 where not."""
    seen = torch.zeros(tokens)
    words = sees.replace(",", "").split()
    if not words:
        return seen
    if words[0] == "all":
        return seen + 1
    if words[-1] == "chosen":
        return seen + 0.5
    is_chunk = words[0] == "chunks"
    last = (tokens - 1) % int(words[-1]) + 1 if is_chunk else int(words[0])
    if "+" in words:
        seen += 0.5
    seen[-last:] = 1
    return seen


def reached_through(sights: Sequence[str], tokens: int) -> int:
    """How many tokens have a part in the last one's answer, through layers that see so far, the
    first layer first; a state hands on everything."""
    first = tokens - 1
    for sees in reversed(sights):
        seen = reach(sees, first + 1)
        first = int((seen > 0).int().argmax()) if sees else 0
    return tokens - first


class _LayersBeside(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("layers_beside.js"))

    @property
    def x(self) -> Tensor:
        """Which tokens the last one sees in the chosen layer: (2 models, tokens), 1, 0.5 where in
        blocks or among chosen ones, 0 where not."""
        return torch.stack([reach(one["sees"], self.state["tokens"]) for one in self._layers()])

    def _layers(self) -> list[dict[str, Any]]:
        rows = (self.data["rows"][self.state[which]] for which in ("model", "other"))
        return [own[min(self.state["layer"], len(own) - 1)] for own in rows]

    def picture(self) -> tuple[Figure, str]:
        layer, tokens = self.state["layer"], self.state["tokens"]
        names = [self.state["model"], self.state["other"]]
        figure, (strips, sight) = new_figure(4.3, nrows=2)
        figure.set_figwidth(5.6)  # legible on a phone
        rows = {name: self.data["rows"][name] for name in names}
        shares = {
            name: [float((reach(one["sees"], tokens) > 0).float().mean()) for one in layers]
            for name, layers in rows.items()
        }
        draw_layers(strips, {name: [one["kind"] for one in rows[name]] for name in names}, shares)
        strips.axvline(layer, color=MUTED, linewidth=1, linestyle=":")
        strips.set_xlabel(f"layer; as high as its share of {tokens:,} tokens")
        reaches = []
        for row, (one, seen) in enumerate(zip(self._layers(), self.x, strict=True)):
            colour = LOOKS[one["kind"]][1] if one["kind"] else MUTED
            whole, half = int((seen == 1).sum()), int((seen == 0.5).sum())
            wide = max(whole, tokens // 100 if whole else 0)  # one of many is seen too
            for start, width, shade in (
                (0, tokens, 0.08),
                (0, half, 0.4),
                (tokens - wide, wide, 1),
            ):
                sight.barh(-row, width, 0.6, start, color=colour, alpha=shade)
            below = [each["sees"] for each in rows[names[row]][: layer + 1]]
            reached = reached_through(below, tokens)
            reaches.append(reached)
            wide = max(reached, tokens // 100)
            sight.barh(-row - 0.35, wide, 0.07, tokens - wide, color=INK)
            count = f"{names[row]}\n{whole + half:,} of {tokens:,}\nreached: {reached:,}"
            sight.text(-0.02 * tokens, -row, count, ha="right", va="center")
        sight.set(yticks=[], xlim=(0, tokens), xticks=[0, tokens], xticklabels=["first", "last"])
        sight.set_xlabel(
            f"seen by the last of {tokens:,} tokens in layer {layer};\n"
            f"dark line: reached through layers 0 to {layer}"
        )
        sight.grid(visible=False)
        said = (
            f"{name}: {one['kind'] or 'nothing'}, {int((seen > 0).sum()):,} of {tokens:,} tokens, "
            f"reached: {reached:,}"
            for name, one, seen, reached in zip(names, self._layers(), self.x, reaches, strict=True)
        )
        return (
            figure,
            f"Layer {layer} of two models, and what the last token sees. {'; '.join(said)}.",
        )
