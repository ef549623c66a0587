"""The ladder's picture: bars as long as the bandwidths, the fastest on top, and a line where a copy stands."""

from dataclasses import replace
from itertools import pairwise

import pytest

from course_utils import plots, recorded
from course_utils.timing.bench import Case
from course_utils.timing.bench.sweep import cases

GBPS = {"eager": 5.0, "built-in": 36.0, "compiled": 21.0}


def test_bars_rise_to_the_copy_and_say_how_far_they_got():
    (axes,) = plots.ladder(GBPS, copy_gbps=40.0, title="layer norm").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["eager", "compiled", "built-in"]  # from the bottom
    assert [bar.get_width() for bar in axes.patches] == [5.0, 21.0, 36.0]
    assert list(axes.lines[0].get_xdata()) == [40.0, 40.0]
    assert axes.lines[0].get_linestyle() == "--"  # as the label below says
    assert axes.get_xlim()[0] == 0
    assert [text.get_text() for text in axes.texts][-1] == "36 GB/s, 90% of a copy"
    assert axes.get_title(loc="left") == "layer norm"
    assert axes.get_xlabel().endswith("dashed: a copy of the same size")


def test_no_words_lie_on_a_bar_or_the_line_of_the_copy():
    figure = plots.ladder(GBPS | {"an implementation with a long name": 55.0}, copy_gbps=40.0)
    figure.canvas.draw()
    (axes,) = figure.axes
    longest = axes.transData.transform((55.0, 0))[0]  # a bar may be longer than the copy's
    assert min(text.get_window_extent().x0 for text in axes.texts) > longest
    assert max(text.get_window_extent().x1 for text in axes.texts) < figure.bbox.x1


def test_words_of_neighbouring_bars_stay_apart_however_many_there_are():
    figure = plots.ladder({f"loops, {rung}": 0.01 * rung for rung in range(1, 31)}, copy_gbps=40.0)
    figure.canvas.draw()
    (axes,) = figure.axes
    words = [text.get_window_extent() for text in axes.texts]
    assert all(lower.y1 < upper.y0 for lower, upper in pairwise(words))


def test_a_whisker_spans_what_several_processes_measured_and_stays_clear_of_the_words():
    ranges = {"eager": (4.0, 6.0), "built-in": (30.0, 60.0), "compiled": (20.0, 22.0)}
    figure = plots.ladder(GBPS, copy_gbps=40.0, ranges_gbps=ranges)
    figure.canvas.draw()
    (axes,) = figure.axes
    *whiskers, _ = axes.lines
    assert [(tuple(line.get_xdata()), line.get_ydata()[0]) for line in whiskers] == [
        ((4.0, 6.0), 0),
        ((20.0, 22.0), 1),
        ((30.0, 60.0), 2),
    ]
    assert {(line.get_linestyle(), line.get_marker()) for line in whiskers} == {("-", "|")}
    assert axes.get_xlabel().endswith("\nthe line on a bar: from the slowest measurement to the fastest")
    assert min(text.get_window_extent().x0 for text in axes.texts) > axes.transData.transform((60.0, 0))[0]


@pytest.mark.parametrize(("gbps", "copy"), [({"none": 0.0}, 40.0), (GBPS, -1.0)])
def test_what_is_not_positive_is_refused(gbps, copy):
    with pytest.raises(ValueError, match="must be positive: got"):
        plots.ladder(gbps, copy)


def test_a_case_of_a_record_is_drawn_with_every_implementation_that_it_holds_and_its_machine():
    record = recorded.load("cpu")
    case = Case("rms_norm", "forward", (4096, 1024), "float32")
    (axes,) = plots.recorded_ladder(record, **case.fields()).axes
    results = list(record.select(**case.fields()))
    assert len(axes.patches) == len(results) > 3
    assert axes.get_title(loc="left").startswith("rms norm, (4096, 1024) float32, forward")
    assert record.origin in axes.get_title(loc="left")
    fastest = min(results, key=lambda result: result["median_ms"])
    assert axes.get_yticklabels()[-1].get_text() == fastest["implementation"]
    assert axes.patches[-1].get_width() == pytest.approx(fastest["bytes_moved"] / fastest["median_ms"] / 1e6)


def test_a_records_whiskers_span_the_median_times_of_its_processes_where_it_had_several():
    record, case = recorded.load("cpu"), Case("rms_norm", "forward", (4096, 1024), "float32")
    several, single = (replace(record, provenance={**record.provenance, "processes": n}) for n in (2, 1))
    (axes,) = plots.recorded_ladder(several, **case.fields()).axes
    by_name = {result["implementation"]: result for result in record.select(**case.fields())}
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    *whiskers, copy = axes.lines
    for name, whisker in zip(names, whiskers, strict=True):
        fastest_ms, slowest_ms = by_name[name]["range_ms"]
        gbps = [by_name[name]["bytes_moved"] / ms / 1e6 for ms in (slowest_ms, fastest_ms)]
        assert list(whisker.get_xdata()) == pytest.approx(gbps)
    assert copy.get_xdata()[0] == by_name[names[0]]["copy_gbps"]
    (axes,) = plots.recorded_ladder(single, **case.fields()).axes
    assert len(axes.lines) == 1


def test_a_case_that_a_record_lacks_is_an_error_that_names_both():
    with pytest.raises(
        ValueError, match=r"record must hold the case: got cpu, without rope, \(1, 2\) float32, forward"
    ):
        plots.recorded_ladder(recorded.load("cpu"), "rope", "forward", (1, 2), "float32")


def test_a_gpus_sweep_has_the_cases_that_chapters_09_and_10_draw():
    drawn = {
        Case("layer_norm", "forward", (8192, 4096), "bfloat16"),
        Case("layer_norm", "forward+backward", (8192, 4096), "bfloat16"),
        Case("rms_norm", "forward+backward", (8192, 4096), "bfloat16"),
        Case("rope", "forward", (1, 32, 4096, 128), "bfloat16"),
    }
    assert drawn <= set(cases("cuda"))
