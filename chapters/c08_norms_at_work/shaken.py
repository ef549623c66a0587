"""Is it the stillness of the layers' inputs that batch norm helps by? Networks whose inputs are
shaken, forty side by side (Santurkar et al. 2018, §2.1).

Chapter 08.

Eight hidden layers of 64 with ReLU on the digits, plain gradient descent with a batch of 64, five
rates, eight seeds with their own weights and batches. After each batch norm every channel has a
factor from 1 to 1.5 and a shift from −1 to 1, anew in every step or held, and around them each
sample its own, up to 0.2 away. R rates, S seeds, B batch.
"""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import data
from course_utils.experiments.rows import Rows
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.session import generator

__all__ = ["RATES", "Training", "by_arm", "train_side_by_side"]

RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
SEEDS, HIDDEN, BATCH = 8, 8, 64
ARMS = {"batch norm": (True, "none"), "no norm": (False, "none")}  # a norm, and which noise
ARMS |= {"held": (True, "held"), "shaken": (True, "jumps")}


class Training(NamedTuple):
    """What became of the networks, (R, S) each."""

    loss: Tensor  # mean of the last 20 steps, under the noise
    noise_off: Tensor  # the same, with every draw that is not held at its mean
    jumps: Tensor  # of the mean that the fifth ReLU sees, a step, in standard deviations
    varies: Tensor  # the loss within four steps along the gradient
    cosine: Tensor  # of the gradient now and after one step


class Noise(NamedTuple):
    """Factors and shifts, (HIDDEN, S, 64, B) each, or with a 1 for B."""

    factor: Tensor
    shift: Tensor


def _networks(norm: bool) -> list[Tensor]:
    """Return weights (R, S, out, in), biases (R, S, out, 1), with batch norm its factors γ."""
    rng, sizes = generator(0), [64] * (HIDDEN + 1) + [10]
    params = []
    for i, o in pairwise(sizes):
        weight = (2 / i) ** 0.5 * torch.randn(SEEDS, o, i, generator=rng)
        params.append(weight.repeat(len(RATES), 1, 1, 1))
    params += [torch.zeros(len(RATES), SEEDS, o, 1) for o in sizes[1:]]
    params += [torch.ones(len(RATES), SEEDS, 64, 1) for _ in range(HIDDEN * norm)]
    return [param.requires_grad_() for param in params]


def _drawn(centres: Tensor, rng: torch.Generator) -> Noise:
    """Each sample's own noise around the channels' ``centres``, (2, HIDDEN, S, 64, 1)."""
    own = 0.4 * torch.rand(2, HIDDEN, SEEDS, 64, BATCH, generator=rng) - 0.2
    return Noise(1 + 0.5 * centres[0] + own[0], 2 * centres[1] - 1 + own[1])


def _noise_off(noise: str, centres: Tensor) -> Noise | None:
    """Each draw at its mean: the samples' own, and the channels' unless they are held."""
    if noise == "none":
        return None
    centres = centres if noise == "held" else torch.full_like(centres, 0.5)
    return Noise(1 + 0.5 * centres[0], 2 * centres[1] - 1)


def _forward(
    params: list[Tensor], x: Tensor, norm: bool, noise: Noise | None
) -> tuple[Tensor, Tensor]:
    """Return the logits (R, S, 10, B), and what the fifth ReLU sees (R, S, 64, B)."""
    weights, biases, gammas = (params[start:] for start in (0, HIDDEN + 1, 2 * HIDDEN + 2))
    for k in range(HIDDEN):
        x = weights[k] @ x  # (R, S, 64, B)
        if norm:  # batch norm: over the batch, which is the last dimension
            x = gammas[k] * F.layer_norm(x, x.shape[-1:])
        x = x + biases[k]
        if noise is not None:
            x = noise.factor[k] * x + noise.shift[k]
        if k == 4:
            fifth = x.detach()
        x = x.relu()
    return weights[HIDDEN] @ x + biases[HIDDEN], fifth


class _Batch(NamedTuple):
    x: Tensor  # (S, 64, B)
    labels: Tensor  # (S, B)
    noise: Noise | None


