"""Where a transformer has its norms: the gradient of each layer at the start, and what training
makes of it.

Chapter 08.

All use a vision transformer on the 8×8 digits, whose patches of 2×2 pixels are its tokens.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from chapters.c08_norms_at_work.batch_size import accuracy, index_batches, loss_on_batches
from course_utils import data
from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.experiments.training import fit
from course_utils.models import TransformerBlock, ViT

BATCH = 16


def _blocks(model: ViT) -> list[TransformerBlock]:
    return [block for block in model.blocks if isinstance(block, TransformerBlock)]


def _xavier(model: ViT) -> ViT:
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)
    return model


def gradients(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return, for each block of an untrained ViT, the gradient's norm and the size of what leaves
    the block.

    The gradient is that of the weight of the feed-forward part's second layer, as in Xiong et al.
    2020, §3.3, with Xavier's initialisation as there; the size is the root of the mean square of
    the residual stream.
    """
    train = data.digits().train
    with seeded(settings["seed"]):
        model = _xavier(ViT(settings["depth"], settings["placement"]))
    sizes: list[float] = []
    for block in _blocks(model):
        block.register_forward_hook(
            lambda _, __, x: sizes.append(x.detach().square().mean().sqrt().item())
        )
    chosen = next(
        index_batches(
            len(train.labels), 256, 1, torch.Generator().manual_seed(1_000 + settings["seed"])
        )
    )
    loss = F.cross_entropy(model(train.images[chosen]), train.labels[chosen])
    weights = [block.feed_forward[2].get_parameter("weight") for block in _blocks(model)]
    norms = [gradient.norm().item() for gradient in torch.autograd.grad(loss, weights)]
    progress(1.0)
    layers = list(range(1, settings["depth"] + 1))
    return {"layer": layers, "gradient": norms, "size": sizes, "first": norms[0], "last": norms[-1]}


def train(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one ViT with Adam, the rate rising over the first ``warm_up`` updates; return its
    accuracies."""
    digits = data.digits()
    with seeded(settings["seed"]):
        model = ViT(settings["depth"], settings["placement"])
        model = _xavier(model) if settings.get("init") == "Xavier" else model
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])
    loss_of = loss_on_batches(digits.train, BATCH, settings["updates"], rng)

    def schedule(step: int) -> float:
        return settings["lr"] * min(1.0, (step + 1) / max(settings["warm_up"], 1))

    steps = settings["updates"]
    fit(model, loss_of, optimizer, steps, schedule=schedule, progress=progress)
    return {"validation": accuracy(model, digits.validation), "test": accuracy(model, digits.test)}


GRADIENT_DEPTH = planned("gradient-depth", gradients)
VIT_DEPTH = planned("vit-depth", train)
VIT_XAVIER = planned("vit-xavier", train)
VIT_DEPTH_INIT = planned("vit-depth-init", train)
VIT_SEEDS = planned("vit-seeds", train)
