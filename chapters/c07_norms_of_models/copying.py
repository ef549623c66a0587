"""Do QK norm and dynamic tanh do for a small transformer what their papers say?

Chapter 07.

The task is to read eight letters and to write them down again, which takes attention that looks
back at one place. The loss is cross entropy: ln 16 = 2.77 is guessing, 0 is a perfect copy. One
network, two questions:

    QK_NORM      do attention's logits grow with the learning rate, and does a norm on queries and
                 keys hold them?
    NORM_FAMILY  are layer norm, RMS norm, dynamic tanh and nothing at all interchangeable?
"""

import math
import statistics
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.experiments.training import fit
from course_utils.models import SelfAttention, TransformerBlock
from course_utils.norms import DynamicTanh

LETTERS, LENGTH, BATCH = 16, 8, 16
WIDTH, HEADS = 32, 4
GUESSING = math.log(LETTERS)
# stands for a run that ended in NaN
DIVERGED = {
    "loss": 10.0,
    "largest_logit": -1.0,
    "entropy_bits": -1.0,
}

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer norm": nn.LayerNorm,
    "RMS norm": nn.RMSNorm,
    "dynamic tanh, α = 0.5": partial(DynamicTanh, alpha_init=0.5),
    "dynamic tanh, α = 1": partial(DynamicTanh, alpha_init=1.0),
    "dynamic tanh, α = 2": partial(DynamicTanh, alpha_init=2.0),
    "none": lambda width: nn.Identity(),
}


class CausalAttention(SelfAttention):
    """Multi-head self-attention in which a token looks back only.

    ``qk_norm`` is RMS norm over each head of q and k (as Qwen3 and Gemma 3; Dehghani et al. 2023,
    §2, with layer norm).
    """

    def __init__(self, width: int, heads: int, qk_norm: bool = False) -> None:
        super().__init__(width, heads)
        self.norm_q, self.norm_k = (
            nn.RMSNorm(width // heads) if qk_norm else nn.Identity() for _ in range(2)
        )

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q and k with their norms, and v, of ``x`` (B, T, C), each (B, heads, T, C /
        heads)."""
        q, k, v = super().parts(x)
        return self.norm_q(q), self.norm_k(k), v

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return what the softmax is taken of, (B, heads, T, T), −∞ for tokens ahead."""
        ahead = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(ahead, -math.inf)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C)."""
        q, k, v = self.parts(x)
        mixed = self.scores(q, k).softmax(-1) @ v  # (B, heads, T, C / heads)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Copier(nn.Module):
    """A pre-norm transformer over letters (B, T); returns logits of the next letter (B, T,
    LETTERS).

    ``norm``, one of ``NORMS``, is in the three places where a pre-norm transformer has one.
    """

    def __init__(self, depth: int, norm: str = "layer norm", qk_norm: bool = False) -> None:
        super().__init__()
        make = NORMS[norm]
        self.letter = nn.Embedding(LETTERS + 1, WIDTH)  # the last one says: now write
        self.place = nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks = nn.ModuleList(TransformerBlock(WIDTH, HEADS, "pre") for _ in range(depth))
        for block in self.blocks:
            block.attention = CausalAttention(WIDTH, HEADS, qk_norm)
            block.norm1, block.norm2 = make(WIDTH), make(WIDTH)
        self.norm, self.head = make(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        """Return (B, T, LETTERS)."""
        x = self.letter(letters) + self.place.weight[: letters.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def words(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return inputs (B, 2·LENGTH), a word, a mark and the word but its last letter, and the words
    (B, LENGTH)."""
    word = torch.randint(LETTERS, (BATCH, LENGTH), generator=rng)
    return torch.cat([word, torch.full((BATCH, 1), LETTERS), word[:, :-1]], dim=1), word


@torch.no_grad()
def logits_and_entropy(model: Copier, letters: Tensor) -> tuple[float, float]:
    """Return the largest logit of any attention, and the least mean entropy of a layer's rows, in
    bits."""
    inputs: dict[CausalAttention, Tensor] = {}
    layers = [module for module in model.modules() if isinstance(module, CausalAttention)]
    hooks = [
        layer.register_forward_pre_hook(lambda module, x: inputs.update({module: x[0]}))
        for layer in layers
    ]
    model(letters)
    for hook in hooks:
        hook.remove()

    largest, entropies = 0.0, []
    for layer, x in inputs.items():
        q, k, _ = layer.parts(x)
        scores = layer.scores(q, k)
        largest = max(largest, scores.masked_fill(scores == -math.inf, 0.0).abs().max().item())
        entropies.append(torch.special.entr(scores.softmax(-1)).sum(-1).mean().item() / math.log(2))
    return largest, min(entropies)


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one network on fresh words; return its loss over the last tenth of the steps, its
    logits and entropy.

    A run in which a loss is not finite returns ``DIVERGED``, since JSON has no NaN.
    """
    with seeded(settings["seed"]):
        model = Copier(settings["depth"], settings["norm"], settings["qk_norm"])
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])

    def loss_of(model: Copier) -> Tensor:
        letters, word = words(rng)
        logits = model(letters)[:, LENGTH:]  # (B, LENGTH, LETTERS)
        return F.cross_entropy(logits.flatten(0, 1), word.flatten())

    losses = fit(model, loss_of, optimizer, settings["steps"], progress=progress).losses
    if not all(map(math.isfinite, losses)):
        return dict(DIVERGED)
    last = statistics.fmean(losses[-max(1, settings["steps"] // 10) :])
    largest, entropy = logits_and_entropy(model, words(torch.Generator().manual_seed(0))[0])
    return {"loss": last, "largest_logit": largest, "entropy_bits": entropy}


QK_NORM = planned("qk-norm", run)
NORM_SEEDS = planned("norm-seeds", run)
NORM_FAMILY = planned("norm-family", run)
