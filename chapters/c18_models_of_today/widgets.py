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
    # powers of two and what is just beyond them, where windows begin to hide keys and chunks begin;
    # and a step or two between
    "tokens": sorted(
        {130} | {2**n + more for n in range(6, 17) for more in (0, 1, 2 ** (n - 1))} | {2**17}
    ),
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
        tokens: length of the text, one of ``STOPS["tokens"]``.
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
    where in blocks, 0.25 where some are chosen, 0 where not."""
    seen = torch.zeros(tokens)
    words = sees.replace(",", "").split()
    if not words:
        return seen
    if words[0] == "all":
        return seen + 1
    if words[-1] == "chosen":
        return seen + (1 if tokens <= _most_chosen(sees) else 0.25)
    is_chunk = words[0] == "chunks"
    last = (tokens - 1) % int(words[-1]) + 1 if is_chunk else int(words[0])
    if "+" in words:
        some = "chosen" in words and tokens - last > _most_chosen(sees)
        seen += 0.25 if some else 0.5
    seen[-last:] = 1
    return seen


def _most_chosen(sees: str) -> int:
    """How many tokens the chosen ones, or the chosen blocks, are at most."""
    words = sees.replace(",", "").split()
    size = 1 if words[-1] == "chosen" else int(words[-1])
    return int(words[words.index("chosen") - 1]) * size


def counts_seen(sees: str, tokens: int) -> tuple[int, int]:
    """How many tokens the last of a text sees as they are, and how many, at most, in blocks or by
    choice."""
    seen = reach(sees, tokens)
    some = int((seen == 0.25).sum())
    besides = min(some, _most_chosen(sees)) if some else int((seen == 0.5).sum())
    return int((seen == 1).sum()), besides


def reached_through(sights: Sequence[str], tokens: int) -> int:
    """How many tokens have a part in the last one's answer, through layers that see so far, the
    first layer first; a state passes everything on."""
    first = tokens - 1
    for sees in reversed(sights):
        seen = reach(sees, first + 1)
        first = int((seen > 0).int().argmax()) if sees else 0
    return tokens - first


class _LayersBeside(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("layers_beside.js"))

    @property
    def x(self) -> Tensor:
        """Which tokens the last one sees in the chosen layer: (2 models, tokens), as `reach`."""
        return torch.stack([reach(one["sees"], self.state["tokens"]) for one in self._layers()])

    def _layers(self) -> list[dict[str, Any]]:
        rows = (self.data["rows"][self.state[which]] for which in ("model", "other"))
        return [own[min(self.state["layer"], len(own) - 1)] for own in rows]

    def picture(self) -> tuple[Figure, str]:
        tokens = self.state["tokens"]
        names = [self.state["model"], self.state["other"]]
        last = {name: len(self.data["rows"][name]) - 1 for name in names}
        layer = min(self.state["layer"], max(last.values()))
        figure, (strips, sight) = new_figure(4.6, nrows=2)
        figure.set_figwidth(5.6)  # legible on a phone
        rows = {name: self.data["rows"][name] for name in names}
        shares = {
            name: [sum(counts_seen(one["sees"], tokens)) / tokens for one in layers]
            for name, layers in rows.items()
        }
        draw_layers(strips, {name: [one["kind"] for one in rows[name]] for name in names}, shares)
        strips.axvline(layer, color=MUTED, linewidth=1, linestyle=":")
        strips.set_xlabel(f"layer; as high as its share of {tokens:,} tokens")
        said = []
        for row, (one, seen) in enumerate(zip(self._layers(), self.x, strict=True)):
            colour = LOOKS[one["kind"]][1] if one["kind"] else MUTED
            top, wide = -2.2 * row, tokens // 100  # one of many is seen too
            for shown, shade, hatch in ((0.25, 0.25, "////"), (0.5, 0.4, ""), (1, 1, "")):
                at = (seen == shown).nonzero().flatten().tolist()
                if at:
                    width = max(len(at), wide)
                    sight.barh(
                        top, width, 0.6, at[-1] + 1 - width, color=colour, alpha=shade,
                        hatch=hatch, edgecolor="white", linewidth=0,
                    )  # fmt: skip
            sight.barh(top, tokens, 0.6, color=colour, alpha=0.08)
            below = [each["sees"] for each in rows[names[row]][: layer + 1]]
            reached = reached_through(below, tokens)
            width = max(reached, wide)
            sight.barh(top - 0.36, width, 0.07, tokens - width, color=INK)
            count = _count(one, tokens)
            fewer = layer > last[names[row]]
            own = f"layer {last[names[row]]}, its last: " if fewer else ""
            look = {"va": "center", "fontsize": 9}
            sight.text(0, top + 0.55, names[row], weight="bold", **look)
            sight.text(tokens, top + 0.55, count, ha="right", **look)
            sight.text(0, top - 0.7, own + _words(one), **look)
            sight.text(tokens, top - 0.7, f"reached: {reached:,}", ha="right", **look)
            kind = one["kind"] or "nothing"
            said.append(f"{names[row]}: {own}{kind}, {count}, reached: {reached:,}")
        sight.set(yticks=[], xlim=(0, tokens), ylim=(-3.1, 0.9))
        sight.set_xticks([0, tokens], ["first", "last"])
        sight.set_xlabel(
            f"seen by the last of {tokens:,} tokens in layer {layer};\n"
            f"dark line: reached through layers 0 to {layer}"
        )
        sight.grid(visible=False)
        sight.spines["left"].set_visible(False)
        words = f"Layer {layer} of two models, and what the last token sees. {'; '.join(said)}."
        return figure, words


def _count(layer: Mapping[str, Any], tokens: int) -> str:
    if not layer["sees"] and layer["besides"] == "a state":
        return "carries a state: passes on all"
    seen = reach(layer["sees"], tokens)
    whole, besides = counts_seen(layer["sees"], tokens)
    if (seen == 0.5).any():
        return f"{whole:,} tokens, the rest in blocks"
    return ("at most " * bool((seen == 0.25).any())) + f"{whole + besides:,} of {tokens:,} tokens"


def _words(layer: Mapping[str, Any]) -> str:
    if not (sees := layer["sees"]):
        is_state = layer["besides"] == "a state"
        return "no attention" if is_state else layer["besides"] or "mixes no tokens"
    window = f"the last {sees}" if sees.replace(",", "").isdigit() else sees
    return f"sees {window}".replace("chunks of", "its chunk of")
