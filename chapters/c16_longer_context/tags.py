"""The task of the long-context experiment, "tags": near order and far memory in one stream,
measured apart.

Chapter 16.

A stream of fillers follows a rule: each is read off a fixed table from the token three places back,
except where noise replaces it. To predict it, a model must know which token is exactly three back:
**near order**. Into the stream are dropped eight needles, each a name with a value, and among them
sixteen questions, each after its needle: a name whose value comes next. To answer, a model must
find the needle wherever it is: **far memory**. The number of needles does not grow with the length:
in a longer stream they stand farther apart, and thinner.

Notation used for tensor shapes: B streams, T tokens, V vocabulary.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Streams(NamedTuple):
    """Streams of the task: ``tokens`` (B, T), and at each question how far back its needle is,
    ``distance`` (B, T)."""

    tokens: Tensor
    distance: Tensor


class Score(NamedTuple):
    """What a model is worth on some streams.

    ``loss`` is the cross entropy of all tokens, ``local_loss`` that of the fillers among fillers,
    ``needle_loss`` that of the answers, in nats; ``recall`` is the share of questions whose answer
    is the likeliest value, ``near`` and ``far`` the same for needles within and beyond the window
    (NaN where there are none). ``asked`` and ``answered`` count the questions, and those answered
    right, whose needle is up to 1, 2, 4, 8, ... windows back.
    """

    loss: float
    local_loss: float
    needle_loss: float
    recall: float
    near: float
    far: float
    asked: tuple[int, ...]
    answered: tuple[int, ...]


@dataclass(frozen=True)
class Tags:
    """The task with its sizes."""

    window: int = (
        128  # the length that models are trained at; needles farther back than this count as far
    )
    fillers: int = 16  # kinds of filler
    names: int = 8  # needles in a stream
    values: int = 8  # that a needle can have
    questions: int = 16  # in a stream
    lag: int = 3  # how far back the token is that a filler follows from
    noise: float = 0.15  # the share of fillers that are drawn at random

    @property
    def first_needle(self) -> int:
        """The token of the first name with the first value; each name has a token for each
        value."""
        return self.fillers

    @property
    def first_question(self) -> int:
        """The token that asks for the first name."""
        return self.fillers + self.names * self.values

    @property
    def first_answer(self) -> int:
        """The token of the first value."""
        return self.first_question + self.names

    @property
    def vocabulary(self) -> int:
        """V, the number of different tokens."""
        return self.first_answer + self.values

    @property
    def local_optimum(self) -> float:
        """The least ``local_loss`` there can be, in nats: the entropy of a filler when the rule is
        known."""
        other = self.noise / self.fillers
        right = 1 - self.noise + other
        return -right * math.log(right) - (self.fillers - 1) * other * math.log(other)

    @cached_property
    def rule(self) -> Tensor:
        """The filler that follows from each token, (V,): fillers are permuted, the others thrown
        among them."""
        generator = torch.Generator().manual_seed(1234)
        table = torch.randint(self.fillers, (self.vocabulary,), generator=generator)
        table[: self.fillers] = torch.randperm(self.fillers, generator=generator)
        return table

    def draw(self, streams: int, length: int, generator: torch.Generator) -> Streams:
        """Return new streams of ``length`` tokens, at least twice the number of needles and
        questions."""
        # two tokens each: needle and any filler, or question and answer
        blocks = self.names + self.questions
        order = torch.rand(streams, length - blocks, generator=generator).argsort(1)[:, :blocks]
        places = order.sort(1).values + torch.arange(blocks)  # (B, blocks): two apart or more

        rank = torch.rand(streams, blocks, generator=generator)
        rank[:, 0] = -1  # the first block is a needle, so that every question has one before it
        is_needle = torch.zeros(streams, blocks, dtype=torch.bool).scatter(
            1, rank.argsort(1)[:, : self.names], True
        )
        needle_places = places[is_needle].view(streams, self.names)
        question_places = places[~is_needle].view(streams, self.questions)
        name = torch.rand(streams, self.names, generator=generator).argsort(1)  # each name once
        value = torch.randint(self.values, (streams, self.names), generator=generator)

        # needles before each question
        before = is_needle.long().cumsum(1)[~is_needle].view(streams, self.questions)
        asked = (torch.rand(streams, self.questions, generator=generator) * before).long()

        tokens = torch.full((streams, length), -1)
        tokens.scatter_(1, needle_places, self.first_needle + name * self.values + value)
        tokens.scatter_(1, question_places, self.first_question + name.gather(1, asked))
        tokens.scatter_(1, question_places + 1, self.first_answer + value.gather(1, asked))
        self._fill(tokens, generator)
        distance = torch.zeros(streams, length, dtype=torch.long)
        distance.scatter_(1, question_places, question_places - needle_places.gather(1, asked))
        return Streams(tokens, distance)

    def _fill(self, tokens: Tensor, generator: torch.Generator) -> None:
        """Put fillers where ``tokens`` (B, T) are -1.

        Each follows from the token ``lag`` places back, and that one perhaps from another: all are
        found at once, from the nearest token that follows from none and the number of steps from
        there.
        """
        drawn = torch.randint(self.fillers, tokens.shape, generator=generator)
        noisy = torch.rand(tokens.shape, generator=generator) < self.noise
        noisy[:, : self.lag] = True
        known = tokens.where((tokens >= 0) | ~noisy, drawn)
        # a step is a row
        rows = F.pad(known, (0, -known.shape[1] % self.lag), value=-1).unflatten(1, (-1, self.lag))
        row = torch.arange(rows.shape[1])[:, None]
        source = row.where(rows >= 0, 0).cummax(1).values  # (B, T / lag, lag)
        steps = row - source
        after = [torch.arange(self.vocabulary)]  # the token after so many steps of the rule
        while len(after) <= steps.max():
            after.append(self.rule[after[-1]])
        filled = torch.stack(after)[steps, rows.gather(1, source)]
        tokens.copy_(filled.flatten(1)[:, : tokens.shape[1]])

    def score(self, logits: Tensor, streams: Streams) -> Score:
        """Return what ``logits`` (B, T, V) of the next token are worth."""
        target, distance = streams.tokens[:, 1:], streams.distance[:, :-1]
        logits = logits[:, :-1].float()
        is_filler, is_question = target < self.fillers, distance > 0
        is_filler[:, : self.lag - 1] = (
            False  # no token is three places before these: they are pure chance
        )
        hit = (
            logits[is_question][:, self.first_answer :].argmax(-1)
            == target[is_question] - self.first_answer
        )
        windows_back = distance[is_question] / self.window
        is_far = windows_back > 1
        # 0: up to one window, 1: up to two, 2: up to four
        bins = windows_back.log2().ceil().clamp(min=0).long()
        count = max(1, math.ceil(math.log2(target.shape[1] / self.window)) + 1)
        return Score(
            loss=F.cross_entropy(logits.flatten(0, 1), target.flatten()).item(),
            local_loss=F.cross_entropy(
                logits[is_filler][:, : self.fillers], target[is_filler]
            ).item(),
            needle_loss=F.cross_entropy(logits[is_question], target[is_question]).item(),
            recall=_share(hit),
            near=_share(hit[~is_far]),
            far=_share(hit[is_far]),
            asked=tuple(bins.bincount(minlength=count).tolist()),
            answered=tuple(bins[hit].bincount(minlength=count).tolist()),
        )


def _share(hit: Tensor) -> float:
    return hit.double().mean().item()


TASK = Tags()
