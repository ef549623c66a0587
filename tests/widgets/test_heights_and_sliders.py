"""What a hand and a screen need of every widget, without a browser: stops that can be reached, and
a height that fits beside the controls. `make browser` measures both on the page."""

import pytest
from in_node import call_in_node
from widget_states import MAKERS

# How wide the picture is where a widget of 890 px has its controls beside it, and how high all may
# be: 540 px, and what an estimate from letters of average width is out by (from −70 to +45 px).
_WIDTH_PX, _MOST_PX = 588, 600
_OPTIONS = """(data, state, width) => {
    const options = module.default.describe(data, { get: (name) => ({ state, data })[name] });
    const lines = (text, px, room) => Math.ceil((text.length * px) / room);
    const isWide = (name) => /wide/.test(options.factClasses?.[name] ?? "");
    let facts = 0, open = 0; // two facts share a line, but for wide ones
    for (const [name, text] of options.facts(state, data, null).filter(([, text]) => text)) {
        const high = 21.6 * lines(text, 7.2, isWide(name) ? width - 150 : width / 2 - 150);
        facts += isWide(name) ? open + high : open ? Math.max(open, high) : 0;
        open = isWide(name) || open ? 0 : high;
    }
    const words = 26 + 19.6 * (lines(options.summary(state, data), 7.9, width) - 1);
    const hint = 12 + 18.2 * lines(options.hint, 6.7, width);
    const wide = Math.max(width, options.minimumWidth?.(state) ?? 0);
    const sliders = options.specs.filter((spec) => !spec.kind || spec.kind === "slider");
    return {
        height: words + options.size(state, wide, data) + 6 + hint + facts + open + 8,
        steps: Object.fromEntries(sliders.map((spec) => {
            const stops = spec.stops ?? (spec.max === undefined ? data.stops[spec.name] : null);
            return [spec.name, stops ? stops.length - 1 : spec.max - spec.min];
        })),
    };
}"""


@pytest.mark.parametrize("name", MAKERS)
def test_a_widget_fits_a_screen_beside_its_controls(name, tmp_path):
    widget = MAKERS[name]()
    calls = [[widget.data, widget.state, _WIDTH_PX]]
    (shown,) = call_in_node(tmp_path, widget._esm, _OPTIONS, calls)
    assert shown["height"] <= _MOST_PX
    # more stops than these have a field for the number: nobody turns through hundreds
    assert all(0 < steps <= 200 for steps in shown["steps"].values()), shown["steps"]
