"""The figures: shown with their words, the same bytes every time, nothing clipped, nothing left to colour alone."""

import base64
import re
import struct
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from clipping import assert_nothing_is_clipped
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from course_utils import plots
from course_utils.plots import style
from course_utils.widgets import (
    AxisState,
    NeighbourState,
    RowState,
    axis_explorer_figure,
    batch_neighbours_figure,
    normalize_row_figure,
)

NAN, INFINITY = float("nan"), float("inf")


def error_figure():
    errors = {"one pass": [1e-6, 5e-3, 0.4, NAN], "two passes": [1e-6, 1e-5, 1e-4, 1e-3], "exact": [0, 0, 1e-5, 1e-5]}
    return plots.error_curves(
        [0, 100, 1e3, 1e4], errors, "offset (standard deviations)", "largest error", "Offset sweep"
    )


def depth_figure():
    depth = np.arange(40)
    return plots.signal_by_depth(
        {"too large": 10.0**depth, "overflow": [1.0] * 20 + [INFINITY] * 20, "kept": depth * 0 + 1}
    )


def heat_figure():
    return plots.heatmap([[1, -2.5], [NAN, 4]], "sample", "feature", value_label="activation", title="A batch")


def bar_figure():
    accuracy = {"batch norm": [0.6, 0.8, NAN], "layer norm": [0.7, 0.75, 0.72]}
    errors = {name: [0.02, 0.03, 0.01] for name in accuracy}
    return plots.grouped_bars(accuracy, ["2", "8", "32"], "accuracy (fraction)", xlabel="batch size", errors=errors)


def explorer_figure(norm="batch", layout="B,C,H,W", groups=2, **sizes):
    sizes = {"B": 3, "C": 6, "H": 3, "W": 3, "T": 5, **sizes}
    return plots.axis_explorer(axis_explorer_figure(AxisState(norm, layout, sizes, groups)))


def row_figure(**changes):
    state = RowState(**changes)
    return plots.normalize_row(state, normalize_row_figure(state))


def neighbours_figure(**changes):
    state = NeighbourState(**changes)
    refusal = "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 4])"
    return plots.batch_neighbours(state, batch_neighbours_figure(state), refusal)


FIGURES = {
    "error curves": error_figure,
    "signal by depth": depth_figure,
    "heat map": heat_figure,
    "bars": bar_figure,
    "axis explorer": explorer_figure,
    "axis explorer, largest": lambda: explorer_figure(B=4, C=8, H=4, W=4),
    "axis explorer, one element": lambda: explorer_figure("layer", B=1, C=1, H=1, W=1),
    "axis explorer, sequence": lambda: explorer_figure("group", "B,T,C", groups=3),
    "axis explorer, refused": lambda: explorer_figure("group", groups=4),
    "row": row_figure,
    "row of NaN": lambda: row_figure(offset=1e4, arithmetic="one-pass"),
    "neighbours": neighbours_figure,
    "neighbours, refused": lambda: neighbours_figure(batch=1),
}


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def contrast(one, other):
    """Return the contrast ratio of two colours (WCAG 2)."""

    def luminance(colour):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def texts_of(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]


def test_show_publishes_one_output_with_an_image_that_has_its_alternative_text(shell):
    with capture_output() as captured:
        plots.show(heat_figure(), alt='Two rows, "loud" & quiet')
    (output,) = captured.outputs
    assert output.data.keys() == {"text/html", "text/plain"}
    assert output.data["text/plain"] == 'Figure: Two rows, "loud" & quiet'
    assert 'alt="Two rows, &quot;loud&quot; &amp; quiet"' in output.data["text/html"]
    assert re.search(r'src="data:image/png;base64,[A-Za-z0-9+/=]+"', output.data["text/html"])
    assert captured.stdout == ""


def test_show_closes_the_figure_of_a_learner_who_uses_pyplot(shell):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, _ = pyplot.subplots()
    with capture_output():
        plots.show(figure, alt="empty axes")
    assert pyplot.get_fignums() == []


def test_show_says_the_figure_in_words_outside_a_notebook(capsys):
    plots.show(heat_figure(), alt="two rows")
    assert capsys.readouterr().out == "Figure: two rows\n"


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_show_refuses_a_figure_without_an_alternative_text(alt):
    with pytest.raises(ValueError, match="alt must say what the figure shows"):
        plots.show(heat_figure(), alt=alt)


def png_of(figure):
    html = plots.image_html(figure, "a figure")
    return html, base64.b64decode(re.search(r"base64,([^\"]+)", html)[1])


