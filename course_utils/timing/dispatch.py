"""What a call dispatches: its operators, how they are nested, the bytes they move and those they
keep (chapter 10)."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Step:
    """One operator: its name, and the bytes of the tensors that it takes and makes."""

    operator: str
    bytes_read: int
    bytes_written: int

    @property
    def bytes_moved(self) -> int:
        """Read and written together."""
        return self.bytes_read + self.bytes_written


def traffic(fn: Callable[..., Any], *args: Any) -> list[Step]:
    """Run ``fn(*args)`` and return the operators that touch memory, in order.

    Each is counted as if it found nothing in cache: all its inputs read once and its results
    written once. A compiled function hides its operators, so give it uncompiled.

    >>> import torch
    >>> x = torch.ones(100)
    >>> for step in traffic(lambda x: x.view(10, 10) * 2 + 1, x):
    ...     print(step)
    Step(operator='mul', bytes_read=400, bytes_written=400)
    Step(operator='add', bytes_read=400, bytes_written=400)
    """
    with _Watch() as watch:
        fn(*args)
    return watch.steps


class _Watch(TorchDispatchMode):
    """Sees every operator below autograd, after composite ones have been taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # which is written, not read
        given = {key: value for key, value in (kwargs or {}).items() if key != "out"}
        name, inputs, outputs = (
            func.overloadpacket.__name__,
            _tensors((args, given)),
            _tensors(result),
        )
        storages = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        is_view = not func._schema.is_mutable and any(
            t.untyped_storage().data_ptr() in storages for t in outputs
        )
        if (
            (inputs or outputs) and not is_view and not name.startswith("empty")
        ):  # these move no data
            self.steps.append(Step(name, sum(map(_size, inputs)), sum(map(_size, outputs))))
        return result


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _size(tensor: Tensor) -> int:
    """Return the bytes that a tensor occupies: an expanded one, not more than its storage."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())


def nesting(call: Callable[[], Any]) -> list[tuple[int, str]]:
    """Profile ``call()`` and return PyTorch's operators in order, each with its level: 1 is called
    from Python.

    >>> import torch
    >>> nesting(lambda: torch.ones(3).view(3))
    [(1, 'aten::ones'), (2, 'aten::empty'), (2, 'aten::fill_'), (1, 'aten::view')]
    """
    # the profiler's library would write two lines to stderr
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    return [(_level(event), event.name) for event in profiler.events() or ()]


def _level(event: Any) -> int:
    return 1 if event.cpu_parent is None else 1 + _level(event.cpu_parent)


def saved_bytes(fn: Callable[..., Any], *args: Any) -> int:
    """Return how many bytes autograd keeps alive for the backward pass of ``fn(*args)``.

    Every storage counts once, however many tensors view it; the arguments count too, where they are
    kept.

    Where neither an argument nor the result requires a gradient, nothing can be kept, and that is a
    ``ValueError``.

    >>> x = torch.ones(1000, requires_grad=True)
    >>> saved_bytes(torch.exp, x), saved_bytes(lambda x: x + 1, x)
    (4000, 0)
    """
    kept: dict[int, int] = {}
    alive = []  # a freed tensor's address could come back and hide another's bytes

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor.detach())  # with its graph it would hold itself, for good
        return alive[-1]

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = fn(*args)
    if not kept and not any(
        isinstance(value, Tensor) and value.requires_grad for value in (*args, result)
    ):
        raise ValueError("args must hold a tensor that requires a gradient: got none")
    return sum(kept.values())
