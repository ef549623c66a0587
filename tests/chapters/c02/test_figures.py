"""The figures of chapter 02: nothing is clipped, and token 0 is drawn apart."""

import torch
from clipping import assert_nothing_is_clipped

from chapters.c02_layer_norm.figures import plane_and_circle, rows_of_a_model
from course_utils import data


def test_nothing_is_clipped():
    stream = data.smollm2_stream()
    leaving = {block: torch.nn.functional.layer_norm(x, (576,)) for block, x in stream.items()}
    figure = rows_of_a_model(stream, leaving)
    assert_nothing_is_clipped(figure)
    assert_nothing_is_clipped(plane_and_circle())
    apart = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [round(float(line.get_ydata()[0])) for line in apart] == [0, 25, 1001, 411]
