"""Does a search over the factor of each pair beat YaRN's formula, and what must it be told to look
for?

Chapter 16.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from chapters.c16_longer_context.long_context import (
    BASE,
    apply_method,
    evaluate,
    held_out_streams,
    pretrained,
)
from chapters.c16_longer_context.longrope import Candidate, search
from chapters.c16_longer_context.tags import TASK, Score, Streams
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models import Decoder
from course_utils.rope import rope_inv_freq
from course_utils.session import generator

FACTOR = 8
UPPER = 2.0 * FACTOR  # LongRoPE2 finds factors above the extension itself
# eight streams ask 512 questions: with 64 the noise is larger than what is found
ASKING = replace(TASK, questions=64)
REPORTED = ("loss", "local_loss", "needle_loss", "recall", "near", "far")

# what a candidate is judged by -> its badness, in nats
OBJECTIVES: dict[str, Callable[[Score], float]] = {
    "all tokens": lambda score: score.loss,  # LongRoPE
    "needles": lambda score: score.needle_loss,  # LongRoPE2: the tokens that need the far context
    "near and needles": lambda score: score.local_loss + score.needle_loss,
}


def search_streams(streams: int = 8) -> Streams:
    """Return what candidates are judged on: eight windows long, none of them trained on or tested
    on."""
    return ASKING.draw(streams, FACTOR * TASK.window, generator(4242))


def apply_candidate(model: Decoder, candidate: Candidate) -> Decoder:
    """Stretch the model as ``candidate`` says, with LongRoPE's attention factor, and return it."""
    # as ``rope.longrope``
    attention_factor = math.sqrt(1 + math.log(FACTOR) / math.log(TASK.window))
    model.set_attention_window(None)
    return model.set_rope(candidate.inv_freq(BASE), attention_factor, candidate.first_tokens)


def factors_of(model: Decoder, method: str) -> Tensor:
    """Return by what a method of chapter 15 divides each frequency at eight windows, (D/2,), none
    below 1."""
    inv_freq = apply_method(model, method, FACTOR * TASK.window).inv_freq
    return (rope_inv_freq(model.head_dim, BASE) / inv_freq).clamp(1.0, UPPER)


def starts(model: Decoder) -> list[Candidate]:
    """Return what the known methods would do at eight windows: where the search starts."""
    return [
        Candidate(factors_of(model, method)) for method in ("YaRN", "YaRN, β = 32", "NTK", "PI")
    ]


def from_critical_pair(pair: int, pairs: int) -> Candidate:
    """Stretch everything from ``pair`` on by the whole factor, and the pairs before by a power that
    reaches it.

    Source: Shang et al. 2025, §3.2: below the critical dimension NTK with a base for which it is
    met exactly.
    """
    exponent = torch.arange(pairs, dtype=torch.float64) / max(pair, 1)
    return Candidate(
        float(FACTOR) ** exponent.clamp(max=1.0)
        if pair
        else torch.full((pairs,), float(FACTOR)).double()
    )


def _run(settings: Settings, progress: Progress) -> dict[str, Any]:
    model, streams = pretrained(settings["seed"]), search_streams()
    objective = OBJECTIVES[settings["objective"]]
    result = search(
        lambda candidate: objective(
            evaluate(apply_candidate(model, candidate), streams, task=ASKING)
        ),
        starts(model),
        upper=UPPER,
        budget=settings["budget"],
        seed=settings["seed"],
        progress=progress,
    )
    held_out = held_out_streams(FACTOR, 32, seed=500)
    yarn = evaluate(apply_method(model, "YaRN", FACTOR * TASK.window), held_out)
    best = evaluate(apply_candidate(model, result.best), held_out)
    return {
        "factors": result.best.factors.tolist(),
        "first_tokens": result.best.first_tokens,
        "evaluations": [evaluations for evaluations, _ in result.history],
        "values": [value for _, value in result.history],
        **{name: getattr(best, name) for name in REPORTED},
        **{f"yarn_{name}": getattr(yarn, name) for name in REPORTED},
    }


SEARCH = planned("longrope-search", _run)


def _by_critical_pair(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return what the trained model is worth when it is stretched in full from pair 0, 1, ..., D/2
    on."""
    model, streams = pretrained(settings["seed"]), search_streams(settings["streams"])
    pairs = model.head_dim // 2
    candidates = [from_critical_pair(pair, pairs) for pair in range(pairs + 1)]
    scores = [
        evaluate(apply_candidate(model, candidate), streams, task=ASKING)
        for candidate in candidates
    ]
    losses = {
        name: [getattr(score, name) for score in scores] for name in ("local_loss", "needle_loss")
    }
    return {"pair": list(range(pairs + 1)), **losses}


CRITICAL_PAIR = planned("critical-pair", _by_critical_pair)
