"""Small data that comes with the course, each with its licence beside it (chapters 04 and 07).

>>> from course_utils import data
>>> digits = data.digits()
>>> digits.train.images.shape, len(digits.validation.labels), len(digits.test.labels)
(torch.Size([1197, 1, 8, 8]), 240, 360)
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

__all__ = ["Digits", "Images", "digits", "raw_digits"]

FOLDER = Path(__file__).parent
_SIZES = (1197, 240, 360)  # train, validation, test: two thirds, and a fifth that nothing is ever chosen on


@dataclass(frozen=True)
class Images:
    """Images (N, 1, 8, 8), float32 from 0 to 1, and their labels (N,), int64 from 0 to 9."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Digits:
    """The handwritten digits in three parts: to learn from, to choose settings on, and to report."""

    train: Images
    validation: Images
    test: Images


def raw_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the 1,797 images as they are stored, uint8 (1797, 8, 8) from 0 to 16, and their labels, uint8 (1797,).

    Source: Alpaydin and Kaynak 1998, https://doi.org/10.24432/C50P49, CC BY 4.0; see ``LICENCE.txt`` beside the file.
    """
    with np.load(FOLDER / "digits.npz") as arrays:
        return arrays["images"], arrays["labels"]


def digits() -> Digits:
    """Return the handwritten digits, always in the same three parts, each with every class in its share.

    The parts share writers, because the data does not say who wrote what: an accuracy here is one on known hands.
    """
    images, labels = raw_digits()
    order = _order_with_classes_spread(labels)
    x = torch.from_numpy(images[order]).unsqueeze(1).float() / 16  # (N, 1, 8, 8)
    y = torch.from_numpy(labels[order]).long()
    return Digits(*map(Images, x.split(_SIZES), y.split(_SIZES)))


def _order_with_classes_spread(labels: np.ndarray) -> np.ndarray:
    """Return a fixed order in which any stretch holds the classes in nearly equal numbers."""
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).numpy()
    rank = np.empty(len(labels))  # 0 to 1: how far into its class an image comes
    for label in range(10):
        members = shuffled[labels[shuffled] == label]
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.argsort(rank, kind="stable")
