"""Trained on 32 tokens, tested on up to 512: which ways of telling positions apart work at lengths they never saw?

Chapter 11.

A sequence is random symbols with two tasks in it, measured apart:

    echo     at every symbol, repeat the token ``lag`` places back: this takes order
    recall   four notes ("b=3") stand somewhere before four questions ("b?"): answer each with the note's value; this
             takes finding a token by what it says, however far back it is

The number of notes does not grow with the length, so longer sequences are harder by their distances alone. Both
scores are the share of right answers; guessing gives 1/16 and 1/8.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.experiments.rows import Rows
from course_utils.experiments.study import Cell, Progress, Study, grid
from course_utils.models import POSITIONS, Decoder

WINDOW = 32  # tokens in training
SYMBOLS, NAMES, VALUES, QUESTIONS = 16, 4, 8, 4  # the first eight symbols are the values, too
NOTE = SYMBOLS  # the first token that is a note; the first that is a question follows the notes
QUESTION = NOTE + NAMES * VALUES
VOCABULARY = QUESTION + NAMES
GUESSING = {"echo": 1 / SYMBOLS, "recall": 1 / VALUES}
IGNORED = -100  # as in F.cross_entropy

BATCH, LEARNING_RATE, WARM_UP = 32, 2e-3, 50


class Sequences(NamedTuple):
    """``tokens`` (B, T), and what is to be said at each of them, ``echo`` and ``recall`` (B, T), or IGNORED."""

    tokens: Tensor
    echo: Tensor
    recall: Tensor


def draw(count: int, length: int, lag: int, rng: torch.Generator) -> Sequences:
    """Return ``count`` sequences of ``length`` tokens, at least ``lag`` + 8; the echo repeats ``lag`` places back."""
    tokens = torch.randint(SYMBOLS, (count, length), generator=rng)
    places = torch.rand(count, length - lag, generator=rng).argsort(1)[:, : NAMES + QUESTIONS].sort(1).values + lag
    notes, questions = places[:, :NAMES], places[:, NAMES:]  # (B, 4) each: every note stands before every question
    names = torch.rand(count, NAMES, generator=rng).argsort(1)  # each name once
    values = torch.randint(VALUES, (count, NAMES), generator=rng)
    asked = torch.randint(NAMES, (count, QUESTIONS), generator=rng)  # which of the notes
    tokens.scatter_(1, notes, NOTE + names * VALUES + values)
    tokens.scatter_(1, questions, QUESTION + names.gather(1, asked))

    echo = torch.full_like(tokens, IGNORED)
    echo[:, lag:] = tokens[:, :-lag]
    echo[(tokens >= SYMBOLS) | (echo >= SYMBOLS)] = IGNORED  # symbols repeat symbols
    recall = torch.full_like(tokens, IGNORED).scatter(1, questions, values.gather(1, asked))
    return Sequences(tokens, echo, recall)


def train(encoding: str, lag: int, steps: int, seed: int, progress: Progress = lambda done: None) -> Decoder:
    """Return a network of two blocks trained on WINDOW tokens, both tasks at once, with one of ``models.POSITIONS``.

    The table of ``"learned"`` gets a row for every position of the longest test: the rows beyond WINDOW never meet the
    training and stay the random numbers they start as.
    """
    rng = torch.Generator().manual_seed(seed)
    window = 16 * WINDOW if encoding == "learned" else WINDOW
    with torch.random.fork_rng(devices=[]):  # layers draw from the global state first, and then from rng
        model = Decoder(VOCABULARY, position=encoding, window=window, width=64, hidden=128, generator=rng)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(steps):
        warm, cosine = min(1.0, (step + 1) / WARM_UP), (1 + math.cos(math.pi * step / steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * warm * cosine
        batch = draw(BATCH, WINDOW, lag, rng)
        logits = model(batch.tokens).flatten(0, 1)  # (B·T, V)
        loss = F.cross_entropy(logits, batch.echo.flatten()) + F.cross_entropy(logits, batch.recall.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            progress(step / steps)
    return model


@torch.no_grad()
def score(model: Decoder, length: int, lag: int, count: int) -> dict[str, float]:
    """Return the share of right answers, "echo" and "recall", on ``count`` sequences that every model gets alike."""
    rng = torch.Generator().manual_seed(10_000 + length)
    right, asked = dict.fromkeys(GUESSING, 0), dict.fromkeys(GUESSING, 0)
    for _ in range(0, count, 16):  # the scores of 16 sequences of 512 tokens fit in a cache-friendly 64 MB
        tokens, *wanted = draw(16, length, lag, rng)
        said = model(tokens).argmax(-1)  # (B, T)
        for task, answers in zip(GUESSING, wanted, strict=True):
            right[task] += int((said == answers).sum())
            asked[task] += int((answers != IGNORED).sum())
    return {task: right[task] / asked[task] for task in GUESSING}


def run(cell: Cell, progress: Progress) -> dict[str, list[float]]:
    """Train one network; return its two scores at every multiple of WINDOW in the cell."""
    model = train(cell["encoding"], cell["lag"], cell["steps"], cell["seed"], progress)
    scores = [score(model, times * WINDOW, cell["lag"], cell["tested"]) for times in cell["multiples"]]
    return {task: [one[task] for one in scores] for task in GUESSING}


def points(rows: Rows) -> Rows:
    """Return a row for every run, task and length: "task", "times" the window, and "right", the share of answers."""
    settings = ("encoding", "lag", "seed")
    return Rows(
        [
            {**{key: row[key] for key in settings}, "task": task, "times": times, "right": right}
            for row in rows
            for task in GUESSING
            for times, right in zip(row["multiples"], row[task], strict=True)
        ],
        rows.origin,
    )


def _cells(size: str) -> list[Cell]:
    reduced = size == "reduced"
    lags, seeds, steps, tested = ((1,), 1, 150, 32) if reduced else ((1, 3), 5, 600, 256)
    multiples = [1, 4, 16] if reduced else [1, 2, 4, 8, 16]
    fixed: dict[str, Any] = {"steps": [steps], "tested": [tested], "multiples": [multiples]}
    return grid(lag=lags, encoding=POSITIONS, seed=range(seeds), **fixed)


EXTRAPOLATION = Study("extrapolation", "which encodings work at lengths never trained on?", _cells, run)
