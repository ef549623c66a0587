"""The widget of chapter 18: what the last token sees, in the browser as here."""

import pytest
import torch
from widget_states import MODELS

from chapters.c18_models_of_today import check
from chapters.c18_models_of_today.published_models import PUBLISHED, read_layers
from chapters.c18_models_of_today.widgets import (
    STOPS,
    counts_seen,
    layers_beside,
    reach,
    reached_through,
    strips,
)


@pytest.mark.parametrize(
    ("sees", "tokens", "whole", "besides"),
    [
        ("all", 8193, 8193, 0),
        ("4,096", 8193, 4096, 0),
        ("4,096", 512, 512, 0),
        ("chunks of 8,192", 8192, 8192, 0),
        ("chunks of 8,192", 8193, 1, 0),
        ("128 + blocks of 128", 4096, 128, 3968),
        ("128 + 512 chosen blocks of 4", 2048, 128, 1920),
        ("128 + 512 chosen blocks of 4", 131_072, 128, 2048),
        ("2,048 chosen", 2048, 2048, 0),
        ("2,048 chosen", 4096, 0, 2048),
        ("", 512, 0, 0),
    ],
)
def test_what_the_last_token_sees(sees, tokens, whole, besides):
    seen = reach(sees, tokens)
    assert len(seen) == tokens
    assert (seen == 1).sum() == whole
    assert counts_seen(sees, tokens) == (whole, besides)
    if besides < tokens - whole and "chosen" in sees:  # from all of the rest
        assert (seen == 0.25).sum() == tokens - whole


def test_the_slider_finds_where_each_window_begins_to_hide():
    layers = [one for rows in layers_beside().data["rows"].values() for one in rows]
    windows = {
        int(one["sees"].replace(",", ""))
        for one in layers
        if one["sees"][:1].isdigit() and "+" not in one["sees"]
    }
    assert windows == {128, 129, 1024, 4096}
    assert {at for window in (*windows, 8192) for at in (window, window + 1)} <= set(
        STOPS["tokens"]
    )


def test_the_browser_draws_the_same(figures):
    widget = layers_beside(models=MODELS)
    for state, answer in figures("layers_beside", "seenFigure", 20):
        widget.state = state
        drawn = torch.zeros_like(widget.x)
        for row, parts in enumerate(answer):
            for start, end, how, _ in parts:
                drawn[row, start:end] = how
        assert torch.equal(drawn, widget.x)


def test_a_click_on_a_strip_chooses_a_layer(in_browser):
    widget = layers_beside(models=MODELS)
    clicks = [[x, y, widget.state, 500, widget.data] for x, y in ((10, 40), (495, 40), (10, 200))]
    first, last, below = in_browser("layers_beside", "module.layerAt", clicks)
    assert (first["layer"], last["layer"], below) == (0, 8, None)


def test_the_share_of_all_keys_is_that_of_all_layers(in_browser):
    layers = strips(MODELS)["Llama 4 Scout"]
    for tokens in (2048, 8193, 131_072):
        (share,) = in_browser("layers_beside", "module.shareSeen", [[layers, tokens]])
        counts = [sum(counts_seen(one["sees"], tokens)) for one in layers]
        assert share == pytest.approx(sum(counts) / (len(layers) * tokens))


def test_what_reaches_the_last_token_is_the_exercise_s_receptive_field(in_browser):
    sights = ["4,096", "4,096", "chunks of 8,192", "chunks of 8,192", "all", "4,096"]
    stack = [("window", 4096)] * 2 + [("chunk", 8192)] * 2 + [("all", None), ("window", 4096)]
    layers = [{"sees": sees} for sees in sights]
    calls = [[layers, layer, tokens] for layer in range(6) for tokens in (8192, 8193, 32_768)]
    for (_, layer, tokens), reached in zip(
        calls, in_browser("layers_beside", "module.reachThrough", calls), strict=True
    ):
        assert reached == check.receptive_field.oracle(stack[: layer + 1], tokens)
        assert reached == reached_through(sights[: layer + 1], tokens)


def test_words_name_the_layer_that_is_shown(in_browser):
    widget = layers_beside("Command R7B†", "Kimi Linear*", layer=50, tokens=8192)
    (said,) = in_browser("layers_beside", "module.summary", [[widget.state, widget.data]])
    for words in (said, widget.picture()[1]):
        for part in ("ayer 31", "layer 26, its last: ", "carries a state: passes on all"):
            assert part in words
        assert "50" not in words
    widget = layers_beside("DeepSeek-V4*", "Llama 4 Scout", layer=2, tokens=131_072)
    (said,) = in_browser("layers_beside", "module.summary", [[widget.state, widget.data]])
    for words in (said, widget.picture()[1]):
        assert "128 tokens, the rest in blocks" in words
        assert "its last" not in words


@pytest.mark.slow
def test_what_a_page_without_a_kernel_shows_is_what_is_read():
    files = {"Granite SWA*": {"model_type": "granite_swa"}}
    files["Command R7B†"] = PUBLISHED["Command R7B"]  # read in a copy
    read = strips({name: read_layers(file) for name, file in files.items()})
    recorded = layers_beside().data["rows"]
    assert {name: recorded[name] for name in files} == read
    assert len(recorded) == 17
