"""How every figure of the course looks, and how one is shown (every chapter).

A figure is a card of its own colour, so that it reads the same in a light and in a dark notebook.
Series differ by marker, dash or hatching as well as by colour.
"""

import base64
import io
import itertools
import sys
import warnings
from collections.abc import Iterable
from html import escape
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

__all__ = [
    "DASHES",
    "HATCHES",
    "INK",
    "MARKERS",
    "MUTED",
    "PALETTE",
    "PAPER",
    "RULE",
    "as_series",
    "image_html",
    "line_style",
    "marker_style",
    "new_figure",
    "series_of",
    "show",
    "use_style",
]

# Okabe & Ito (2008), distinguishable with every common colour blindness; their yellow is left out,
# because it fades on a light card, and black goes last, because the axes use it.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# One colour for one form of layer norm in every figure, for one way of scaling RoPE, as in
# rope_scaling.js (chapters 15 and 16), and for one way through a recurrence (chapter 12): its place
# in the palette, seven more for another form of it.
SERIES = {
    "one pass": 0,
    "two passes": 1,
    "built-in": 2,
    "centred twice": 3,
    **dict.fromkeys(("by scan", "by your scan"), 0),
    **dict.fromkeys(("LSTM, torch", "by PyTorch's"), 1),
    **dict.fromkeys(("LSTM, loop", "step by step"), 2),
    "attention": 5,
    **dict.fromkeys(("PI", "PI, linear"), 0),
    **dict.fromkeys(("NTK", "NTK-aware"), 1),
    **dict.fromkeys(("YaRN", "YaRN, as run"), 2),
    **dict.fromkeys(("Llama 3", "Llama 3's ramp"), 3),
    **dict.fromkeys(("ABF ×50", "ABF, new base", "another base (ABF), 500,000"), 4),
    **dict.fromkeys(("proportional", "p-RoPE"), 5),
    **dict.fromkeys(("none", "unscaled", "as trained", "RoPE", "config"), 6),
    "dynamic NTK": 8,
    **dict.fromkeys(("by parts", "YaRN, as printed", "YaRN's ramp, as printed"), 9),
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++")
PAPER, INK, MUTED, RULE = "#FAF8F3", "#1F2328", "#57606A", "#DCD8CE"

_WIDTH_PX = 760  # fits a notebook's output area at JupyterLab's usual width
_CSS_DPI = 100  # one inch of figure is 100 pixels of page, so 11 point type is 15 pixels high
_SHARPNESS = 2  # pixels of PNG per pixel of page
_PHONE_PX, _PHONE_LETTERS = 360, 30  # the width of a page there, and of a bold title on it
# one panel: a width, and how much of it a title may fill; below 1 less is drawn. Letters of 11
# points are 11 pixels high there at 480, 9.7 at 560 and 9 at the last, which tests refuse
_NARROW_PX = ((480, 1.0), (560, 1.0), (560, 0.7), (600, 0.7))


def use_style() -> None:
    """Set the course's matplotlib style, for the figures here and for a learner's own ``plt``
    calls."""
    matplotlib.rcParams.update(
        {
            "figure.figsize": (_WIDTH_PX / _CSS_DPI, 4.2),
            "figure.dpi": _CSS_DPI,
            "figure.facecolor": PAPER,
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.h_pad": 0.12,
            "figure.constrained_layout.w_pad": 0.12,
            "savefig.facecolor": PAPER,
            "axes.facecolor": PAPER,
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.titlelocation": "left",
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.prop_cycle": cycler(color=PALETTE) + cycler(linestyle=DASHES),
            "axes.formatter.use_mathtext": True,
            "grid.color": RULE,
            "grid.linewidth": 0.8,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            # comes with matplotlib: the same letters on every machine
            "font.family": "DejaVu Sans",
            "font.size": 11,
            "legend.frameon": False,
            "lines.linewidth": 2.0,
            "lines.markersize": 6.5,
            "hatch.linewidth": 0.8,
            "image.cmap": "cividis",
        }
    )


def new_figure(height: float = 4.2, **subplots: Any) -> tuple[Figure, Any]:
    """Return a figure as wide as the page, ``height`` inches high, and its axes, without touching
    ``pyplot``.

    Args:
        height: in inches; one inch is 100 pixels of the page.
        subplots: passed to ``Figure.subplots``.
    """
    use_style()
    figure = Figure(figsize=(_WIDTH_PX / _CSS_DPI, height))
    return figure, figure.subplots(**subplots)


def image_html(
    figure: Figure, alt: str, *, narrow: bool = False, on_phone: Figure | None = None
) -> str:
    """Return ``figure`` as an ``<img>`` element with its alternative text; the same figure gives
    the same bytes.

    A second image is for a narrow screen, and ``figure`` stays so: panels side by side come one
    under the other, and with ``narrow``, which takes some tenths of a second, other figures are
    drawn as narrow as their words leave room; or it is ``on_phone``. An image whose colours are
    values has the class ``values``, for a page that turns colours round.

    Raises:
        ValueError: the alternative text is empty.
    """
    if not alt.strip():
        raise ValueError(
            f"alt must say what the figure shows, for those who cannot see it: got {alt!r}"
        )
    values = 'class="values" ' if any(map(_has_values, figure.axes)) else ""
    width = round(figure.get_figwidth() * _CSS_DPI)
    style = "max-width:100%;height:auto;border-radius:6px"
    image = (
        f'<img alt="{escape(alt)}" {values}width="{width}" style="{style}" src="{_data(figure)}">'
    )
    if on_phone is None and not _stack(figure) and not (narrow and _narrow(figure)):
        return image
    source = f'<source media="(max-width: 500px)" srcset="{_data(on_phone or figure)}">'
    return f"<picture>{source}{image}</picture>"


def _data(figure: Figure) -> str:
    """Return ``figure`` as a PNG in a ``data:`` address."""
    png = io.BytesIO()
    # matplotlib would write its own version into the file, which changes the bytes from one install
    # to another
    figure.savefig(png, format="png", dpi=_CSS_DPI * _SHARPNESS, metadata={"Software": None})
    small = io.BytesIO()
    info = PngInfo()
    if boxes := _value_boxes(figure):
        info.add_text("values", " ".join(map(str, boxes)))
    # a third of the bytes, for the eye the same
    picture = Image.open(png).convert("RGB").quantize(256)
    picture.save(small, format="png", optimize=True, pnginfo=info)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode('ascii')}"


