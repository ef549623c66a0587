"""What a model writes with each part, token by token."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, new_figure

__all__ = ["agreeing", "draw_tokens", "written"]


def written(tokens: Mapping[str, Sequence[str]]) -> Figure:
    """Draw a row of tokens for each part; the first that is another than the first row's is filled,
    and those after it are grey: they go on from another text.

    Args:
        tokens: by the name of a part, as many tokens as the first has.
    """
    figure, axes = new_figure(0.5 + 0.75 * len(tokens))
    draw_tokens(axes, tokens)
    return figure


def agreeing(first: Sequence[str], own: Sequence[str]) -> int:
    """Return how many tokens, from the beginning, are the same in both."""
    same = [a == b for a, b in zip(first, own, strict=False)]
    return [*same, False].index(False)


def draw_tokens(axes: Axes, tokens: Mapping[str, Sequence[str]]) -> None:
    """Draw ``tokens`` as ``written`` does, each in a box a little wider than its letters."""
    first = next(iter(tokens.values()))
    longest = max(sum(len(_shown(token)) + 1.3 for token in own) for own in tokens.values())
    size = min(12.5, 780 / longest)
    for row, (part, own) in enumerate(tokens.items()):
        axes.text(0, row - 0.36, part, weight="bold", fontsize=12, va="center")
        same, left = agreeing(first, own), 0.0
        fills = [*[PAPER] * same, PALETTE[4], *[RULE] * len(own)]
        for column, (token, fill) in enumerate(zip(own, fills, strict=False)):
            edge, width = INK if column == same else RULE, len(_shown(token)) + 1.0
            box = Rectangle((left, row - 0.2), width, 0.5, facecolor=fill, edgecolor=edge)
            axes.add_patch(box)
            middle = left + width / 2, row + 0.05
            axes.text(*middle, _shown(token), ha="center", va="center", fontsize=size)
            left += width + 0.3
    axes.set(xlim=(-0.1, longest), ylim=(len(tokens) - 0.55, -0.6))
    colours = {"the first that differs": PALETTE[4], "after it": RULE}
    keys = [Patch(facecolor=fill, edgecolor=RULE, label=name) for name, fill in colours.items()]
    axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, fontsize=12)
    axes.axis("off")


def _shown(token: str) -> str:
    text = token.replace("\n", "⏎").strip() or "␣"
    return text if len(text) <= 10 else text[:9] + "…"
