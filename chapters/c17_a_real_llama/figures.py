"""What a model writes with each part, token by token."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, new_figure

__all__ = ["draw_tokens", "kept", "written"]


def written(tokens: Mapping[str, Sequence[str]]) -> Figure:
    """Draw a row of tokens for each part; those that the first row does not have, in that order,
    are filled.

    Args:
        tokens: by the name of a part, as many tokens as the first has.
    """
    figure, axes = new_figure(0.5 + 0.75 * len(tokens))
    draw_tokens(axes, tokens)
    return figure


def kept(first: Sequence[str], own: Sequence[str]) -> list[bool]:
    """Return of each of ``own`` whether ``first`` has it too, in that order."""
    blocks = SequenceMatcher(None, first, own, autojunk=False).get_matching_blocks()
    same = {block.b + i for block in blocks for i in range(block.size)}
    return [column in same for column in range(len(own))]


def draw_tokens(axes: Axes, tokens: Mapping[str, Sequence[str]]) -> None:
    """Draw ``tokens`` as ``written`` does."""
    first = next(iter(tokens.values()))
    for row, (part, own) in enumerate(tokens.items()):
        axes.text(0, row - 0.36, part, weight="bold", fontsize=11, va="center")
        for column, (token, same) in enumerate(zip(own, kept(first, own), strict=True)):
            fill, edge = (PAPER, RULE) if same else (PALETTE[4], INK)
            axes.add_patch(
                Rectangle((column, row - 0.2), 0.95, 0.5, facecolor=fill, edgecolor=edge)
            )
            text = token.replace("\n", "⏎").strip() or "␣"
            shown = text if len(text) <= 10 else text[:9] + "…"
            axes.text(column + 0.475, row + 0.05, shown, ha="center", va="center", fontsize=10)
    axes.set(xlim=(-0.02, len(first)), ylim=(len(tokens) - 0.55, -0.6))
    axes.axis("off")
