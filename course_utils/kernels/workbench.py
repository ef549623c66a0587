"""What chapter 10 needs to write kernels of its own: Triton or what stands in for it, and a count of bytes.

Without Triton a cell that defines a kernel still runs; only starting the kernel says what is missing.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from torch import Tensor

from course_utils.kernels import available

__all__ = ["Requested", "language", "requested"]


@dataclass(frozen=True)
class Requested:
    """Bytes that the lanes of a kernel asked to read from a tensor, and to write to it."""

    read: int = 0
    written: int = 0

    @property
    def moved(self) -> int:
        """Read and written together."""
        return self.read + self.written


def language() -> tuple[Any, Any]:
    """Return ``triton`` and ``triton.language``; where Triton is missing, stand-ins in which kernels can be defined.

    >>> triton, tl = language()
    >>> @triton.jit
    ... def nothing(x_ptr, BLOCK: tl.constexpr):
    ...     pass
    """
    if find_spec("triton") is None:
        return SimpleNamespace(jit=_AbsentKernel), SimpleNamespace(constexpr=None)
    import triton
    import triton.language as tl

    return triton, tl


class _AbsentKernel:
    """A kernel on a machine without Triton: it can be defined, not started."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.__name__ = fn.__name__

    def __getitem__(self, grid: Any) -> Any:
        raise RuntimeError(available("cpu").reason)


def requested(call: Callable[[], Any], **tensors: Tensor) -> dict[str, Requested]:
    """Run ``call`` in Triton's interpreter and count, lane by lane, what its kernels ask of each tensor.

    A lane that the mask shuts out asks for nothing. A byte that is asked for twice counts twice, although a cache may
    answer the second time. An atomic operation reads and writes. ``tensors`` are on the CPU, by the name they are to
    have in the answer, where "others" is what was asked of any other tensor. Needs Triton's interpreter (RuntimeError).
    """
    if not available("cpu"):
        raise RuntimeError(available("cpu").reason)
    from triton.runtime.interpreter import interpreter_builder as builder

    counts = {name: [0, 0] for name in (*tensors, "others")}

    def note(pointers: Any, mask: Any, *ways: int) -> None:
        addresses = pointers.data[mask.data]
        element = pointers.get_element_ty().primitive_bitwidth // 8
        left = addresses.size
        for name, tensor in tensors.items():
            storage = tensor.untyped_storage()
            first = storage.data_ptr()
            inside = int(((addresses >= first) & (addresses < first + storage.nbytes())).sum())
            left -= inside
            for way in ways:
                counts[name][way] += inside * element
        for way in ways:
            counts["others"][way] += left * element

    load, store, rmw = builder.create_masked_load, builder.create_masked_store, builder.create_atomic_rmw

    def counted_load(pointers: Any, mask: Any, *others: Any) -> Any:
        note(pointers, mask, 0)
        return load(pointers, mask, *others)

    def counted_store(pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        note(pointers, mask, 1)
        return store(pointers, value, mask, *others)

    def counted_rmw(operation: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        note(pointers, mask, 0, 1)
        return rmw(operation, pointers, value, mask, *others)

    with ExitStack() as stack:
        stack.enter_context(patch.object(builder, "create_masked_load", counted_load))
        stack.enter_context(patch.object(builder, "create_masked_store", counted_store))
        stack.enter_context(patch.object(builder, "create_atomic_rmw", counted_rmw))
        call()
    return {name: Requested(*ways) for name, ways in counts.items() if name != "others" or any(ways)}
