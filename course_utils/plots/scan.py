"""The rounds of a scan: which step reads which, and how much of the past each state has seen."""

from matplotlib.figure import Figure

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["scan_rounds"]


def scan_rounds(length: int) -> Figure:
    """Draw the rounds in which ``linear_scan`` goes over ``length`` steps, from top to bottom.

    A circle is a step; the number in it says of how many inputs it is the sum by then. A line leads from each step to
    those that read it in the next round.

    Args:
        length: T, from 2 to 16.

    Raises:
        ValueError: another length.
    """
    if not 2 <= length <= 16:
        raise ValueError(f"length must be from 2 to 16: got {length}")
    rounds = (length - 1).bit_length()
    figure, axes = new_figure(1.4 + 0.8 * rounds)
    for done in range(rounds + 1):
        offset = 2**done
        for step in range(length):
            seen = min(offset, step + 1)
            complete = seen == step + 1
            if done < rounds:
                axes.plot([step, step], [done, done + 1], color=MUTED, linewidth=1, linestyle="-", zorder=1)
            if done < rounds and step + offset < length:
                axes.plot(
                    [step, step + offset], [done, done + 1], color=PALETTE[1], linewidth=1.6, linestyle="-", zorder=1
                )
            colour = PALETTE[0] if complete else PAPER
            axes.plot(step, done, marker="o", markersize=21, color=colour, markeredgecolor=INK, linestyle="", zorder=2)
            ink = PAPER if complete else INK
            axes.text(step, done, str(seen), ha="center", va="center", color=ink, zorder=3)
    axes.set_xticks(range(length), labels=[str(step + 1) for step in range(length)])
    names = ["input"] + [f"after offset {2**done}" for done in range(rounds)]
    axes.set_yticks(range(rounds + 1), labels=names)
    axes.set(xlabel="step", xlim=(-0.6, length - 0.4), ylim=(rounds + 0.45, -0.45))
    axes.grid(False)
    return figure
