"""Does layer norm help an LSTM, and does it help more on longer sequences and in smaller batches?

Chapter 08.

The task is the adding problem (Hochreiter and Schmidhuber 1997, §5.4): of a sequence of random
numbers two are marked, and their sum is asked for at the end. Always answering 1 gives an error of
1/6. Three arms: an LSTM, the same with its gradient clipped, and the same with layer norm. Each
learns with every rate of one grid, and is judged by its best.
"""

import math
import statistics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.experiments.adding_problem import adding_problem
from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.experiments.training import fit
from course_utils.models import LSTM

__all__ = ["Adder", "run"]

ARMS = ("LSTM", "LSTM, clipped", "LN-LSTM")
HIDDEN = 32
CLIP = 0.1  # the largest norm of the gradient in the clipped arm
ALWAYS_ONE = 1 / 6  # the mean squared error of the answer 1: two variances of 1/12
SOLVED = 0.02  # an error below this is called solved
EVERY = 20  # steps between two looks at whether it is solved


class Adder(nn.Module):
    """An LSTM over (B, T, 2) and a linear layer on its last state; returns a number for each
    sequence, (B,)."""

    def __init__(self, layer_norm: bool, hidden: int = HIDDEN) -> None:
        super().__init__()
        # without layer norm PyTorch's own is the same function (tests/models/test_models.py) and
        # five times as fast
        self.lstm = (
            LSTM(2, hidden, layer_norm=True) if layer_norm else nn.LSTM(2, hidden, batch_first=True)
        )
        self.head = nn.Linear(hidden, 1)
        with torch.no_grad():
            # the forget gate starts open, which is the best-known help for a plain LSTM
            self.lstm.get_parameter("bias_ih_l0")[hidden : 2 * hidden] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Return (B,)."""
        return self.head(self.lstm(x)[0][:, -1]).squeeze(-1)


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one arm on fresh sequences until it solves the task; return when, its error, and its
    gradients' norms.

    "updates" are how many were made, "taken" the same where they solved the task and "steps" where
    they did not; "diverged" says whether a gradient that is not finite ended the run.
    """
    if settings["arm"] not in ARMS:  # else it would be taken for a plain LSTM
        raise ValueError(
            f"arm must be one of {', '.join(map(repr, ARMS))}: got {settings['arm']!r}"
        )
    with seeded(settings["seed"]):
        model = Adder(layer_norm=settings["arm"] == "LN-LSTM")
    if settings["arm"] == "LN-LSTM":
        for place in ("norm_x", "norm_h", "norm_c"):
            model.lstm.get_parameter(f"{place}.weight").data *= settings.get("gamma", 1.0)
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])
    limit = CLIP if settings["arm"] == "LSTM, clipped" else math.inf

    def loss_of(model: Adder) -> Tensor:
        x, target = adding_problem(settings["batch"], settings["length"], rng)
        return F.mse_loss(model(x), target)

    norms: list[float] = []
    solved = diverged = False
    while not solved and not diverged and len(norms) < settings["steps"]:
        updates = min(EVERY, settings["steps"] - len(norms))
        _, new_norms, diverged = fit(model, loss_of, optimizer, updates, clip=limit)
        norms += new_norms
        solved = not diverged and _error(model, settings["length"], seed=1) <= SOLVED
        progress(len(norms) / settings["steps"])
    return {
        "solved": solved,
        "taken": len(norms) if solved else settings["steps"],
        "error": _error(model, settings["length"], seed=2),
        "gradient_median": statistics.median(norms),
        "gradient_largest": max(norms),
        "clipped": sum(norm > limit for norm in norms) / len(norms),
        "diverged": diverged,
        "updates": len(norms),
    }


def _error(model: Adder, length: int, seed: int) -> float:
    """Return the mean squared error on 512 fixed sequences; one above 1, or NaN, counts as 1."""
    x, target = adding_problem(512, length, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        error = F.mse_loss(model(x), target).item()
    return min(error, 1.0) if math.isfinite(error) else 1.0


LSTM_LENGTH = planned("lstm-length", run)
LSTM_BATCH = planned("lstm-batch", run)
LSTM_EDGES = planned("lstm-edges", run)
LSTM_GAMMA = planned("lstm-gamma", run)
LSTM_SEEDS = planned("lstm-seeds", run)
