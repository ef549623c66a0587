"""How does the time of a recurrent network grow with the length of the sequence, step by step and
by a scan?

Chapter 12.
"""

import time
from collections.abc import Callable

import torch
from torch import nn

from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.models import LSTM, MinGRU, SelfAttention, linear_recurrence, linear_scan

__all__ = ["run"]

HIDDEN, BATCH = 32, 4
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "LSTM, loop": lambda: LSTM(HIDDEN, HIDDEN),
    "LSTM, torch": lambda: nn.LSTM(HIDDEN, HIDDEN, batch_first=True),
    "minGRU, loop": lambda: MinGRU(HIDDEN, HIDDEN, linear_recurrence),
    "minGRU, scan": lambda: MinGRU(HIDDEN, HIDDEN, linear_scan),
    "attention": lambda: SelfAttention(HIDDEN, 1),
}


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Return the shortest of several times of one forward pass, in milliseconds of one processor's
    work."""
    with seeded(settings["seed"]):
        layer = LAYERS[settings["layer"]]()
        x = torch.randn(BATCH, settings["length"], HIDDEN)
    times = []
    with torch.no_grad():
        layer(x)
        for repeat in range(settings["repeats"]):
            start = time.process_time()
            layer(x)
            times.append(1e3 * (time.process_time() - start))
            progress((repeat + 1) / settings["repeats"])
    return {"ms": min(times)}


RNN_TIME = planned("rnn-time", run)
