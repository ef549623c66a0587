"""Pieces E to G: statistics that are kept, chosen, merged."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.bugs.piece import NearMiss, Piece
from course_utils.bugs.takes import Flag, Numbers, Real

__all__ = ["STATISTICS"]


def _train(batches: Tensor, momentum: float) -> tuple[Tensor, Tensor, Tensor]:
    running_mean, running_var = batches.new_zeros(batches.shape[-1]), batches.new_ones(batches.shape[-1])
    for batch in batches:
        y = F.batch_norm(batch, running_mean, running_var, training=True, momentum=momentum)
    return y, running_mean, running_var


def _whole_batch(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    whole = torch.cat((a, b))
    return whole.mean(0), whole.var(0, correction=0)


def _by_mode(x: Tensor, running_mean: Tensor, running_var: Tensor, training: bool, gradients: bool) -> Tensor:
    if (running_var < 0).any():
        raise ValueError("running_var must not be negative")
    return F.batch_norm(x, running_mean, running_var, training=training, momentum=0.0)


STATISTICS = (
    Piece(
        letter="E",
        function="run",
        claim="It claims to return what `nn.BatchNorm1d` returns and keeps, starting from a mean of 0 and a variance "
        "of 1.",
        takes={"batches": Numbers("SNC", 1e3), "momentum": Real(0, 1)},
        sizes={"S": (1, 8), "N": (2, 256), "C": (1, 16)},
        draw=lambda generator: {"batches": torch.randn(4, 256, 3, generator=generator), "momentum": 0.1},
        right=_train,
        mend=("running_var.lerp_(var, momentum)", "running_var.lerp_(var * len(x) / (len(x) - 1), momentum)"),
        returns=("output", "running_mean", "running_var"),
        tolerance=2e-2,
        because="for 256 samples right and wrong differ by 0.4 %, and few tests of running statistics are tighter",
        hints=(
            "Batch norm has a use for two variances of one batch. Which two, and for what?",
            "n and n − 1: for which n does it matter which you divide by?",
            "Batches of two, and enough of them (or enough momentum) for the start to be forgotten.",
        ),
        wrong="The variance that normalizes divides by n. The one that is stored stands for data not seen yet, and "
        "divides by n − 1. For batches of two the stored one is half of what it should be.",
        seen="In the batch norm of a well-known textbook, in that of a collection of annotated papers, and in a "
        "course's exercise that promises to be interchangeable with PyTorch's (ARENA, issue 415).",
        solution=lambda ordinary: {"batches": ordinary["batches"][:, :2], "momentum": 1.0},
        near=(
            NearMiss(lambda a: a["momentum"] < 1e-3, "With next to no momentum nothing is learned, right or wrong."),
            NearMiss(
                lambda a: a["batches"].shape[1] >= 64,
                "Your batches are large, and the larger a batch, the closer its two variances are.",
            ),
        ),
    ),
    Piece(
        letter="F",
        function="run",
        claim="It claims that `.train()` and `.eval()` choose the statistics, as they do for `nn.BatchNorm1d`.",
        takes={
            "x": Numbers("NC", 1e3),
            "running_mean": Numbers("C", 1e3),
            "running_var": Numbers("C", 1e3),
            "training": Flag(),
            "gradients": Flag(),
        },
        sizes={"N": (2, 128), "C": (1, 16)},
        draw=lambda generator: {
            "x": torch.randn(16, 4, generator=generator),
            "running_mean": torch.randn(4, generator=generator),
            "running_var": 0.5 + torch.rand(4, generator=generator),
            **dict.fromkeys(("training", "gradients"), bool(torch.rand(1, generator=generator) < 0.5)),
        },
        right=_by_mode,
        mend=("torch.is_grad_enabled()", "self.training"),
        tolerance=1e-2,
        because="float32 needs far less; the bug exchanges one pair of statistics for another",
        hints=(
            "Training records gradients and evaluation does not, in a training script. Always?",
            "A saliency map, and an attack on a classifier, need the gradient of a model that is evaluated.",
            "Let `training` and `gradients` differ.",
        ),
        wrong="Whether gradients are recorded says nothing of the mode. In evaluation with gradients on, an answer "
        "depends on its neighbours; in training under `no_grad`, the batch is not looked at.",
        seen="In a well-known textbook, whose batch norm reads the mode from `torch.is_grad_enabled()`. There it keeps "
        "a function short; `.eval()` alone then changes nothing.",
        solution=lambda ordinary: {**ordinary, "training": False, "gradients": True},
        near=(
            NearMiss(
                lambda a: a["training"] == a["gradients"],
                "Whatever the numbers, `training` and `gradients` say the same here.",
            ),
        ),
    ),
    Piece(
        letter="G",
        function="whole_batch",
        claim="It claims to find the statistics of the two shards put together.",
        takes={"a": Numbers("NC", 1e3), "b": Numbers("MC", 1e3)},
        sizes={"N": (1, 512), "M": (1, 512), "C": (1, 16)},
        draw=lambda generator: {name: torch.randn(256, 3, generator=generator) for name in "ab"},
        right=_whole_batch,
        mend=(
            "(n * var_a + m * var_b) / (n + m)",
            "(n * (var_a + (mean_a - mean) ** 2) + m * (var_b + (mean_b - mean) ** 2)) / (n + m)",
        ),
        returns=("mean", "variance"),
        tolerance=5e-2,
        because="the means of two random shards of 256 differ by chance, which is worth about 1 % of the variance",
        hints=(
            "Each shard has no spread at all: can the whole batch have some?",
            "The counts are right, and so is the mean. What does an average of variances not know?",
            "Shift one of the shards.",
        ),
        wrong="The variance of the whole has a part within the shards and a part between their means. The second is "
        "missing: here the two shards may be miles apart.",
        seen="A known mistake in batch norm across machines, which chapter 08 avoids by merging. Shuffled data has "
        "shards with nearly equal means, and hides it. We know of no public place with this very line.",
        solution=lambda ordinary: {**ordinary, "a": ordinary["a"] + 3},
        near=(
            NearMiss(
                lambda a: len(a["a"]) != len(a["b"]),
                "Shards of different sizes are weighted by their counts, which is right. What else can they differ in?",
            ),
        ),
    ),
)
