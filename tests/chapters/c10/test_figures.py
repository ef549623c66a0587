"""The figures of chapter 10: a roof that the machine attains, and a case of a record with all that
it holds."""

from dataclasses import replace

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped
from matplotlib.colors import to_hex

from chapters.c10_where_the_time_goes import records
from chapters.c10_where_the_time_goes.figures import (
    against_bytes,
    bandwidth_by_size,
    recorded_ladder,
    roofline,
    timeline,
    traces,
)
from chapters.c10_where_the_time_goes.ladder import Case
from course_utils.timing import Roofline

POINTS = {f"version {i}": (0.875, 10.0 ** (-i)) for i in range(9)} | {"product": (170.0, 100.0)}

SPELLINGS = (
    {"deviation written twice": 9.3, "two passes": 5.4, "fewer operators": 14.0, "built-in": 1.1},
    {"deviation written twice": 8.7, "two passes": 4.7, "fewer operators": 2.9, "built-in": 1.2},
)


def a_roofline(**others):
    given = {"bandwidth_gbps": 20.0, "peak_gflops": 100.0, "points": POINTS, "moved": {}}
    return roofline(**{**given, **others})


FIGURES = {
    "roofline": lambda: a_roofline(),
    "roofline, and what moves": lambda: a_roofline(moved={"version 1": 0.2}),
    "against bytes": lambda: against_bytes(*SPELLINGS, 1.2),
    "timeline": lambda: timeline(
        [("batch", 0.0, 9e3), ("forward", 9e3, 30e3), ("step", 30e3, 40e3)], [(8e3, 8.5e3)]
    ),
    "traces": lambda: traces(
        {
            name: {
                "operators": [("aten::add", 0.0, 9.0)],
                "launches": [("launch", 5.0, 8.0)],
                "kernels": [("add", 8.0, end)],
            }
            for name, end in (("8 rows", 9.0), ("8,192 rows", 500.0))
        }
    ),
    "bandwidth": lambda: bandwidth_by_size(
        [1, 16, 256, 4096, 65_536],
        {"copy": [3, 20, 60, 50, 8]},
        {"L1": 32, "L2": 512, "L3": 32_768},
    ),
    "ladder": lambda: recorded_ladder(
        records.load("cpu"), "rms_norm", "forward", (4096, 1024), "float32"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())


def test_the_roof_is_what_the_machine_attains_and_every_point_has_a_look_of_its_own():
    roof, *others = a_roofline().axes[0].lines
    x, y = roof.get_data()
    np.testing.assert_allclose(y, [min(100.0, 20.0 * intensity) for intensity in x])
    assert Roofline(20.0, 100.0).ridge in x
    points = {line.get_label(): line for line in others if not line.get_label().startswith("_")}
    assert {
        name: (line.get_xdata()[0], line.get_ydata()[0]) for name, line in points.items()
    } == POINTS
    looks = {(line.get_marker(), to_hex(line.get_color())) for line in points.values()}
    assert len(looks) == len(POINTS)


def test_what_really_moves_has_a_hollow_point_at_the_same_rate_joined_to_the_filled_one():
    lines = a_roofline(moved={"version 1": 0.2}).axes[0].lines
    joined, hollow = [line for line in lines if line.get_label() == "_moved"]
    assert joined.get_xdata().tolist() == [0.2, 0.875]
    assert [*joined.get_ydata(), *hollow.get_ydata()] == [0.1] * 3
    assert hollow.get_xdata() == [0.2]
    assert to_hex(hollow.get_markerfacecolor()) != to_hex(joined.get_color())


def test_a_case_of_a_record_is_drawn_whole_with_whiskers_where_several_processes_measured():
    record, case = records.load("cpu"), Case("rms_norm", "forward", (4096, 1024), "float32")
    several, single = (
        replace(record, provenance={**record.provenance, "processes": n}) for n in (2, 1)
    )
    (axes,) = recorded_ladder(several, **case.fields()).axes
    results = {result["implementation"]: result for result in record.select(**case.fields())}
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert {*results} - {"compiled, tuned"} == {*names}
    for name, bar, whisker in zip(names, axes.patches, axes.lines, strict=False):
        moved = results[name]["bytes_moved"] / 1e6
        assert bar.get_width() == pytest.approx(moved / results[name]["median_ms"])
        ends = [moved / ms for ms in reversed(results[name]["range_ms"])]
        assert list(whisker.get_xdata()) == pytest.approx(ends)
    (axes,) = recorded_ladder(several, **case.fields(), ways=names[:2]).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == names[:2]
    # the copy's line alone
    assert len(recorded_ladder(single, **case.fields()).axes[0].lines) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: a_roofline(points={"copy": (0.0, 1.0)}), "must be positive: got 0"),
        (
            lambda: recorded_ladder(records.load("cpu"), "rope", "forward", (1, 2), "float32"),
            "hold the case",
        ),
    ],
)
def test_data_that_cannot_be_drawn_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_input_and_output_share_a_cache():
    sizes, gbps = [1, 16, 256, 4096, 65_536], {"copy": [3, 20, 60, 50, 8]}
    (axes,) = bandwidth_by_size(sizes, gbps, {"L1": 32, "L2": 512}).axes
    assert [line.get_xdata()[0] for line in axes.lines[-2:]] == [16, 256]
    assert [text.get_text() for text in axes.texts[-3:]] == ["L1", "L2", "memory"]


def test_a_bar_is_what_was_measured_and_its_mark_what_the_bytes_take():
    measured, by_bytes = SPELLINGS
    (axes,) = against_bytes(measured, by_bytes, 1.2).axes
    assert [bar.get_width() for bar in axes.patches] == [*measured.values()]
    marks = [each.get_segments()[0][0][0] for each in axes.collections]
    assert marks == [ms for ms in by_bytes.values() for _ in ("paper", "ink")]
    assert axes.lines[0].get_xdata()[0] == 1.2


def test_names_stand_beside_the_ends_of_their_lines_in_their_order():
    (axes,) = bandwidth_by_size([1, 16, 256], {"copy": [3, 20, 5], "norm": [1, 2, 2]}, {}).axes
    words = [text.get_text() for text in axes.texts]
    assert words[:2] == ["norm", "copy"]


def test_the_longest_stretch_without_an_operator_and_the_share_of_work_are_written_down():
    (axes,) = FIGURES["timeline"]().axes
    # from the operator's end at 8.5 ms to the end of all parts
    assert {"no operator", "32 ms"} <= {text.get_text() for text in axes.texts}
    upper, _ = FIGURES["traces"]().axes
    assert upper.get_title(loc="left") == "8 rows: at work 100%"
