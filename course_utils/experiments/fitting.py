"""Training a model on the streams of ``tags``: what the long-context experiments share."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.experiments.tags import TASK

__all__ = ["fit", "generator_of", "warm_up_and_cool_down"]


def generator_of(seed: int) -> torch.Generator:
    """Return a new random generator with this seed."""
    return torch.Generator().manual_seed(seed)


def fit(
    model: nn.Module,
    steps: int,
    *,
    length: int,
    batch: int,
    learning_rate: float,
    seed: int,
    schedule: Callable[[float], float] = lambda done: 1.0,
    after_step: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train ``model`` on new streams, in place.

    Args:
        model: any that maps tokens to logits of the next one.
        steps: of AdamW.
        length: of the streams.
        batch: streams a step.
        learning_rate: at its highest.
        seed: of the streams.
        schedule: from the fraction of the steps that is done to the fraction of the learning rate.
        after_step: called with the number of steps done.
    """
    generator = generator_of(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * schedule((step + 1) / steps)
        tokens = TASK.draw(batch, length, generator).tokens
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        after_step(step + 1)
    model.eval()


def warm_up_and_cool_down(done: float, warm: float) -> float:
    """Return the fraction of the learning rate: a linear rise up to ``warm``, times half a cosine.

    Args:
        done: the fraction of the steps that is done.
        warm: the fraction of the steps in which it rises.
    """
    return min(1.0, done / warm) * (0.5 + 0.5 * math.cos(math.pi * done))
