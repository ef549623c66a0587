"""Does telling positions apart help a model that reads text, and which way of telling most?

Chapter 13. The text is ``data.topics()``, character by character; the last tenth is for testing.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import data
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.experiments.training import fit
from course_utils.models import Decoder

WINDOW, BATCH, WARM_UP = 64, 16, 50


def characters() -> tuple[Tensor, Tensor, int]:
    """Return the training part and the test part of the text, int64, and how many different
    characters there are."""
    text = data.topics()
    alphabet = sorted(set(text))
    numbers = {character: number for number, character in enumerate(alphabet)}
    ids = torch.tensor([numbers[character] for character in text])
    border = len(ids) * 9 // 10
    return ids[:border], ids[border:], len(alphabet)


@torch.no_grad()
def test_loss(model: Decoder, ids: Tensor) -> float:
    """Return the mean loss of the next character, in nats, over windows of the test part."""
    windows = ids[: (len(ids) - 1) // WINDOW * WINDOW + 1].unfold(0, WINDOW + 1, WINDOW)
    losses = [
        F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
        for batch in windows.split(64)
    ]
    return (torch.stack(losses).sum() / (len(windows) * WINDOW)).item()


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one network on windows of WINDOW characters; return its loss on the test part."""
    train, test, size = characters()
    rng = torch.Generator().manual_seed(settings["seed"])
    with torch.random.fork_rng(devices=[]):  # layers draw from the global state, then from rng
        model = Decoder(
            size,
            position=settings["encoding"],
            window=WINDOW,
            width=64,
            hidden=128,
            embedding_std=settings.get("std", 0.02),
            generator=rng,
        )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings["lr"], betas=(0.9, 0.98), weight_decay=0.01
    )
    steps, drawn = settings["steps"], torch.Generator().manual_seed(1000 + settings["seed"])

    def loss_of(model: Decoder) -> Tensor:
        starts = torch.randint(len(train) - WINDOW, (BATCH, 1), generator=drawn)
        batch = train[starts + torch.arange(WINDOW + 1)]  # (B, T + 1)
        return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    def schedule(step: int) -> float:
        cosine = (1 + math.cos(math.pi * step / steps)) / 2
        return settings["lr"] * min(1.0, (step + 1) / WARM_UP) * cosine

    fit(model, loss_of, optimizer, steps, schedule=schedule, clip=1.0, progress=progress)
    return {"loss": test_loss(model, test)}


READING, READING_LOUD = planned("reading", run), planned("reading-loud", run)
