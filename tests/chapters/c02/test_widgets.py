"""The widget of chapter 02: means, weights and refusals of layer norm."""

import math

import torch
import torch.nn.functional as F
from widget_states import refused


def test_means_weights_and_refusals_are_those_of_layer_norm(figures):
    seen = set()
    for state, figure in figures("normalized_shape", "shapesFigure", 300):
        shape, normalized, weight = (figure[name] for name in ("shape", "normalized", "weight"))
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
    assert len(seen) == 6  # every kind of state was among them