def _losses(params: list[Tensor], batch: _Batch, norm: bool) -> tuple[Tensor, Tensor]:
    """Return the loss of each network (R, S), and what its fifth ReLU sees."""
    logits, fifth = _forward(params, batch.x, norm, batch.noise)
    labels = batch.labels.expand(len(logits), -1, -1).flatten(0, 1)
    each = F.cross_entropy(logits.flatten(0, 1), labels, reduction="none")  # (R S, B)
    return each.mean(1).view(logits.shape[:2]), fifth


def _stepped(params: list[Tensor], grads: list[Tensor], rate: Tensor) -> list[Tensor]:
    pairs = zip(params, grads, strict=True)
    return [(p - rate * g).detach().requires_grad_() for p, g in pairs]


def _along_the_gradient(
    params: list[Tensor], grads: list[Tensor], batch: _Batch, norm: bool, rate: Tensor
) -> Tensor:
    """Return how the loss varies from half a step to four, and the cosine with the gradient after
    one."""
    there = _stepped(params, grads, rate)
    one, _ = _losses(there, batch, norm)
    after = torch.autograd.grad(one.sum(), there)
    with torch.no_grad():
        others = [_stepped(params, grads, far * rate) for far in (0.5, 2, 4)]
        along = torch.stack([one, *(_losses(other, batch, norm)[0] for other in others)])
    now, then = (torch.cat([g.flatten(2) for g in gs], 2) for gs in (grads, after))
    cosine = F.cosine_similarity(now, then, dim=2)
    return torch.stack([along.max(0).values - along.min(0).values, cosine])


def train_side_by_side(norm: bool, noise: str, steps: int) -> Training:
    """Train all networks; ``noise`` is ``"none"``, ``"jumps"`` (anew in every step) or ``"held"``
    (channels' factors and shifts drawn once)."""
    digits = data.digits().train
    pixels = digits.images.flatten(1)  # (1197, 64)
    rate, params = torch.tensor(RATES).view(-1, 1, 1, 1), _networks(norm)
    rng, of_noise = generator(1), generator(2)
    losses, without, means, deviations, beyond = [], [], [], [], []
    drawn, centres = None, torch.empty(0)
    for step in range(steps):
        chosen = torch.randint(len(pixels), (SEEDS, BATCH), generator=rng)
        if noise == "jumps" or (noise == "held" and step == 0):
            centres = torch.rand(2, HIDDEN, SEEDS, 64, 1, generator=of_noise)
        if noise != "none":
            drawn = _drawn(centres, of_noise)
        batch = _Batch(pixels[chosen].transpose(1, 2), digits.labels[chosen], drawn)
        loss, fifth = _losses(params, batch, norm)
        grads = list(torch.autograd.grad(loss.sum(), params))
        losses.append(loss.detach())
        means.append(fifth.mean(3))
        deviations.append((fifth - means[-1][..., None]).square().mean(3).sqrt())
        if step >= steps - 20:
            with torch.no_grad():
                off = batch._replace(noise=_noise_off(noise, centres))
                without.append(_losses(params, off, norm)[0])
        if step % 20 == 0:  # the same batch and the same noise, further along
            beyond.append(_along_the_gradient(params, grads, batch, norm, rate))
        params = _stepped(params, grads, rate)
    mean, deviation = torch.stack(means), torch.stack(deviations)  # (steps, R, S, 64) each
    jumps = ((mean[1:] - mean[:-1]).abs() / deviation[:-1]).mean((0, 3))
    loss, noise_off = torch.stack(losses[-20:]).mean(0), torch.stack(without).mean(0)
    return Training(loss, noise_off, jumps, *torch.stack(beyond).mean(0))


def run(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return what became of one seed of an arm, each field of ``Training`` as a list over the
    rates. The eight seeds are trained together, once."""
    trained = _trained(settings["arm"], settings["steps"])
    progress(1.0)
    fields = trained._asdict().items()
    return {field: values[:, settings["seed"]].tolist() for field, values in fields}


@cache
def _trained(arm: str, steps: int) -> Training:
    return train_side_by_side(*ARMS[arm], steps)


def by_arm(rows: Rows) -> dict[str, Training]:
    """Return what was recorded of each arm."""
    results = {}
    for arm in rows.values("arm"):
        runs = rows.select(arm=arm)
        fields = [torch.tensor([row[name] for row in runs]).T for name in Training._fields]
        results[arm] = Training(*fields)  # (R, S) each
    return results


SHAKEN = planned("shaken", run)
