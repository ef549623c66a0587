"""Does batch norm fail in small batches, and does it beat the others in a CNN? It turns on what is
held equal.

Chapter 07.

The images are the 8×8 handwritten digits. A CNN, and a network without convolutions, learn with
batch, layer, group or no norm in batches of 2 to 64, each with every learning rate of one grid; the
rate is chosen on the validation part and the accuracy is that of the test part.

"updates": every batch size makes the same number of updates, and sees fewer images the smaller it
is. "epochs": every batch size sees the same images as often, and makes more updates the smaller it
is.

In the CNN a batch of 2 gives batch norm 2 · 8 · 8 = 128 values for each mean in its first layer and
8 in its last; in the network without convolutions it gives 2.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import data
from course_utils.experiments.study import NEW_SEEDS, Progress, Settings, Study, grid, seeded
from course_utils.experiments.training import fit
from course_utils.models import DigitsCNN, DigitsMLP

NETWORKS = {"CNN": DigitsCNN, "MLP": DigitsMLP}
NORMS = ("batch", "layer", "group", "none")
WITHOUT_GROUPS = ("batch", "layer", "none")
BATCHES = (2, 4, 16, 64)
IMAGES = 1_197  # in the training part
RATES = (0.0025, 0.01, 0.04, 0.16)
UPDATES, EPOCHS = 200, 2
LONG_RATES, LONG_EPOCHS = (*RATES, 0.64), 15
FINE_RATES = tuple(3e-4 * 2**k for k in range(10))

# network, budget, batch: the rate of each norm that seeds 0, 1 and 2 chose in the other studies. Of
# the rates that are at most one validation image a seed behind the best, it is the middle one (of
# two, the lower).
CHOSEN = {
    ("CNN", "200 updates", 16): {"batch": 0.01, "layer": 0.01, "group": 0.01},
    ("CNN", "200 updates", 64): {"batch": 0.04, "layer": 0.04, "group": 0.04},
    ("CNN", "2 epochs", 2): {"batch": 0.0025, "layer": 0.0025},
    ("CNN", "2 epochs", 16): {"batch": 0.01, "layer": 0.01, "group": 0.01},
    ("CNN", "2 epochs", 64): {"batch": 0.04, "layer": 0.04, "group": 0.04},
    ("CNN", "15 epochs", 16): {"batch": 0.01, "layer": 0.01, "group": 0.01},
    ("CNN", "15 epochs", 64): {"batch": 0.16, "layer": 0.04, "group": 0.01},
    ("MLP", "2 epochs", 2): {"batch": FINE_RATES[1], "layer": FINE_RATES[1]},
    ("MLP", "2 epochs", 4): {"batch": FINE_RATES[3], "layer": FINE_RATES[1]},
}


def index_batches(size: int, batch: int, updates: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Yield ``updates`` batches (``batch``,) of indices below ``size``, epoch after epoch, each in
    a new order."""
    order = torch.empty(0, dtype=torch.long)
    for _ in range(updates):
        if len(order) < batch:  # what is left of an epoch is dropped: every batch is full
            order = torch.randperm(size, generator=rng)
        yield order[:batch]
        order = order[batch:]


def loss_on_batches(
    part: data.Images, batch: int, updates: int, rng: torch.Generator
) -> Callable[[nn.Module], Tensor]:
    """Return a function that gives a model's cross entropy on the next of so many batches."""
    batches = index_batches(len(part.labels), batch, updates, rng)

    def loss_of(model: nn.Module) -> Tensor:
        indices = next(batches)
        return F.cross_entropy(model(part.images[indices]), part.labels[indices])

    return loss_of


@torch.no_grad()
def accuracy(model: nn.Module, part: data.Images) -> float:
    """Return the share of images that ``model`` names rightly, in evaluation mode."""
    model.eval()
    right = _right(model, part.images, part.labels).float().mean().item()
    model.train()
    return right


