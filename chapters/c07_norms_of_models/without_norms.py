"""Can a deep residual network do without norms? Chapter 07.

One network on the 8×8 digits: 16 blocks x + f(x), f two linear layers with a ReLU between them, a
norm behind each; and what has been put in the place of the norms. Most let a block begin near
x + 0 · f(x):

    γ = 0           batch norm whose last γ in a block starts at 0 (Goyal et al. 2017, §5.1)
    SkipInit        no norm; f times a learned number that starts at 0 (De & Smith 2020, §5)
    LayerScale      no norm; f times a learned vector that starts at 0.1 (Touvron et al. 2021, §2,
                    whose blocks have a layer norm besides)
    Fixup           no norm; the last weights of f start at 0, the first are smaller, and a learned
                    number before f starts at 1 (Zhang et al. 2019, §3)
    standardized    no norm; x + 0.2 f(x / β), rows of weights standardized (Brock et al. 2021, §3)
    dynamic tanh    in the place of each norm (Zhu et al. 2025, §4)
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import data
from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.experiments.training import fit
from course_utils.norms import DynamicTanh

WIDTH, BATCH = 64, 64
# the gain that gives the ReLU of a standard normal variable a variance of 1
RELU_GAIN = math.sqrt(2 / (1 - 1 / math.pi))
DIVERGED = 10.0  # stands for a loss that is not finite, or larger

NORMS = {
    "batch norm": nn.BatchNorm1d,
    "batch norm, γ = 0": nn.BatchNorm1d,
    "layer norm": nn.LayerNorm,
    "dynamic tanh": DynamicTanh,
}
ARMS = (*NORMS, "none", "SkipInit", "LayerScale", "Fixup", "standardized")


class StandardizedLinear(nn.Linear):
    """A linear layer whose rows have mean 0 and variance gain² / n, whatever its weights are."""

    def __init__(self, width: int, gain: float) -> None:
        super().__init__(width, width)
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, width)."""
        centred = self.weight - self.weight.mean(1, keepdim=True)
        variance = centred.square().mean(1, keepdim=True)
        scale = self.gain * torch.rsqrt(WIDTH * variance + 1e-4)
        return F.linear(x, centred * scale, self.bias)


class Block(nn.Module):
    """x + gate · f(x / β), for (B, WIDTH); ``index`` counts the blocks before it."""

    def __init__(self, arm: str, index: int, depth: int) -> None:
        super().__init__()
        make = NORMS.get(arm, lambda width: nn.Identity())
        self.norm1, self.norm2 = make(WIDTH), make(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        for layer in (self.first, self.second):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.gate: Tensor | float = 1.0
        self.beta = 1.0
        if arm == "batch norm, γ = 0":
            nn.init.zeros_(self.norm2.get_parameter("weight"))
        elif arm == "SkipInit":
            self.gate = nn.Parameter(torch.zeros(1))
        elif arm == "LayerScale":
            self.gate = nn.Parameter(torch.full((WIDTH,), 0.1))
        elif arm == "Fixup":
            self.gate = nn.Parameter(torch.ones(1))
            nn.init.zeros_(self.second.weight)
            self.first.weight.data *= depth**-0.5
        elif arm == "standardized":
            self.gate, self.beta = 0.2, math.sqrt(1 + 0.2**2 * index)
            self.first, self.second = (StandardizedLinear(WIDTH, g) for g in (1.0, RELU_GAIN))

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, WIDTH)."""
        inner = F.relu(self.norm1(self.first(x / self.beta)))
        return x + self.gate * self.norm2(self.second(inner))


def network(arm: str, depth: int) -> nn.Sequential:
    """Return a network of ``depth`` blocks for images (B, 1, 8, 8) with logits (B, 10)."""
    head = nn.Linear(WIDTH, 10)
    if arm == "Fixup":
        nn.init.zeros_(head.weight)
    blocks = (Block(arm, index, depth) for index in range(depth))
    last = NORMS.get(arm, lambda width: nn.Identity())(WIDTH)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), *blocks, last, head)


@torch.no_grad()
def evaluate(model: nn.Module, part: data.Images) -> tuple[float, float]:
    """Return loss, at most ``DIVERGED``, and accuracy in evaluation mode."""
    logits = model.eval()(part.images)
    loss = F.cross_entropy(logits, part.labels).item()
    accuracy = (logits.argmax(1) == part.labels).float().mean().item()
    return min(loss, DIVERGED) if math.isfinite(loss) else DIVERGED, accuracy


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one network with SGD and momentum; return loss and accuracy on validation and test."""
    digits = data.digits()
    with seeded(settings["seed"]):
        model = network(settings["arm"], settings["depth"])
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])

    def loss_of(model: nn.Module) -> Tensor:
        chosen = torch.randint(len(digits.train.labels), (BATCH,), generator=rng)
        return F.cross_entropy(model(digits.train.images[chosen]), digits.train.labels[chosen])

    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=0.9)
    fit(model, loss_of, optimizer, settings["updates"], progress=progress)
    validation, test = (evaluate(model, part) for part in (digits.validation, digits.test))
    return dict(zip(("validation", "loss", "accuracy"), (validation[0], *test), strict=True))


WITHOUT_NORMS = planned("without-norms", run)
WITHOUT_SEEDS = planned("without-seeds", run)
