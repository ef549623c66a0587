"""Whether all that a figure draws lies on its page."""


def assert_nothing_is_clipped(figure):
    figure.draw_without_rendering()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= -1e-9
    assert drawn.x1 <= width + 1e-9
    assert drawn.y1 <= height + 1e-9
