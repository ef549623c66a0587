"""Chapter 18: the frequency of each dimension from three keys; how far the last token reaches
through all layers; the mask that keeps packed documents apart; softmax with a learned sink."""

import torch
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, read_probes

__all__ = ["block_mask", "frequencies", "receptive_field", "sink_softmax"]


def _frequencies(keys, m):
    at_0, at_m, at_2m = keys
    cosine = (at_0 + at_2m) / (2 * at_m)
    return cosine.clamp(-1, 1).acos() / m


def _keys(m: int, keys=None, turns=(), radii=(), phases=()) -> Call:
    """As they are, or as dimensions that turn: r·cos(φ + f·position)."""
    if keys is None:
        angles = torch.tensor(phases) + torch.tensor([[0], [m], [2 * m]]) * torch.tensor(turns)
        keys = torch.tensor(radii) * angles.cos()
    return Call({"keys": torch.as_tensor(keys), "m": m}, {"keys": "KD"})


frequencies = Exercise(
    "frequencies",
    _frequencies,
    read_probes(__file__, "frequencies", _keys, plain=True),
    load("frequencies", _frequencies),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["keys"].shape[0] == 3,
)


def _sink_softmax(scores, sinks):
    sink = sinks[:, None, None]
    largest = torch.maximum(scores.amax(-1, keepdim=True), sink)
    powers = (scores - largest).exp()
    total = powers.sum(-1, keepdim=True) + (sink - largest).exp()
    return powers / total


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


def _block_mask(positions):
    begins = positions.diff(dim=1) != 1
    document = torch.nn.functional.pad(begins, (1, 0)).cumsum(dim=1)  # (B, T), from 0
    same = document[:, :, None] == document[:, None, :]
    return same.tril()


block_mask = Exercise(
    "block_mask",
    _block_mask,
    read_probes(
        __file__,
        "block_mask",
        lambda positions: Call({"positions": positions}, {"positions": "BT"}),
    ),
    load("block_mask", _block_mask),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["positions"].shape[1] > 2,
)


def _receptive_field(layers, tokens):
    first = tokens - 1  # the first position that reaches the last token
    for kind, size in reversed(layers):
        if kind == "window":
            first = max(0, first - (size - 1))
        elif kind == "chunk":
            first -= first % size
        else:
            first = 0
    return tokens - first


def _stack(layers: list[list], tokens: int) -> Call:
    return Call({"layers": [(kind, size or None) for kind, size in layers], "tokens": tokens})


receptive_field = Exercise(
    "receptive_field",
    _receptive_field,
    read_probes(__file__, "receptive_field", _stack, COUNTED, plain=True),
    load("receptive_field", _receptive_field),
)
