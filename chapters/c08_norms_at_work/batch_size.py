"""Does batch norm fail in small batches, and does it beat the others in a CNN? It turns on what is
held equal.

Chapter 08.

The images are the 8×8 handwritten digits. A CNN, and a network without convolutions, learn with
batch, layer, group or no norm in batches of 2 to 64, each with every learning rate of one grid; the
rate is chosen on the validation part and the accuracy is that of the test part.

"updates": every batch size makes the same number of updates, and sees fewer images the smaller it
is. "epochs": every batch size sees the same images as often, and makes more updates the smaller it
is.

In the CNN a batch of 2 gives batch norm 2 · 8 · 8 = 128 values for each mean in its first layer and
8 in its last; in the network without convolutions it gives 2.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import data
from course_utils.experiments.study import Progress, Settings, planned, seeded
from course_utils.experiments.training import fit
from course_utils.models import DigitsCNN, DigitsMLP

NETWORKS = {"CNN": DigitsCNN, "MLP": DigitsMLP}


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
    if "group" in settings:
        normalize_in_groups(model, settings["group"])
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=0.9)
    rng = torch.Generator().manual_seed(1_000 + settings["seed"])
    loss_of = loss_on_batches(digits.train, settings["batch"], settings["updates"], rng)
    fit(model, loss_of, optimizer, settings["updates"], progress=progress)
    return {
        "validation": accuracy(model, digits.validation),
        "test": accuracy(model, digits.test),
        "test_by_batch": _accuracy_in_batches(model, digits.test, settings["batch"]),
    }


def normalize_in_groups(model: nn.Module, size: int) -> None:
    """Make each batch norm of ``model`` normalize so many samples at a time in training (ghost
    batch norm; Hoffer et al. 2017)."""
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):

            def in_groups(x: Tensor, plain: Callable[[Tensor], Tensor] = layer.forward) -> Tensor:
                return torch.cat([plain(part) for part in x.split(size)])

            layer.forward = in_groups  # type: ignore[assignment]


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


BATCH_SIZE = planned("batch-size", run)
CNN_LONG = planned("cnn-long", run)
MLP_RATES = planned("mlp-rates", run)
DIGITS_SEEDS = planned("digits-seeds", run)
BATCHES_OF_TWO = planned("batches-of-two", run)
GHOST_GROUPS = planned("ghost-groups", run)
