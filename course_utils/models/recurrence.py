"""The linear recurrence h_t = a_t h_{t−1} + b_t: step by step, and by a scan (chapter 12).

A recurrence need not be computed in order. The step h → a h + b is a pair (a, b), two steps in a
row are one again,

    (a, b) then (a', b')  =  (a' a, a' b + b'),

and because it does not matter how a row of steps is bracketed, T of them take log2 T rounds instead
of T.
"""

import torch
from torch import Tensor

__all__ = ["linear_recurrence", "linear_scan"]


def linear_recurrence(a: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    """Return every state (B, T, C) of h_t = a_t h_{t−1} + b_t, one step after the other.

    ``a`` and ``b`` are (B, T, C); ``h0`` (B, C) is the state before the first step, zeros by
    default.
    """
    h = torch.zeros_like(b[:, 0]) if h0 is None else h0
    states = []
    for a_t, b_t in zip(a.unbind(1), b.unbind(1), strict=True):
        h = a_t * h + b_t
        states.append(h)
    return torch.stack(states, dim=1)


def linear_scan(a: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    """Return what ``linear_recurrence`` returns, in ⌈log2 T⌉ rounds over the whole sequence.

    After the round with offset k, (a_t, b_t) is the one step that stands for the last 2k steps up
    to t. Nothing is ever divided, so a state that is forgotten (a = 0) is no trouble.

    Source: Hillis and Steele 1986, Data parallel algorithms; Blelloch 1990, Prefix sums and their
    applications, §1.4; for recurrent networks, Martin and Cundy 2018 and Feng et al. 2024, Were
    RNNs all we needed.
    """
    if h0 is not None:
        b = torch.cat([(a[:, 0] * h0 + b[:, 0]).unsqueeze(1), b[:, 1:]], dim=1)
    offset, length = 1, b.shape[1]
    while offset < length:
        later_a, later_b = a[:, offset:], b[:, offset:]
        b = torch.cat([b[:, :offset], later_a * b[:, :-offset] + later_b], dim=1)
        a = torch.cat([a[:, :offset], later_a * a[:, :-offset]], dim=1)
        offset *= 2
    return b
