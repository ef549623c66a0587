"""Chapter 17: grouped-query attention with a cache; which of nine mistakes is in each of four
models."""

import math

import torch

from chapters.c17_a_real_llama import suspects
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, read_probes

__all__ = ["culprits", "grouped_attention"]


def _grouped_attention(q, k, v):
    new, every = q.shape[1], k.shape[1]
    k, v = (y.repeat_interleave(len(q) // len(k), dim=0) for y in (k, v))
    at = torch.arange(every - new, every)  # the queries are the last tokens
    later = torch.arange(every) > at[:, None]  # (T, S)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -math.inf)
    mixed = scores.softmax(-1) @ v  # (H, T, D)
    return mixed.transpose(0, 1).flatten(1)


def _is_whole(call: Call) -> bool:
    """Whether the heads can share the keys, and no query comes before the first key."""
    q, k = call.arguments["q"], call.arguments["k"]
    return len(q) % len(k) == 0 and q.shape[1] <= k.shape[1]


grouped_attention = Exercise(
    "grouped_attention",
    _grouped_attention,
    read_probes(
        __file__,
        "grouped_attention",
        lambda **arguments: Call(arguments, {"q": "HTD", "k": "GSD", "v": "GSD"}),
    ),
    load("grouped_attention", _grouped_attention),
    may_shrink_to=_is_whole,
)

culprits = Exercise("culprits", suspects.culprits, judge=suspects.Judge("culprits"))
