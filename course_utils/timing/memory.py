"""What a forward pass keeps in memory for the backward pass (chapter 02 first, chapter 09 most)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def saved_bytes(fn: Callable[..., Any], *args: Any) -> int:
    """Return how many bytes autograd keeps alive for the backward pass of ``fn(*args)``.

    Every storage counts once, however many tensors view it; the arguments count too, where they are kept.

    Where neither an argument nor the result requires a gradient, nothing can be kept, and that is a ``ValueError``.

    >>> x = torch.ones(1000, requires_grad=True)
    >>> saved_bytes(torch.exp, x), saved_bytes(lambda x: x + 1, x)
    (4000, 0)
    """
    kept: dict[int, int] = {}
    alive = []  # a freed tensor's address could come back and hide another's bytes

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = fn(*args)
    if not kept and not any(isinstance(value, Tensor) and value.requires_grad for value in (*args, result)):
        raise ValueError("args must hold a tensor that requires a gradient: got none")
    return sum(kept.values())
