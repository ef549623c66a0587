"""Chapter 17: softmax with a learned sink for each head."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes

__all__ = ["sink_softmax"]


def _sink_softmax(scores, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    every = torch.cat((scores, column), dim=-1)
    weights = every.softmax(dim=-1)
    return weights[..., :-1]


def added_as_it_is(scores, sinks):
    """Adds the sink to the denominator."""
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + sinks[:, None, None])


def one_after_the_maximum(scores, sinks):
    """Subtracts the largest score, and adds the sink as it is."""
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / (powers.sum(-1, keepdim=True) + sinks[:, None, None].exp())


def no_maximum_in_double(scores, sinks):
    """Right for scores up to 700; e^710 is infinite in float64 too."""
    powers = scores.double().exp()
    sums = powers.sum(-1, keepdim=True) + sinks.double()[:, None, None].exp()
    return (powers / sums).to(scores.dtype)


def through_softmax(scores, sinks):
    """Right where a key is open; in a row without one it multiplies 0 / 0."""
    share = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks[:, None, None])
    return scores.softmax(-1) * share


def no_maximum(scores, sinks):
    """Right for small scores; e^100 is infinite in float32."""
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + sinks[:, None, None].exp())


def _attention(scores: Tensor, sinks: Tensor, causal: bool = False) -> Call:
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
    return Call({"scores": scores, "sinks": sinks}, {"scores": "BHTS", "sinks": "H"})


sink_softmax = Exercise(
    "sink_softmax",
    _sink_softmax,
    read_probes(__file__, "sink_softmax", _attention),
    load("sink_softmax", _sink_softmax),
)
