"""What SmolLM2 writes with one of nine mistakes in it, and which blocks differ. Chapter 17."""

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters import cached_results_of
from chapters.c17_a_real_llama.figures import agreeing, draw_tokens
from course_utils.plots.style import MUTED, PALETTE, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["broken_llama"]

TOLERANCE, FLOOR, SHOWN = 1e-5, 1e-8, 8  # what compare_layers allows; the lower edge; tokens
RIGHT = "right parts"


def broken_llama(mistake: str = "weight 1 + w", start: str = "0") -> CourseWidget:
    """Return the tokens that SmolLM2 writes with a mistake and without one, over how far each of
    its blocks is off, ready to display.

    Args:
        mistake: one of the nine, as the notebook calls them.
        start: which of the six prompts, ``"0"`` to ``"5"``.
    """
    recorded = cached_results_of("17")("17-each", dict, live=False)
    written, starts = recorded["written"], {str(n): p for n, p in enumerate(recorded["prompts"])}
    mistakes = {name: name for name in written if name != RIGHT}
    chosen = one_of({"mistake": mistakes, "start": starts}, mistake=mistake, start=start)
    own = [tokens[:SHOWN] for tokens in written[RIGHT]]
    texts: dict[str, list[dict[str, Any]]] = {
        name: [
            {"tokens": tokens[:SHOWN], "same": agreeing(first, tokens[:SHOWN])}
            for first, tokens in zip(own, written[name], strict=True)
        ]
        for name in mistakes
    }
    data = {"mistakes": mistakes, "starts": starts, "own": own, "texts": texts}
    more = {"errors": recorded["errors"], "layers": recorded["first"], "loss": recorded["loss"]}
    return _BrokenLlama(chosen, {**data, **more, "tolerance": TOLERANCE})


class _BrokenLlama(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("broken_llama.js"))

    @property
    def x(self) -> Tensor:
        """How far each block's output is off on a prompt, over its largest value: (30,),
        float64."""
        return torch.tensor(self.data["errors"][self.state["mistake"]], dtype=torch.float64)

    def picture(self) -> tuple[Figure, str]:
        mistake, start = self.state["mistake"], int(self.state["start"])
        text = self.data["texts"][mistake][start]
        figure, (tokens, blocks) = new_figure(5.2, nrows=2)
        draw_tokens(
            tokens,
            {"as it came": self.data["own"][start], f"with {mistake}": text["tokens"]},
        )
        errors = self.x.clamp(min=FLOOR)
        for shown, colour in ((errors > TOLERANCE, PALETTE[1]), (errors <= TOLERANCE, MUTED)):
            blocks.plot(shown.nonzero(), errors[shown], "o", color=colour)
        blocks.axhline(TOLERANCE, color=MUTED, linestyle=":")
        blocks.set(yscale="log", ylim=(FLOOR, 1e3), xlabel="after block", ylabel="error")
        blocks.set_title("on a prompt in one pass (above the dotted line: the layer differs)")
        first = self.data["layers"][mistake] or "none"
        return figure, (
            f"SmolLM2 with {mistake}, after «{self.data['starts'][str(start)].strip()}»: "
            f"the first {text['same']} of {SHOWN} tokens are those of the original. Below, the "
            f"error after each of 30 blocks on a prompt: first layer that differs {first}."
        )
