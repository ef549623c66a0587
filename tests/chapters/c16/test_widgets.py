"""The widget of chapter 16: what is read from the records, and what its browser makes of it."""

from chapters.c16_longer_context import load
from chapters.c16_longer_context.widgets import METHODS, STOPS, loss_and_memory


def test_the_browser_reads_off_the_effective_windows_of_the_record(figures):
    states = [
        {"methods": list(METHODS), "factor": factor, "enough": enough}
        for factor in STOPS["factor"]
        for enough in STOPS["enough"]
    ]
    for state, drawn in figures("loss_and_memory", "memoryFigure", states):
        widget = loss_and_memory(**state)
        assert {own["method"]: own["reach"] for own in drawn} == widget.reaches()
        for own in drawn:
            factor = 1 if own["method"] == "none" else state["factor"]
            rows = load("smollm2-memory").select(method=own["method"], factor=factor)
            ends = [_window(row, state["enough"]) for row in rows]
            assert own["reach"] == min(ends)


def _window(row, enough):
    """The last gap before the first over which no more than enough is saved, or -1."""
    reach = -1
    for gap, copy, new_text in zip(row["gap"], row["copy"], row["loss"], strict=True):
        if 1 - copy / new_text <= enough:
            break
        reach = gap
    return reach


def test_new_text_is_what_the_record_has_above_the_unscaled_model_without_a_jump():
    record = load("smollm2-memory")
    (row,) = record.select(method="NTK", factor=2, excerpt=1)
    (home,) = record.select(method="none", excerpt=1)
    own = loss_and_memory().data["settings"]["NTK ×2"]
    for added, nats in zip(own["added"][1], row["loss"], strict=True):
        assert abs(added - nats + home["loss"][0]) < 1e-4


def test_a_click_and_an_arrow_move_the_bar(in_browser):
    widget = loss_and_memory()
    state, data = widget.state, widget.data
    clicks = [[200, y, state, 700, data] for y in (0, 400)]
    high, below = in_browser("loss_and_memory", "module.barAt", clicks)
    assert (high["enough"], below) == (STOPS["enough"][-1], None)
    keys = [[{"key": key}, state, data] for key in ("ArrowUp", "ArrowDown", "ArrowLeft")]
    up, down, none = in_browser("loss_and_memory", "module.barByKey", keys)
    assert (up["enough"], down["enough"], none) == (0.55, 0.45, None)
