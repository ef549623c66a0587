"""Small data that comes with the course, each with its licence beside it (chapters 01, 02, 04, 06,
08 and 14 to 17).

>>> from course_utils import data
>>> digits = data.digits()
>>> digits.train.images.shape, len(digits.validation.labels), len(digits.test.labels)
(torch.Size([1197, 1, 8, 8]), 240, 360)
"""

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from course_utils.rooms import submodules

__all__ = [
    "SMOLLM2_BLOCKS",
    "SMOLLM2_HEADS",
    "Digits",
    "Images",
    "digits",
    "docstrings",
    "prose",
    "raw_digits",
    "smollm2_heads",
    "smollm2_scores",
    "smollm2_stream",
    "topics",
]

__getattr__ = submodules(__name__)

FOLDER = Path(__file__).parent
# (block, head); the last one copies (induction)
SMOLLM2_HEADS = (
    (16, 0),
    (11, 1),
    (1, 2),
    (2, 1),
    (19, 3),
    (18, 6),
)
SMOLLM2_BLOCKS = (0, 5, 12, 29)
# train, validation, test: two thirds, and a fifth that nothing is ever chosen on
_SIZES = (
    1197,
    240,
    360,
)


@dataclass(frozen=True)
class Images:
    """Images (N, 1, 8, 8), float32 from 0 to 1, and their labels (N,), int64 from 0 to 9."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Digits:
    """The handwritten digits in three parts: to learn from, to choose settings on, and to
    report."""

    train: Images
    validation: Images
    test: Images


def raw_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the 1,797 images as they are stored, uint8 (1797, 8, 8) from 0 to 16, and their
    labels, uint8 (1797,).

    Source: Alpaydin and Kaynak 1998, https://doi.org/10.24432/C50P49, CC BY 4.0; see
    ``LICENCE.txt`` beside the file.
    """
    with np.load(FOLDER / "digits.npz") as arrays:
        return arrays["images"], arrays["labels"]


def digits() -> Digits:
    """Return the handwritten digits, always in the same three parts, each with every class in its
    share.

    The parts share writers, because the data does not say who wrote what: an accuracy here is one
    on known hands.
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


def topics() -> str:
    """Return the help texts of Python 3.11.7 (``pydoc_data.topics``, sorted, blank lines between):
    465,126 characters.

    They are kept here because each release of Python has others. Source and licence:
    ``LICENCE.txt`` beside the file.
    """
    return gzip.decompress((FOLDER / "topics.txt.gz").read_bytes()).decode()


def docstrings() -> str:
    """Return the docstrings of Python 3.11.7's ``heapq`` and ``sched``: 2,676 characters. Chapters
    15 and 16."""
    return (FOLDER / "docstrings.txt").read_text(encoding="utf-8")


def prose() -> str:
    """Return a story that was written for this course, so that no model has learned it: 2,747
    characters. Chapters 15 and 16."""
    return (FOLDER / "prose.txt").read_text(encoding="utf-8")


def smollm2_heads() -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """Return q and k, float32 (512, 64), not rotated, of six heads (block, head) of SmolLM2-135M.
    Chapters 14 and 15.

    The first five heads look at the token before. Tokens 20,000 to 20,511 of ``topics()``, rounded
    to float16; pair i is (i, i + 32), its frequency 100,000^(-i/32), and scores are divided by 8.
    Made by ``models.pretrained``.
    """
    with np.load(FOLDER / "smollm2_heads.npz") as arrays:
        x = {name: torch.from_numpy(arrays[name]).float() for name in arrays}
    return {(b, h): (x[f"q_{b}_{h}"], x[f"k_{b}_{h}"]) for b, h in SMOLLM2_HEADS}


def smollm2_scores() -> tuple[Tensor, Tensor]:
    """Return the mean of q · conj(k) / 8 as complex64 (30 blocks, 9 heads, 32 pairs) of
    SmolLM2-135M, not rotated.

    First with ordinary keys (256 random queries and keys of the passage of ``smollm2_heads``, seed
    0), then with token 0's, the attention sink's. The mean score at any distance is linear in it:
    the sum over pairs of the real part of ``z * exp(1j * distance * inv_freq)``. Rounded to
    float16; made by ``models.pretrained``. Chapters 15 and 16.
    """
    with np.load(FOLDER / "smollm2_scores.npz") as arrays:
        ordinary, sink = (
            torch.view_as_complex(torch.from_numpy(arrays[n]).float()) for n in ("ordinary", "sink")
        )
    return ordinary, sink


def smollm2_stream() -> dict[int, Tensor]:
    """Return what enters the first norm of four blocks of SmolLM2-135M, by block: float32
    (32, 576), a row for each token.

    Tokens 20,000 to 20,031 of ``topics()``, rounded to float16; made by ``models.pretrained``.
    Chapter 02.
    """
    with np.load(FOLDER / "smollm2_stream.npz") as arrays:
        return {block: torch.from_numpy(arrays[str(block)]).float() for block in SMOLLM2_BLOCKS}
