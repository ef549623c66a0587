"""The figure of chapter 01: nothing is clipped."""

import numpy as np
from clipping import assert_nothing_is_clipped

from chapters.c01_why_normalize.figures import signal_by_depth


def depth_figure():
    signals = {
        "too large": 10.0 ** np.arange(40),
        "overflow": [1.0] * 20 + [float("inf")] * 20,
        "kept": [1.0] * 40,
    }
    return signal_by_depth(signals, "spread")


def test_nothing_is_clipped():
    assert_nothing_is_clipped(depth_figure())
