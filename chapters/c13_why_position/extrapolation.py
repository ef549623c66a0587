"""Trained on 32 tokens, tested on up to 512: which ways of telling positions apart work at lengths
they never saw?

Chapter 13.

A sequence is random symbols with two tasks in it, measured apart:

    echo     at every symbol, repeat the token ``lag`` places back: this takes order
    recall   four notes ("b=3") stand somewhere before four questions ("b?"): answer each with the
             note's value; this takes finding a token by what it says, however far back it is

The number of notes does not grow with the length, so longer sequences are harder by their distances
alone. Both scores are the share of right answers; guessing gives 1/16 and 1/8. In the longest test
each is also given apart by place: echo by where the token stands, recall by how far back the note
is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.experiments.rows import Rows
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.experiments.training import fit
from course_utils.models import Decoder

WINDOW = 32  # tokens in training
SYMBOLS, NAMES, VALUES, QUESTIONS = 16, 4, 8, 4  # the first eight symbols are the values, too
NOTE = SYMBOLS  # the first token that is a note; the first that is a question follows the notes
QUESTION = NOTE + NAMES * VALUES
VOCABULARY = QUESTION + NAMES
GUESSING = {"echo": 1 / SYMBOLS, "recall": 1 / VALUES}
IGNORED = -100  # as in F.cross_entropy

BATCH, LEARNING_RATE, WARM_UP = 32, 2e-3, 50

# RoPE's usual base is for long texts: of 8 pairs 2 finish a turn in 32 tokens, with base 13 it is 6
# (Llama 2: 46 of 64)
FAIR = "RoPE, base 13"
# each ends so many windows from the start, or back to the note, and begins where one ends
PLACES = (
    1,
    2,
    4,
    8,
    16,
)


class Sequences(NamedTuple):
    """``tokens`` (B, T), and what is to be said at each of them, ``echo`` and ``recall`` (B, T), or
    IGNORED.

    ``back`` (B, T) is how far back a question's note stands, 0 where there is no question.
    """

    tokens: Tensor
    echo: Tensor
    recall: Tensor
    back: Tensor


def draw(count: int, length: int, lag: int, rng: torch.Generator) -> Sequences:
    """Return ``count`` sequences of ``length`` tokens, at least ``lag`` + 8; the echo repeats
    ``lag`` places back."""
    tokens = torch.randint(SYMBOLS, (count, length), generator=rng)
    places = (
        torch.rand(count, length - lag, generator=rng)
        .argsort(1)[:, : NAMES + QUESTIONS]
        .sort(1)
        .values
        + lag
    )
    # (B, 4) each: every note stands before every question
    notes, questions = (
        places[:, :NAMES],
        places[:, NAMES:],
    )
    names = torch.rand(count, NAMES, generator=rng).argsort(1)  # each name once
    values = torch.randint(VALUES, (count, NAMES), generator=rng)
    asked = torch.randint(NAMES, (count, QUESTIONS), generator=rng)  # which of the notes
    tokens.scatter_(1, notes, NOTE + names * VALUES + values)
    tokens.scatter_(1, questions, QUESTION + names.gather(1, asked))

    echo = torch.full_like(tokens, IGNORED)
    echo[:, lag:] = tokens[:, :-lag]
    echo[(tokens >= SYMBOLS) | (echo >= SYMBOLS)] = IGNORED  # symbols repeat symbols
    recall = torch.full_like(tokens, IGNORED).scatter(1, questions, values.gather(1, asked))
    back = torch.zeros_like(tokens).scatter(1, questions, questions - notes.gather(1, asked))
    return Sequences(tokens, echo, recall, back)


def train(
    encoding: str,
    lag: int,
    steps: int,
    seed: int,
    progress: Progress = lambda done: None,
    *,
    base: float = 10_000.0,
    std: float = 0.02,
) -> Decoder:
    """Return a network of two blocks trained on WINDOW tokens, both tasks at once, with one of
    ``models.POSITIONS``.

    ``base`` is that of RoPE, ``std`` the first size of all tables and of the sinusoid.

    The table of ``"learned"`` gets a row for every position of the longest test: the rows beyond
    WINDOW never meet the training and stay the random numbers they start as.
    """
    rng = torch.Generator().manual_seed(seed)
    window = 16 * WINDOW if encoding == "learned" else WINDOW
    with torch.random.fork_rng(
        devices=[]
    ):  # layers draw from the global state first, and then from rng
        model = Decoder(
            VOCABULARY,
            position=encoding,
            window=window,
            width=64,
            hidden=128,
            base=base,
            embedding_std=std,
            generator=rng,
        )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01
    )

    def loss_of(model: Decoder) -> Tensor:
        batch = draw(BATCH, WINDOW, lag, rng)
        logits = model(batch.tokens).flatten(0, 1)  # (B·T, V)
        echo_loss = F.cross_entropy(logits, batch.echo.flatten())
        recall_loss = F.cross_entropy(logits, batch.recall.flatten())
        return echo_loss + recall_loss

    def schedule(step: int) -> float:
        warm_up = min(1.0, (step + 1) / WARM_UP)
        cosine = (1 + math.cos(math.pi * step / steps)) / 2
        return LEARNING_RATE * warm_up * cosine

    fit(model, loss_of, optimizer, steps, schedule=schedule, clip=1.0, progress=progress)
    return model


@torch.no_grad()
def score(
    model: Decoder, length: int, lag: int, count: int
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return the share of right answers, "echo" and "recall", on ``count`` sequences that every
    model gets alike.

    The second dictionary has the shares by place, as many of ``PLACES`` as there are in ``length``.
    """
    rng = torch.Generator().manual_seed(10_000 + length)
    places = 1 + max(0, math.ceil(math.log2(length / WINDOW)))
    right = {task: torch.zeros(places) for task in GUESSING}
    questions = {task: torch.zeros(places) for task in GUESSING}
    for _ in range(
        0, count, 16
    ):  # the scores of 16 sequences of 512 tokens fit in a cache-friendly 64 MB
        batch = draw(16, length, lag, rng)
        answers = model(batch.tokens).argmax(-1)  # (B, T)
        token_ends = torch.arange(1, length + 1).expand_as(answers)
        for task, expected, distance in (
            ("echo", batch.echo, token_ends),
            ("recall", batch.recall, batch.back),
        ):
            # 0: up to one window, 1: up to two, 2: up to four
            place = (distance / WINDOW).log2().ceil().clamp(min=0)
            right[task] += place[answers == expected].long().bincount(minlength=places)
            questions[task] += place[expected != IGNORED].long().bincount(minlength=places)
    overall = {task: (right[task].sum() / questions[task].sum()).item() for task in GUESSING}
    by_place = {task: (right[task] / questions[task].clamp(min=1)).tolist() for task in GUESSING}
    return overall, by_place


