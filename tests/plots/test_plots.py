"""The figures: shown with their words, the same bytes every time, nothing clipped, nothing left to
colour alone."""

import base64
import re
import struct
from io import BytesIO
from itertools import pairwise, product

import matplotlib
import numpy as np
import pytest
from clipping import assert_nothing_is_clipped
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from course_utils import plots
from course_utils.plots import style

NAN = float("nan")
RUNS = [
    {"batch": batch, "seed": seed, "norm": norm, "loss": batch / 9 + seed + (norm == "a")}
    for batch, seed, norm in product((2, 8), range(3), "ab")
]


def error_figure():
    errors = {
        "one pass": [1e-6, 5e-3, 0.4, NAN],
        "two passes": [1e-6, 1e-5, 1e-4, 1e-3],
        "exact": [0, 0, 1e-5, 1e-5],
    }
    return plots.error_curves(
        [0, 100, 1e3, 1e4], errors, "offset (standard deviations)", "largest error", "Sweep"
    )


def heat_figure():
    return plots.heatmap(
        [[1, -2.5], [NAN, 4]], "sample", "feature", value_label="activation", title="A batch"
    )


def bar_figure():
    accuracy = {"batch norm": [0.6, 0.8, NAN], "layer norm": [0.7, 0.75, 0.72]}
    return plots.grouped_bars(accuracy, ["2", "8", "32"], "accuracy (fraction)")


FIGURES = {
    "error curves": error_figure,
    "heat map": heat_figure,
    "bars": bar_figure,
    "spread": lambda: plots.spread_curves(
        RUNS, "batch", "loss", "norm", xlabel="batch", ylabel="loss", log_x=True
    ),
    "panels": lambda: plots.spread_curves(
        RUNS, "batch", "loss", "norm", xlabel="batch", panels="seed", log_y=True
    ),
    "lines with names at their ends": lambda: plots.lines(
        [0, 1], {"YaRN": [1.0, 4.0], "a name that takes two lines": [4.0, 1.0]}, "pair", "s"
    ),
    "lines": lambda: plots.lines(
        [0, 1],
        {"PI": [1.0, 0.5], "none": [1.0, 0.0]},
        "pair",
        "g/f",
        marks={"1 turn": 1},
        log_y=True,
    ),
}


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def contrast(one, other):
    """Return the contrast ratio of two colours (WCAG 2)."""

    def luminance(colour):
        linear = [
            v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)
        ]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_show_publishes_one_output_with_an_image_that_has_its_alternative_text(shell):
    with capture_output() as captured:
        plots.show(heat_figure(), alt='Two rows, "loud" & quiet')
    (output,) = captured.outputs
    assert output.data.keys() == {"text/html", "text/plain"}
    assert output.data["text/plain"] == 'Figure: Two rows, "loud" & quiet'
    assert 'alt="Two rows, &quot;loud&quot; &amp; quiet"' in output.data["text/html"]
    assert captured.stdout == ""


def test_the_same_figure_gives_the_same_bytes_with_neither_date_nor_version():
    pages = [plots.image_html(heat_figure(), "a figure") for _ in range(2)]
    assert pages[0] == pages[1]
    assert 'width="760"' in pages[0]
    png = base64.b64decode(re.search(r"base64,([^\"]+)", pages[0])[1])
    assert struct.unpack(">I", png[16:20])[0] == 2 * 760
    assert list(Image.open(BytesIO(png)).text) == ["values"]
    assert b"tIME" not in png


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())


def test_panels_side_by_side_come_a_second_time_one_under_the_other():
    figure = FIGURES["panels"]()
    html = plots.image_html(figure, "losses")
    assert re.match(r'<picture><source media="\(max-width: 500px\)" srcset="data:image', html)
    tops = [axes.get_position().y1 for axes in figure.axes]
    assert tops == sorted(tops, reverse=True)
    assert all(axes.yaxis.get_tick_params()["labelleft"] for axes in figure.axes)
    assert_nothing_is_clipped(figure)