def test_the_picture_has_two_pixels_for_each_of_the_page_and_fits_the_notebook():
    html, png = png_of(heat_figure())
    width, _ = struct.unpack(">II", png[16:24])
    assert 'width="760"' in html
    assert width == 2 * 760
    assert "max-width:100%" in html


@pytest.mark.parametrize("name", ["heat map", "error curves", "axis explorer"])
def test_the_same_figure_gives_the_same_bytes_and_says_neither_date_nor_version(name):
    first, second = png_of(FIGURES[name]())[1], png_of(FIGURES[name]())[1]
    assert first == second
    assert b"tEXt" not in first
    assert b"tIME" not in first


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    figure = FIGURES[name]()
    assert_nothing_is_clipped(figure)


@pytest.mark.parametrize("ends", [[1.0, 1.0, 1.0, 1.0], [1e-6, 1e-6, 1e-6, 1.0], [1.0, 1.0, 1.0, 1e-6]])
def test_the_names_of_lines_that_end_together_do_not_touch(ends):
    curves = {f"line {i}": [0.5, end] for i, end in enumerate(ends)}
    figure = plots.error_curves([1, 10], curves, "x", "error")
    figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if text.get_text() in curves]
    boxes = sorted((Text.get_window_extent(name) for name in names), key=lambda box: box.y0)  # without its leader line
    assert len(boxes) == 4
    for below, above in pairwise(boxes):
        assert above.y0 >= below.y1 - 2  # a letter's box has two pixels of air


def test_every_text_colour_stands_out_from_the_card():
    assert contrast(style.INK, style.PAPER) >= 7
    assert contrast(style.MUTED, style.PAPER) >= 4.5
    for value in np.linspace(0, 1, 21):
        figure = plots.heatmap([[0, value, 1]], "row", "column")
        cell = matplotlib.colormaps["cividis"](value)
        (text,) = [t for t in figure.findobj(Text) if t.get_position() == (1, 0) and t.get_text() == f"{value:.2f}"]
        assert contrast(text.get_color(), cell[:3]) >= 4.5


def test_series_differ_by_marker_dash_and_hatching_as_well_as_by_colour():
    for looks in (style.PALETTE, style.MARKERS, style.DASHES, style.HATCHES):
        assert len(set(looks)) == len(style.PALETTE)
    (axes,) = error_figure().axes
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert len({line.get_linestyle() for line in lines}) == 3
    bars = bar_figure().axes[0].containers
    assert (
        len({container[0].get_hatch() for container in bars if container.get_label() in ("batch norm", "layer norm")})
        == 2
    )


def test_a_nan_is_marked_at_the_top_edge_and_an_exact_zero_at_the_bottom():
    (axes,) = error_figure().axes
    low, high = axes.get_ylim()
    marks = {text.get_text(): text.xy for text in axes.texts if text.get_text() in ("NaN", "0", "∞")}
    assert marks["NaN"][0] == 1e4
    assert high / 10 < marks["NaN"][1] < high
    assert marks["NaN"][1] > 0.4  # above every finite error
    assert marks["0"][0] == 0
    assert low < marks["0"][1] < 1e-6


def test_every_line_is_named_at_its_end():
    assert {"one pass", "two passes", "exact"} <= set(texts_of(error_figure()))
    assert {"too large", "overflow", "kept", "∞"} <= set(texts_of(depth_figure()))


def test_a_missing_value_is_written_where_its_bar_or_cell_would_be():
    assert "NaN" in texts_of(bar_figure())
    assert "NaN" in texts_of(heat_figure())
    assert texts_of(row_figure(offset=1e4, arithmetic="one-pass")).count("NaN") == 8


def test_the_static_explorer_numbers_every_element_and_quotes_pytorch_where_it_refuses():
    numbers = [text for text in texts_of(explorer_figure("layer", "B,T,C", B=2, T=2, C=3)) if text in set("0123456789")]
    assert sorted(numbers) == sorted("000111222333" + "1")  # and the heading of the second sample
    assert any(
        "num_channels (6) must be divisible by num_groups (4)" in t
        for t in texts_of(FIGURES["axis explorer, refused"]())
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.error_curves([1, 2], {"a": [1.0]}, "x", "y"), "'a' must have one value per position"),
        (lambda: plots.error_curves([1, 2], {"a": [1.0, -1.0]}, "x", "y"), "'a' must have no negative value"),
        (lambda: plots.signal_by_depth({"a": [1.0, 2.0], "b": [1.0]}), "'b' must have one value per position"),
        (lambda: plots.grouped_bars({"a": [1.0]}, ["x", "y"], "z"), "'a' must have one value per position"),
        (lambda: plots.heatmap([1.0, 2.0], "row", "column"), "matrix must have two dimensions"),
    ],
)
def test_data_of_the_wrong_shape_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
