"""The loop that trains every network of the experiments."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["History", "fit"]


class History(NamedTuple):
    """What a training was like, step by step.

    ``gradient_norms`` are those before clipping, none where nothing is clipped. ``diverged`` says
    that a gradient which was not finite ended the training; it was not applied, and its norm is not
    among them.
    """

    losses: list[float]
    gradient_norms: list[float]
    diverged: bool


def fit(
    model: nn.Module,
    loss_of: Callable[[Any], Tensor],
    optimizer: torch.optim.Optimizer,
    steps: int,
    *,
    schedule: Callable[[int], float] | None = None,
    clip: float | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> History:
    """Train ``model`` in place for so many steps.

    Args:
        model: what is trained.
        loss_of: returns the loss of ``model`` on a new batch, ().
        optimizer: of the model's parameters; it goes on from where it was.
        steps: how many updates there are.
        schedule: returns the learning rate of each step, from 0 on; by default the optimizer's own.
        clip: the largest norm that a gradient is applied with, perhaps infinite.
        progress: told the fraction of the steps that is done.
    """
    losses: list[float] = []
    gradient_norms: list[float] = []
    for step in range(steps):
        if schedule is not None:
            for group in optimizer.param_groups:
                group["lr"] = schedule(step)
        loss = loss_of(model)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            gradient_norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
            if not math.isfinite(gradient_norm):
                return History(losses, gradient_norms, diverged=True)
            gradient_norms.append(gradient_norm)
        optimizer.step()
        progress((step + 1) / steps)
    return History(losses, gradient_norms, diverged=False)