def _value_boxes(figure: Figure) -> list[int]:
    """Return left, top, right and bottom, in pixels of the PNG, of all panels whose colours are
    values, and of their colour bars: there a dark page keeps the colours."""
    width, height = figure.get_size_inches() * _CSS_DPI * _SHARPNESS
    boxes: list[int] = []
    for axes in figure.axes:
        if _has_values(axes) or axes.get_label() == "<colorbar>":
            left, bottom, right, top = axes.get_position().extents  # shares, from below
            edges = (left * width, (1 - top) * height, right * width, (1 - bottom) * height)
            boxes += map(round, edges)
    return boxes


def _has_values(axes: Axes) -> bool:
    arrays = [image.get_array() for image in axes.images]
    return any(array is not None and array.ndim == 2 for array in arrays)


def _stack(figure: Figure) -> bool:
    """Put panels that stand side by side one under the other; return whether there were any."""
    placed = [(axes, axes.get_subplotspec()) for axes in figure.axes]
    panels = [axes for axes, place in placed if place is not None]
    grids = {place.get_gridspec() for _, place in placed if place is not None}
    if len(panels) < 2 or len(grids) > 1 or grids.pop().nrows > 1:
        return False
    height = min(figure.get_figheight(), _PHONE_PX / _CSS_DPI)
    figure.set_size_inches(_PHONE_PX / _CSS_DPI, height * len(panels))
    first = panels[0]
    rows = GridSpec(len(panels), 1, figure)
    for row, axes in enumerate(panels):
        axes.set_subplotspec(rows[row])
        axes.set_title(_filled(axes.get_title("left")))
        if axes.get_shared_y_axes().joined(axes, first):  # only the first had the scale
            axes.tick_params(labelleft=first.yaxis.get_tick_params()["labelleft"])
            axes.set_ylabel(axes.get_ylabel() or first.get_ylabel())
    _set_legends_in_two_columns(figure)
    if title := figure.get_suptitle():
        figure.suptitle(_filled(title), x=0.02, ha="left", weight="bold", fontsize=12)
    return True


def _filled(title: str, letters: int = _PHONE_LETTERS) -> str:
    return "\n".join(fill(line, letters) for line in title.split("\n"))


def _set_legends_in_two_columns(figure: Figure) -> None:
    """Set the legends below the panels as high as other words, in as many lines as that takes."""
    for legend in list(figure.legends):
        handles = [handle for handle in legend.legend_handles if handle]
        names = [text.get_text() for text in legend.get_texts()]
        figure.legend(handles, names, loc="outside lower center", ncols=2)
        legend.remove()


