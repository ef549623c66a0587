"""The figures: shown with their words, the same bytes every time, nothing clipped, nothing left to colour alone."""

import base64
import re
import struct
from dataclasses import replace
from itertools import pairwise, product

import matplotlib
import numpy as np
import pytest
from clipping import assert_nothing_is_clipped
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text

from chapters.c01_why_normalize.figures import signal_by_depth
from chapters.c06_the_family.figures import norm_map
from chapters.c09_where_the_time_goes import records
from chapters.c09_where_the_time_goes.figures import recorded_ladder, roofline
from chapters.c09_where_the_time_goes.ladder import Case
from chapters.c10_fused_kernels.figures import row_lanes
from chapters.c12_why_position.figures import sinusoid
from chapters.c13_rope.figures import attenuation
from course_utils import plots
from course_utils.plots import style
from course_utils.rope import sinusoidal
from course_utils.timing import Roofline

NAN, INFINITY = float("nan"), float("inf")
MAPS = np.repeat(np.arange(4)[:, None], 6, axis=1)
PANELS = {
    "layer norm": MAPS,
    "2 groups": 2 * MAPS + np.arange(6) // 3,
    "instance norm": np.arange(24).reshape(4, 6),
    "tanh": np.full((4, 6), -1),
}
LANES = {"loaded": [3.0, 5.0, 0.0, 0.0], "centred": [-1.0, 1.0, -4.0, -4.0]}
POINTS = {f"version {i}": (0.875, 10.0 ** (-i)) for i in range(9)} | {"product": (170.0, 100.0)}
RUNS = [
    {"batch": batch, "seed": seed, "norm": norm, "loss": batch / 9 + seed + (norm == "a")}
    for batch, seed, norm in product((2, 8), range(3), "ab")
]


def error_figure():
    errors = {"one pass": [1e-6, 5e-3, 0.4, NAN], "two passes": [1e-6, 1e-5, 1e-4, 1e-3], "exact": [0, 0, 1e-5, 1e-5]}
    return plots.error_curves([0, 100, 1e3, 1e4], errors, "offset (standard deviations)", "largest error", "Sweep")


def depth_figure():
    signals = {"too large": 10.0 ** np.arange(40), "overflow": [1.0] * 20 + [INFINITY] * 20, "kept": [1.0] * 40}
    return signal_by_depth(signals, "spread")


def heat_figure():
    return plots.heatmap([[1, -2.5], [NAN, 4]], "sample", "feature", value_label="activation", title="A batch")


def bar_figure():
    accuracy = {"batch norm": [0.6, 0.8, NAN], "layer norm": [0.7, 0.75, 0.72]}
    return plots.grouped_bars(accuracy, ["2", "8", "32"], "accuracy (fraction)")


def a_norm_map(arrows=(("layer norm", "2 groups", "G = 2"), ("layer norm", "tanh", "none")), second_line=""):
    notes = {name: f"a note on {name}{second_line}" for name in PANELS}
    return norm_map(PANELS, [["layer norm", "2 groups", "instance norm"], ["tanh"]], arrows, notes)


def a_roofline(**others):
    return roofline(**{"bandwidth_gbps": 20.0, "peak_gflops": 100.0, "points": POINTS, **others})


FIGURES = {
    "error curves": error_figure,
    "signal by depth": depth_figure,
    "heat map": heat_figure,
    "bars": bar_figure,
    "spread": lambda: plots.spread_curves(RUNS, "batch", "loss", "norm", xlabel="batch", ylabel="loss", log_x=True),
    "panels": lambda: plots.spread_curves(RUNS, "batch", "loss", "norm", xlabel="batch", panels="seed", log_y=True),
    "norm map": a_norm_map,
    "lanes": lambda: row_lanes({"a name as long as any": range(16)}, 9),
    "roofline": lambda: a_roofline(),
    "ladder": lambda: recorded_ladder(records.load("cpu"), "rms_norm", "forward", (4096, 1024), "float32"),
    "sinusoid": lambda: sinusoid(sinusoidal(64, 32), pairs=(0, 3)),
    "one pair": lambda: sinusoid(sinusoidal(64, 32)[:9, :2], pairs=(0, 0)),
    "lines": lambda: plots.lines(
        [0, 1], {"PI": [1.0, 0.5], "none": [1.0, 0.0]}, "pair", "g/f", marks={"1 turn": 1}, log_y=True
    ),
    "attenuation": lambda: attenuation({"base 100": [3.0, 2.0]}, {"one": [1.0, 0.5], "other": [0.0, 0.1]}),
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


def test_show_publishes_one_output_with_an_image_that_has_its_alternative_text(shell):
    with capture_output() as captured:
        plots.show(heat_figure(), alt='Two rows, "loud" & quiet')
    (output,) = captured.outputs
    assert output.data.keys() == {"text/html", "text/plain"}
    assert output.data["text/plain"] == 'Figure: Two rows, "loud" & quiet'
    assert 'alt="Two rows, &quot;loud&quot; &amp; quiet"' in output.data["text/html"]
    assert captured.stdout == ""


def test_the_same_figure_gives_the_same_bytes_two_pixels_for_each_of_the_page_and_neither_date_nor_version():
    pages = [plots.image_html(heat_figure(), "a figure") for _ in range(2)]
    assert pages[0] == pages[1]
    assert 'width="760"' in pages[0]
    png = base64.b64decode(re.search(r"base64,([^\"]+)", pages[0])[1])
    assert struct.unpack(">I", png[16:20])[0] == 2 * 760
    assert b"tEXt" not in png
    assert b"tIME" not in png


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())


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
    values = np.linspace(0, 1, 21)
    for text in plots.heatmap([values], "row", "column", number_format=".2f", limits=(0, 1)).axes[0].texts:
        cell = matplotlib.colormaps["cividis"](float(text.get_text()))
        assert contrast(text.get_color(), cell[:3]) >= 4.5


