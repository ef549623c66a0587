"""How fast does a short fine-tune at eight times the window repair what each way of scaling RoPE
broke?

Chapter 15.
"""

from itertools import pairwise
from typing import Any

from chapters.c15_longer_context.long_context import (
    SEEDS,
    apply_method,
    evaluate,
    finite,
    held_out_streams,
    new_optimizer,
    next_token_loss,
    pretrained,
)
from chapters.c15_longer_context.tags import TASK
from course_utils.experiments.study import Progress, Settings, Study, grid
from course_utils.experiments.training import fit

MULTIPLE = 8
MARKS = (0, 5, 10, 20, 40, 80)  # steps after which the model is tested
BATCH, LEARNING_RATE = 4, 5e-4
METHODS = ("none", "PI", "ABF ×50", "NTK", "by parts", "YaRN", "Llama 3")


def tune(
    method: str, seed: int, marks: tuple[int, ...], streams: int, progress: Progress
) -> dict[str, Any]:
    """Fine-tune the trained model of ``seed`` at eight windows and test it after each of ``marks``
    steps, from 0 on.

    Returns lists with a value for each mark, and what the tuned model is worth at one window and at
    sixteen: with the frequencies for eight at one window, and stretched on at sixteen where the
    method has a factor.
    """
    length = MULTIPLE * TASK.window
    model, held_out = (
        apply_method(pretrained(seed), method, length),
        held_out_streams(MULTIPLE, streams, seed=500),
    )
    optimizer, loss_of = (
        new_optimizer(model, LEARNING_RATE),
        next_token_loss(length, BATCH, seed=1000 + seed),
    )
    scores = [evaluate(model, held_out)]
    for before, mark in pairwise(marks):
        fit(model, loss_of, optimizer, mark - before, clip=1.0)
        scores.append(evaluate(model, held_out))
        progress(mark / marks[-1])
    short = finite(evaluate(model, held_out_streams(1, streams, seed=500)))
    longer = held_out_streams(16, max(8, streams // 2), seed=500)
    long = finite(evaluate(apply_method(model, method, 16 * TASK.window), longer))
    return {
        "steps": list(marks),
        "local_loss": [score.local_loss for score in scores],
        "recall": [score.recall for score in scores],
        "loss": [score.loss for score in scores],
        **{f"{name}_at_1": short[name] for name in ("local_loss", "recall")},
        **{f"{name}_at_16": long[name] for name in ("local_loss", "recall")},
    }


def _run(settings: Settings, progress: Progress) -> dict[str, Any]:
    return tune(settings["method"], settings["seed"], MARKS, settings["streams"], progress)


TUNING = Study(
    "long-context-tuning",
    "how fast does a short fine-tune at eight times the window repair what each way of scaling "
    "RoPE broke?",
    _run,
    full=grid(seed=SEEDS, method=METHODS, last=[MARKS[-1]], streams=[16]),
)