def _narrow(figure: Figure) -> bool:
    """Draw ``figure`` as narrow as its words allow without lying over one another; return whether
    it became narrower. A diagram without scales stays: its boxes are made for their words."""
    if not all(axes.axison for axes in figure.axes):
        return False
    (width, height), crowded = figure.get_size_inches(), _collisions(figure)
    titles = {axes: axes.get_title("left") for axes in figure.axes}
    _set_legends_in_two_columns(figure)
    for narrow, share in _NARROW_PX:
        if narrow / _CSS_DPI >= width:
            break
        if share < 1:
            _lighten(figure)
        for axes, title in titles.items():
            axes.set_title(_filled(title, round(share * narrow * _PHONE_LETTERS / _PHONE_PX)))
        figure.set_size_inches(narrow / _CSS_DPI, height)
        if _collisions(figure) <= crowded:
            return True
    figure.set_size_inches(width, height)
    return False


def _lighten(figure: Figure) -> None:
    """Leave out the colour bar beside cells that hold their numbers, and of an axis that names each
    place every second name: the last stays."""
    for axes in figure.axes:
        if axes.images and axes.texts:
            for image in axes.images:
                if image.colorbar:
                    image.colorbar.remove()
        elif isinstance(axes.xaxis.get_major_locator(), FixedLocator):
            names = [label.get_text() for label in axes.get_xticklabels()]
            names[-2::-2] = [""] * (len(names) // 2)
            axes.set_xticks(axes.get_xticks(), labels=names)


def _collisions(figure: Figure) -> set[tuple[str, ...]]:
    """Return the pairs of words that touch one another, and the words over the figure's edge."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            figure.draw_without_rendering()
        except UserWarning:
            return {("no room for the axes",)}
    words = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:  # not drawn
                words = [text for text in words if text not in (tick.label1, tick.label2)]
    boxes = [(text.get_text(), text.get_window_extent().padded(2)) for text in words]
    pairs: set[tuple[str, ...]] = {
        (a, b) for (a, one), (b, other) in itertools.combinations(boxes, 2) if one.overlaps(other)
    }
    paper = figure.bbox.padded(2)
    for word, box in boxes:
        if not (paper.contains(box.x0, box.y0) and paper.contains(box.x1, box.y1)):
            pairs.add((word,))
    return pairs


def show(figure: Figure, alt: str, on_phone: Figure | None = None) -> None:
    """Show ``figure`` in the notebook with an alternative text, and close it.

    Args:
        figure: any matplotlib figure.
        alt: what the figure shows, in a sentence or two; nbval compares it, and a screen reader
            says it.
        on_phone: the same for a narrow screen, where it is not the panels one under the other.

    Raises:
        ValueError: the alternative text is empty.
    """
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display

    html, text = image_html(figure, alt, narrow=True, on_phone=on_phone), f"Figure: {alt}"
    if InteractiveShell.initialized():
        display({"text/html": html, "text/plain": text}, raw=True)
    else:
        print(text)
    if "matplotlib.pyplot" in sys.modules:  # without pyplot nothing holds on to the figure
        sys.modules["matplotlib.pyplot"].close(figure)


def series_of(names: Iterable[Any]) -> list[int]:
    """Return the series of each line: that of a form of layer norm and of a way of scaling RoPE is
    always the same, the others take what is free."""
    own = [SERIES.get(name) for name in names]
    free = (series for series in itertools.count() if series not in own)
    return [next(free) if series is None else series for series in own]


def line_style(series: int) -> dict[str, Any]:
    """Return the colour and the dash of a line, by its place among the others."""
    turn, place = divmod(series, len(PALETTE))
    return {"color": PALETTE[place], "linestyle": DASHES[(place + turn) % len(DASHES)]}


def marker_style(series: int) -> dict[str, Any]:
    """Return a marker, with an edge: the palette's lightest colours stand out too little from the
    card."""
    return {
        "marker": MARKERS[series % len(MARKERS)],
        "markeredgecolor": INK,
        "markeredgewidth": 0.7,
    }


def as_series(name: str, values: ArrayLike, length: int) -> NDArray[np.float64]:
    """Return ``values`` as float64 (length,).

    Raises:
        ValueError: there are more or fewer values than ``length``.
    """
    series = np.asarray(values, dtype=float)
    if series.shape != (length,):
        raise ValueError(
            f"{name!r} must have one value per position: got shape {series.shape}, need ({length},)"
        )
    return series
