"""How fast does a short fine-tune at eight times the window repair what each way of scaling RoPE
broke?

Chapter 16.
"""

from itertools import pairwise
from typing import Any

from chapters.c16_longer_context.long_context import (
    apply_method,
    evaluate,
    held_out_streams,
    new_optimizer,
    next_token_loss,
    pretrained,
)
from chapters.c16_longer_context.tags import TASK
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.experiments.training import fit

MULTIPLE = 8
MARKS = (0, 5, 10, 20, 40, 80)  # steps after which the model is tested
BATCH, LEARNING_RATE = 4, 5e-4
SCORES = ("local_loss", "recall", "loss")


def _run(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Fine-tune the trained model of a seed at eight windows and test it after each of ``MARKS``
    steps, from 0 on.

    Returns lists with a value for each mark, and what the tuned model is worth at one window and at
    sixteen: with the frequencies for eight at one window, and stretched on at sixteen where the
    method has a factor.
    """
    method, seed, streams = settings["method"], settings["seed"], settings["streams"]
    length = MULTIPLE * TASK.window
    model = apply_method(pretrained(seed), method, length)
    held_out = held_out_streams(MULTIPLE, streams, seed=500)
    optimizer = new_optimizer(model, LEARNING_RATE)
    loss_of = next_token_loss(length, BATCH, seed=1000 + seed)
    scores = [evaluate(model, held_out)]
    for before, mark in pairwise(MARKS):
        fit(model, loss_of, optimizer, mark - before, clip=1.0)
        scores.append(evaluate(model, held_out))
        progress(mark / MARKS[-1])
    short = evaluate(model, held_out_streams(1, streams, seed=500))
    longer = held_out_streams(16, max(8, streams // 2), seed=500)
    long = evaluate(apply_method(model, method, 16 * TASK.window), longer)
    return {
        "steps": list(MARKS),
        **{name: [getattr(score, name) for score in scores] for name in SCORES},
        "local_loss_at_1": short.local_loss,
        "recall_at_1": short.recall,
        "local_loss_at_16": long.local_loss,
        "recall_at_16": long.recall,
    }


TUNING = planned("long-context-tuning", _run)
