"""The widget of chapter 02: means, weights and refusals of layer norm."""

import math

import pytest
import torch
import torch.nn.functional as F
from widget_states import refused

from chapters.c02_layer_norm import widgets


def test_means_weights_and_refusals_are_those_of_layer_norm(figures):
    seen, messages = set(), set()
    for state, figure in figures("normalized_shape", "shapesFigure", 300):
        if figure["problem"]:
            continue
        messages.add(figure["refusal"][:20])
        shape, normalized, weight = (figure[name] for name in ("shape", "normalized", "weight"))
        if figure["drawn"] is None:  # what cannot be made, or nothing to normalize
            assert figure["refusal"] == said_by_pytorch(shape, normalized, weight), state
            continue
        x = torch.arange(math.prod(shape), dtype=torch.float64).view(shape).square()
        gain = (
            None
            if weight is None
            else torch.arange(math.prod(weight), dtype=torch.float64).view(weight)
        )
        assert figure["refusal"] == refused(
            lambda x=x, n=normalized, w=gain: F.layer_norm(x, n, w)
        ), state
        if gain is not None:
            assert figure["byHand"].get("error", "") == refused(lambda x=x, w=gain: x * w), state
        if figure["means"]:  # the elements of one number, and no others, decide its mean
            means = x.mean([*range(-len(normalized), 0)], keepdim=True)
            assert figure["meanShape"] == list(means.shape)
            assert torch.equal(
                means.flatten()[torch.tensor(figure["means"])], means.expand_as(x).flatten()
            )
        if figure["entries"]:
            product = torch.broadcast_shapes(x.shape, gain.shape)
            assert figure["byHand"]["shape"] == list(product)
            if product == x.shape:
                assert torch.tensor(figure["entries"])[:, 0].equal(
                    gain.long().expand_as(x).flatten()
                )
            else:
                assert any(first < last for first, last in figure["entries"])
        seen.add((bool(figure["refusal"]), figure["means"] is None, figure["entries"] is None))
    assert len(seen) >= 6  # every kind of state was among them
    assert len(messages) == 5  # accepted, negative, no dimensions, the weight, the input


def said_by_pytorch(shape, normalized, weight):
    return refused(
        lambda: F.layer_norm(
            torch.zeros(shape), normalized, None if weight is None else torch.zeros(weight)
        )
    )


def typed(x, shape, weight="same"):
    return {"layout": "own", "typed": {"x": x, "shape": shape, "weight": weight}}


def test_a_text_that_is_no_shape_is_a_sentence_and_a_large_one_is_not_drawn(figures):
    bad = ["2.5", "(2, x)", "two", "(2,,3)", ",", "(,)"]
    for _, figure in figures("normalized_shape", "shapesFigure", [typed(x, "(3,)") for x in bad]):
        assert figure["problem"].startswith("x is no shape")
    for x in bad:
        with pytest.raises(ValueError, match="a shape is whole numbers"):
            widgets.typed_shape(x)
    ((_, large),) = figures("normalized_shape", "shapesFigure", [typed("100000, 100000", "8, 8")])
    assert "no picture" in large["problem"]
    assert "expected input with shape [*, 8, 8]" in large["refusal"]


def test_the_weight_follows_normalized_shape_until_another_is_chosen(figures):
    image = {"layout": "B,C,H,W", "shape": {"B,T,C": "C", "B,C,H,W": "C"}}
    ((_, figure),) = figures("normalized_shape", "shapesFigure", [image])
    assert figure["weight"] == figure["normalized"] == [4]
    assert figure["refusal"].startswith("Given normalized_shape=[4], expected input")
    other = {"weight": {"B,T,C": "same", "B,C,H,W": "C,H,W"}}
    ((_, figure),) = figures("normalized_shape", "shapesFigure", [image | other])
    assert figure["refusal"].startswith("Expected weight")


def test_x_and_its_weight_are_those_that_are_seen(figures):
    widget = widgets.normalized_shape("B,C,H,W", "H,W")
    assert (widget.x.shape, widget.normalized_shape) == ((2, 4, 2, 3), (2, 3))
    assert F.layer_norm(widget.x, widget.normalized_shape, widget.weight).shape == widget.x.shape
    widget.state = {**widget.state, **typed("(5, 3)", "3", "none")}
    assert (widget.x.shape, widget.normalized_shape, widget.weight) == ((5, 3), (3,), None)
