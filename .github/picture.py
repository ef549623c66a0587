"""The moving picture of README.md, course.gif: a wrong answer with its named mistakes and the
smallest input that shows them, then RoPE's clocks dragged. ``python .github/picture.py`` makes it
anew, in a minute; the check's report and the widget are those of the course as it is."""

import io
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from chapters import check
from chapters.c14_rope.widgets import rope_clocks

_SIZE, _DPI, _COLOURS = (9.0, 4.6), 90, 48
_WRONG = """\
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(dims, keepdim=True)
    std = x.std(dims, keepdim=True)
    y = (x - mean) / (std + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
"""


def _frames() -> Iterator[tuple[Figure, int]]:
    """Yield the figures of the moving picture, each with its milliseconds."""
    names: dict[str, Any] = {}
    exec(_WRONG, names)
    report = check.layer_norm(names["layer_norm"], record=False)
    count = f"{sum(one.passed for one in report.probes)} of {len(report.probes)} right"
    told = [
        f"layer_norm: {report.verdict}, {count}",
        "",
        *wrap(" ".join(report.points), 84),
        "",
        "It shows in:",
    ]
    told += [
        *(f"  {line}" for line in getattr(report.evidence, "lines", tuple)()),
        "",
        *wrap(f"Hint: {report.mistakes[0].hint}", 84),
    ]
    text: dict[str, Any] = {"family": "monospace", "va": "top", "color": "#212121"}
    for shown in (False, True):
        figure = Figure(_SIZE, facecolor="white")
        figure.text(0.03, 0.96, f"{_WRONG}\ncheck.layer_norm(layer_norm)", size=10, **text)
        box: dict[str, Any] = {
            "facecolor": "#fff3e0",
            "edgecolor": "#ef6c00",
            "boxstyle": "square,pad=0.6",
        }
        figure.text(0.04, 0.51, "\n".join(told), size=8.5, bbox=box, visible=shown, **text)
        yield figure, 6000 if shown else 1800
    clocks = rope_clocks()
    for distance in (*range(33), *range(32, -1, -2)):
        clocks.state = {**clocks.state, "distance": distance}
        figure, _ = clocks.picture()
        figure.set_size_inches(*_SIZE)
        yield figure, 1200 if distance in (0, 32) else 90


def main() -> None:
    """Write the picture beside this file."""
    images, durations = [], []
    for figure, duration in _frames():
        data = io.BytesIO()
        figure.savefig(data, dpi=_DPI, format="png")
        images.append(Image.open(data).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE))
        durations.append(duration)
    images[0].save(
        Path(__file__).with_name("course.gif"),
        save_all=True,
        append_images=images[1:],
        duration=durations,
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    main()