def widths(figure, on_phone=None):
    """The pixels of the page that the images of ``figure`` are wide, the last for a screen."""
    html = plots.image_html(figure, "errors", narrow=True, on_phone=on_phone)
    pngs = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]+)", html)]
    return [struct.unpack(">I", png[16:20])[0] // 2 for png in pngs]


def test_one_panel_comes_a_second_time_as_narrow_as_its_words_leave_room():
    figure = error_figure()
    assert widths(figure) == [480, 760]
    assert_nothing_is_clipped(figure)
    figure, axes = plots.new_figure()
    for place in (0.0, 0.5):
        axes.text(place, 0.5, 22 * "m")  # side by side, these fill the width
    assert widths(figure) == [760]
    lengths = [2**power for power in range(6, 14)]  # eight names do not fit below, four do
    curves = {"a loop in Python": lengths, "attention": np.square(lengths)}
    figure = plots.error_curves(lengths, curves, "length of the sequence", "time (ms)")
    assert widths(figure) == [560, 760]
    named = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert named[-3:] == ["2,048", "", "8,192"]
    cells = plots.heatmap(
        np.eye(9), "a long name of rows", "column", row_names=9 * ["nineteen letters, 2"]
    )
    assert widths(cells) == [560, 760]
    figure, axes = plots.new_figure()
    axes.set_axis_off()
    assert widths(figure) == [760]
    small, _ = plots.new_figure()
    small.set_figwidth(3.6)
    assert widths(figure, on_phone=small) == [360, 760]


def test_only_a_picture_whose_colours_are_values_says_so():
    for name in ("heat map", "bars"):
        says_so = ' class="values" ' in plots.image_html(FIGURES[name](), "a")
        assert says_so == (name == "heat map")


@pytest.mark.parametrize(
    "ends", [[1.0, 1.0, 1.0, 1.0], [1e-6, 1e-6, 1e-6, 1.0], [1.0, 1.0, 1.0, 1e-6]]
)
def test_the_names_of_lines_that_end_together_do_not_touch(ends):
    curves = {f"line {i}": [0.5, end] for i, end in enumerate(ends)}
    figure = plots.error_curves([1, 10], curves, "x", "error")
    figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if text.get_text() in curves]
    # without its leader line
    boxes = sorted((Text.get_window_extent(name) for name in names), key=lambda box: box.y0)
    assert len(boxes) == 4
    for below, above in pairwise(boxes):
        assert above.y0 >= below.y1 - 2  # a letter's box has two pixels of air


def test_every_text_colour_stands_out_from_the_card():
    assert contrast(style.INK, style.PAPER) >= 7
    assert contrast(style.MUTED, style.PAPER) >= 4.5
    values = np.linspace(0, 1, 21)
    for text in (
        plots.heatmap([values], "row", "column", number_format=".2f", limits=(0, 1)).axes[0].texts
    ):
        cell = matplotlib.colormaps["cividis"](float(text.get_text()))
        assert contrast(text.get_color(), cell[:3]) >= 4.5


def test_a_nan_is_marked_at_the_top_edge_and_an_exact_zero_at_the_bottom():
    (axes,) = error_figure().axes
    low, high = axes.get_ylim()
    marks = {
        text.get_text(): text.xy for text in axes.texts if text.get_text() in ("NaN", "0", "∞")
    }
    assert marks["NaN"][0] == 1e4
    assert 0.4 < marks["NaN"][1] < high  # above every finite error
    assert marks["0"][0] == 0
    assert low < marks["0"][1] < 1e-6


def test_a_band_spans_one_standard_deviation_of_the_seeds_and_each_is_a_dot():
    (axes,) = FIGURES["spread"]().axes
    seeds = np.array([2 / 9 + seed + 1 for seed in range(3)])  # norm "a" at batch 2
    line, dots = axes.lines[:2]
    assert line.get_ydata()[0] == pytest.approx(seeds.mean())
    assert list(dots.get_ydata()[:3]) == pytest.approx(list(seeds))
    band = axes.collections[0].get_paths()[0].vertices
    at_two = band[band[:, 0] == 2, 1]
    assert (at_two.min(), at_two.max()) == pytest.approx((seeds.mean() - 1, seeds.mean() + 1))
    assert len(FIGURES["panels"]().axes) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.show(heat_figure(), alt=" \n"), "alt must say what the figure shows"),
        (
            lambda: plots.error_curves([1, 2], {"a": [1.0, -1.0]}, "x", "y"),
            "'a' must have no negative value",
        ),
        (lambda: plots.heatmap([1.0, 2.0], "row", "column"), "matrix must have two dimensions"),
        (
            lambda: plots.spread_curves([], "x", "y", "z", xlabel="x"),
            "rows must hold at least one run",
        ),
    ],
)
def test_data_that_cannot_be_drawn_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
