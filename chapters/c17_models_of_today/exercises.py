"""Chapter 17: softmax with a learned sink for each head."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, integers

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


def no_maximum(scores, sinks):
    """Right for small scores; e^100 is infinite in float32."""
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + sinks[:, None, None].exp())


def _scores(name: str, stage: str, scores: Tensor, sinks: list[float], **others) -> Probe:
    call = Call({"scores": scores, "sinks": torch.tensor(sinks)}, {"scores": "BHTS", "sinks": "H"})
    return Probe(name, stage, call, **others)


_SMALL = integers(2, 3, 4, 5, seed=171, scale=0.25)  # (B, H, T, S)
_MASKED = _SMALL.masked_fill(torch.ones(4, 5).triu(1) > 0, -torch.inf)
_AS_MANY = integers(3, 3, 3, 3, seed=172, scale=0.25)

sink_softmax = Exercise(
    "sink_softmax",
    _sink_softmax,
    [
        _scores("one row, sink 0", "the sink", torch.tensor([[[[0.0, 1.0]]]]), [0.0]),
        _scores("one head, sink 1", "the sink", _SMALL[:1, :1], [1.0]),
        _scores("three heads", "heads", _SMALL[:1], [1.0, -1.0, 2.0]),
        _scores("a batch", "heads", _SMALL, [0.5, -2.0, 1.0]),
        _scores("as many heads as keys", "heads", _AS_MANY, [0.5, -2.0, 1.0]),
        _scores("a causal mask of -inf", "mask", _MASKED, [0.5, -2.0, 1.0]),
        _scores("scores near 200", "large scores", _SMALL + 200, [199.0, 201.0, 0.0]),
        _scores("a sink of 200", "large scores", _SMALL, [200.0, 0.0, -200.0]),
        _scores(
            "gradient of the sinks",
            "gradient",
            _SMALL,
            [0.5, -2.0, 1.0],
            gradients=("scores", "sinks"),
        ),
    ],
    load("sink_softmax", _sink_softmax),
)