def run(settings: Settings, progress: Progress) -> dict[str, float]:
    """Train one network with SGD and momentum; return its accuracies, and those with the statistics
    of test batches."""
    digits = data.digits()
    with seeded(settings["seed"]):
        model = NETWORKS[settings["net"]](settings["norm"])
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=0.9)
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])
    loss_of = loss_on_batches(digits.train, settings["batch"], settings["updates"], rng)
    fit(model, loss_of, optimizer, settings["updates"], progress=progress)
    return {
        "validation": accuracy(model, digits.validation),
        "test": accuracy(model, digits.test),
        "test_by_batch": _accuracy_in_batches(model, digits.test, settings["batch"]),
    }


@torch.no_grad()
def _accuracy_in_batches(model: nn.Module, part: data.Images, batch: int) -> float:
    """Return the accuracy when the norms use the statistics of batches of the training's size, as
    in training."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    pairs = zip(part.images.split(batch), part.labels.split(batch), strict=True)
    right = [_right(model, images, labels) for images, labels in pairs if len(labels) == batch]
    model.load_state_dict(before, strict=False)
    return torch.cat(right).float().mean().item()


def _right(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return model(images).argmax(dim=1) == labels


def _epochs_plan(net: str, batches: Sequence[int], epochs: int, **fields: Any) -> list[Settings]:
    """Return a network that sees every image so often."""
    plan: list[Settings] = []
    for batch in batches:
        updates = epochs * (IMAGES // batch)
        plan += grid(net=[net], batch=[batch], epochs=[epochs], updates=[updates], **fields)
    return plan


def _equal_plan() -> list[Settings]:
    plan: list[Settings] = []
    for net, equal, norms in (
        ("CNN", "updates", NORMS),
        ("CNN", "epochs", NORMS),
        ("MLP", "epochs", WITHOUT_GROUPS),
    ):
        for batch in BATCHES:
            updates = UPDATES if equal == "updates" else EPOCHS * (IMAGES // batch)
            fixed: dict[str, Any] = {
                "net": [net],
                "equal": [equal],
                "updates": [updates],
                "batch": [batch],
            }
            plan += grid(**fixed, lr=RATES, seed=range(3), norm=norms)
    return plan


def _seeds_plan() -> list[Settings]:
    """Return new seeds at the chosen rates; of batch and layer norm after 15 epochs also at the
    rates beside it."""
    plan: list[Settings] = []
    for (net, budget, batch), rates_by_norm in CHOSEN.items():
        number, unit = budget.split()
        updates = int(number) * (IMAGES // batch if unit == "epochs" else 1)
        fixed: dict[str, Any] = {
            "net": [net],
            "budget": [budget],
            "updates": [updates],
            "batch": [batch],
        }
        for norm, rate in rates_by_norm.items():
            rates = RATES if budget == "15 epochs" and norm != "group" else (rate,)
            plan += grid(**fixed, norm=[norm], lr=rates, seed=NEW_SEEDS)
    return plan


BATCH_SIZE = Study(
    "batch-size",
    "which norm serves at which batch size, at equal updates and at equal epochs?",
    run,
    full=_equal_plan(),
    reduced=[
        *grid(
            net=["MLP"],
            equal=["updates"],
            updates=[300],
            batch=(2, 32),
            lr=[0.01],
            seed=range(3),
            norm=NORMS[:2],
        ),
        *grid(
            net=["CNN"],
            equal=["updates"],
            updates=[100],
            batch=(2, 32),
            lr=[0.01],
            seed=range(3),
            norm=NORMS,
        ),
    ],
)
CNN_LONG = Study(
    "cnn-long",
    "which norm serves a CNN best when it is trained for 15 epochs?",
    run,
    full=_epochs_plan("CNN", (16, 64), LONG_EPOCHS, lr=LONG_RATES, seed=range(3), norm=NORMS),
)
MLP_RATES = Study(
    "mlp-rates",
    "how far does a fine grid of rates rescue batch norm in small batches?",
    run,
    full=_epochs_plan("MLP", BATCHES, EPOCHS, lr=FINE_RATES, seed=range(3), norm=WITHOUT_GROUPS),
)
DIGITS_SEEDS = Study(
    "digits-seeds",
    "what do new seeds say of batch norm, at the rates that others chose?",
    run,
    _seeds_plan(),
)
