"""What a model writes with each part, token by token."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, new_figure

__all__ = ["agreeing", "draw_tokens", "written", "written_on_phone"]


def written(tokens: Mapping[str, Sequence[str]]) -> Figure:
    """Draw a row of tokens for each part; the first that is another than the first row's is filled,
    and those after it are grey: they go on from another text.

    Args:
        tokens: by the name of a part, as many tokens as the first has.
    """
    figure, axes = new_figure(0.5 + 0.75 * len(tokens))
    draw_tokens(axes, tokens)
    return figure


def written_on_phone(tokens: Mapping[str, Sequence[str]]) -> Figure:
    """Draw what ``written`` draws, half as wide, with four tokens in a line."""
    figure, axes = new_figure(0.5 + 1.2 * len(tokens))
    figure.set_figwidth(3.8)
    draw_tokens(axes, tokens, in_a_line=4)
    return figure


def agreeing(first: Sequence[str], own: Sequence[str]) -> int:
    """Return how many tokens, from the beginning, are the same in both."""
    same = [a == b for a, b in zip(first, own, strict=False)]
    return [*same, False].index(False)


def draw_tokens(axes: Axes, tokens: Mapping[str, Sequence[str]], in_a_line: int = 8) -> None:
    """Draw ``tokens`` as ``written`` does, each in a box a little wider than its letters."""
    first = next(iter(tokens.values()))
    starts = range(0, len(first), in_a_line)
    lines = [own[start : start + in_a_line] for own in tokens.values() for start in starts]
    longest = max(sum(len(_shown(token)) + 1.3 for token in line) for line in lines)
    figure = axes.get_figure(root=True)
    assert figure is not None
    size = min(12.5, 103 * figure.get_figwidth() / longest)
    height = 0.4 + 0.6 * len(starts)  # of a part, with its name
    for row, (part, own) in enumerate(tokens.items()):
        top, left = row * height, 0.0
        axes.text(0, top - 0.36, part, weight="bold", fontsize=12, va="center")
        same = agreeing(first, own)
        fills = [*[PAPER] * same, PALETTE[4], *[RULE] * len(own)]
        for column, (token, fill) in enumerate(zip(own, fills, strict=False)):
            if column and column in starts:
                top, left = top + 0.6, 0.0
            edge, width = INK if column == same else RULE, len(_shown(token)) + 1.0
            box = Rectangle((left, top - 0.2), width, 0.5, facecolor=fill, edgecolor=edge)
            axes.add_patch(box)
            middle = left + width / 2, top + 0.05
            axes.text(*middle, _shown(token), ha="center", va="center", fontsize=size)
            left += width + 0.3
    axes.set(xlim=(-0.1, longest), ylim=(height * len(tokens) - 0.55, -0.6))
    colours = {"the first that differs": PALETTE[4], "after it": RULE}
    keys = [Patch(facecolor=fill, edgecolor=RULE, label=name) for name, fill in colours.items()]
    short = {"ncols": 2, "handlelength": 1.2, "columnspacing": 1.0}
    axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1, 0.98), **short)
    axes.axis("off")


def _shown(token: str) -> str:
    text = token.replace("\n", "⏎").strip() or "␣"
    return text if len(text) <= 10 else text[:9] + "…"
