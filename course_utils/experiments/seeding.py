"""Random numbers for an experiment: from a seed, and with no trace in PyTorch's global state."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside, for layers that initialise themselves; afterwards the global state is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