def run(settings: Settings, progress: Progress) -> dict[str, list[float]]:
    """Train one network; return its two scores at the multiples of WINDOW that are set, and by
    place at the last."""
    position, base = (
        ("rope", 13.0) if settings["encoding"] == FAIR else (settings["encoding"], 10_000.0)
    )
    model = train(
        position,
        settings["lag"],
        settings["steps"],
        settings["seed"],
        progress,
        base=base,
        std=settings.get("std", 0.02),
    )
    scores = [
        score(model, times * WINDOW, settings["lag"], settings["tested"])
        for times in settings["multiples"]
    ]
    by_place = {f"{task}_by_place": scores[-1][1][task] for task in GUESSING}
    overall = {task: [shares[task] for shares, _ in scores] for task in GUESSING}
    return {**overall, **by_place}


SETTINGS = ("encoding", "lag", "seed")


def points(rows: Rows) -> Rows:
    """Return a row for every run, task and length: "task", "times" the window, and "right", the
    share of answers."""
    return _by_task(rows, "times", "{}", lambda row: row["multiples"])


def shares_by_place(rows: Rows) -> Rows:
    """Return a row for every run, task and place in the longest test: "task", "place" of
    ``PLACES``, and "right"."""
    return _by_task(rows, "place", "{}_by_place", lambda row: PLACES)


def _by_task(
    rows: Rows, field: str, shares: str, values: Callable[[Mapping[str, Any]], Sequence[int]]
) -> Rows:
    """Return a row for each run, task and value of ``field``, with the share of right answers that
    the run has there."""
    return Rows(
        [
            {**{key: row[key] for key in SETTINGS}, "task": task, field: value, "right": right}
            for row in rows
            for task in GUESSING
            for value, right in zip(values(row), row[shares.format(task)], strict=True)
        ],
        rows.origin,
    )


EXTRAPOLATION, LOUD = planned("extrapolation", run), planned("loud-sinusoid", run)
