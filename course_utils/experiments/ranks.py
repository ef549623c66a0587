"""The processes that `torchrun` started to train one model together: which this is, and what they must agree on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["count", "device", "joined", "rank", "require_same"]


def count() -> int:
    """Return the number of processes; 1 without `torchrun`."""
    return int(os.environ["WORLD_SIZE"]) if dist.is_torchelastic_launched() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(os.environ["RANK"]) if dist.is_torchelastic_launched() else 0


def device(device_type: str) -> torch.device:
    """Return the device of this process: on a machine with several GPUs each has its own."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if device_type == "cuda" else torch.device("cpu")


@contextmanager
def joined(own: torch.device) -> Iterator[None]:
    """Be in one process group with the others for a while; nothing for one process, or where there is a group already.

    After an error the group is left as it is: there may be nobody to take leave of, and the process ends anyway.
    """
    if count() == 1 or dist.is_initialized():
        yield
        return
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own.type == "cuda" else "gloo")
    yield
    dist.destroy_process_group()


def require_same(value: Any, what: str) -> None:
    """Stop unless ``value`` is the same on all processes.

    Raises:
        RuntimeError: it differs; the message has the value of each.
    """
    if count() == 1:
        return
    values: list[Any] = [None] * count()
    dist.all_gather_object(values, value)
    if any(other != value for other in values):
        raise RuntimeError(f"all processes must see the same {what}: got {values}")