def test_a_nan_is_marked_at_the_top_edge_and_an_exact_zero_at_the_bottom():
    (axes,) = error_figure().axes
    low, high = axes.get_ylim()
    marks = {text.get_text(): text.xy for text in axes.texts if text.get_text() in ("NaN", "0", "∞")}
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


@pytest.mark.parametrize("second_line", ["", "\nforgets offsets"], ids=["one line", "two lines"])
def test_notes_keep_clear_of_each_other_of_arrows_and_of_the_panels_below(second_line):
    figure = a_norm_map(second_line=second_line)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = {text.get_text(): text.get_window_extent() for text in axes.texts if text.get_text()}
    notes = {text: extent for text, extent in texts.items() if text.startswith("a note")}
    arrows = [text.arrow_patch.get_window_extent() for text in axes.texts if getattr(text, "arrow_patch", None)]
    others = [*arrows, *(extent for text, extent in texts.items() if text not in notes)]
    assert len(notes) == len(PANELS)
    assert len(arrows) == 2
    for text, note in notes.items():
        assert note.count_overlaps([*others, *(extent for other, extent in notes.items() if other != text)]) == 0, text


def test_the_roof_is_what_the_machine_attains_and_every_point_has_a_look_of_its_own():
    roof, *others = a_roofline().axes[0].lines
    x, y = roof.get_data()
    np.testing.assert_allclose(y, [min(100.0, 20.0 * intensity) for intensity in x])
    assert Roofline(20.0, 100.0).ridge in x
    points = {line.get_label(): line for line in others if not line.get_label().startswith("_")}
    assert {name: (line.get_xdata()[0], line.get_ydata()[0]) for name, line in points.items()} == POINTS
    looks = {(line.get_marker(), to_hex(line.get_color())) for line in points.values()}
    assert len(looks) == len(POINTS)


def test_a_case_of_a_record_is_drawn_with_all_that_it_holds_and_whiskers_where_several_processes_measured():
    record, case = records.load("cpu"), Case("rms_norm", "forward", (4096, 1024), "float32")
    several, single = (replace(record, provenance={**record.provenance, "processes": n}) for n in (2, 1))
    (axes,) = recorded_ladder(several, **case.fields()).axes
    results = {result["implementation"]: result for result in record.select(**case.fields())}
    assert axes.get_title(loc="left") == f"rms norm, (4096, 1024) float32, forward\n{record.origin}"
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert sorted(names) == sorted(results)
    *whiskers, copy = axes.lines
    assert copy.get_xdata()[0] == results[names[0]]["copy_gbps"]
    for name, bar, whisker in zip(names, axes.patches, whiskers, strict=True):
        moved, (fastest_ms, slowest_ms) = results[name]["bytes_moved"] / 1e6, results[name]["range_ms"]
        assert bar.get_width() == pytest.approx(moved / results[name]["median_ms"])
        assert list(whisker.get_xdata()) == pytest.approx([moved / slowest_ms, moved / fastest_ms])
    assert len(recorded_ladder(single, **case.fields()).axes[0].lines) == 1


@pytest.mark.parametrize("pair", [0, 3])
def test_the_hands_of_a_clock_are_a_shift_apart(pair):
    clock = sinusoid(sinusoidal(64, 32), pairs=(pair, pair)).axes[1]
    hands = [line.get_xydata()[1] for line in clock.lines if line.get_label().startswith("position")]
    turned = np.diff([np.arctan2(y, x) for x, y in hands])[0]
    assert turned % (2 * np.pi) == pytest.approx(3 * 10_000 ** (-2 * pair / 32), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.show(heat_figure(), alt=" \n"), "alt must say what the figure shows"),
        (lambda: plots.error_curves([1, 2], {"a": [1.0, -1.0]}, "x", "y"), "'a' must have no negative value"),
        (lambda: plots.heatmap([1.0, 2.0], "row", "column"), "matrix must have two dimensions"),
        (lambda: plots.spread_curves([], "x", "y", "z", xlabel="x"), "rows must hold at least one run"),
        (lambda: norm_map({**PANELS, "other": MAPS[:2]}, [["layer norm"]], [], {}), r"one shape \(N, C\)"),
        (lambda: a_norm_map([("layer norm", "nowhere", "")]), "arrows must join panels that are drawn: got nowhere"),
        (lambda: row_lanes(LANES, 5), "number of lanes: got 5, 4 lanes"),
        (lambda: a_roofline(points={"copy": (0.0, 1.0)}), "must be positive: got 0"),
        (lambda: recorded_ladder(records.load("cpu"), "rope", "forward", (1, 2), "float32"), "hold the case"),
        (lambda: sinusoid(np.zeros((4, 3)), (0, 0)), "code must be"),
    ],
)
def test_data_that_cannot_be_drawn_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
