"""The ladder's picture: bars as long as the bandwidths, the fastest on top, and a line where a copy stands."""

import pytest

from course_utils import plots

GBPS = {"eager": 5.0, "built-in": 36.0, "compiled": 21.0}


def test_bars_rise_to_the_copy_and_say_how_far_they_got():
    (axes,) = plots.ladder(GBPS, copy_gbps=40.0, title="layer norm").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["eager", "compiled", "built-in"]  # from the bottom
    assert [bar.get_width() for bar in axes.patches] == [5.0, 21.0, 36.0]
    assert list(axes.lines[0].get_xdata()) == [40.0, 40.0]
    assert [text.get_text() for text in axes.texts][-1] == "36 GB/s, 90% of a copy"
    assert axes.get_title(loc="left") == "layer norm"


def test_no_words_lie_on_the_line_of_the_copy():
    figure = plots.ladder(GBPS | {"an implementation with a long name": 39.0}, copy_gbps=40.0)
    figure.canvas.draw()
    (axes,) = figure.axes
    line = axes.transData.transform((40.0, 0))[0]
    assert min(text.get_window_extent().x0 for text in axes.texts) > line
    assert max(text.get_window_extent().x1 for text in axes.texts) < figure.bbox.x1


@pytest.mark.parametrize(("gbps", "copy"), [({"none": 0.0}, 40.0), (GBPS, -1.0)])
def test_what_is_not_positive_is_refused(gbps, copy):
    with pytest.raises(ValueError, match="must be positive: got"):
        plots.ladder(gbps, copy)
