"""What chapter 10 needs to write kernels of its own: Triton or what stands in for it, and a count of bytes.

Without Triton a cell that defines a kernel still runs; only starting the kernel says what is missing.
"""

from collections.abc import Callable, Sequence
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
        return SimpleNamespace(jit=lambda fn: _AbsentKernel()), SimpleNamespace(constexpr=None)
    import triton
    import triton.language as tl

    return triton, tl


class _AbsentKernel:
    """A kernel on a machine without Triton: it can be defined, not started."""

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

    counts = {name: [0, 0] for name in (*tensors, "others")}  # bytes read, bytes written

    def note(pointers: Any, mask: Any, ways: Sequence[int]) -> None:
        addresses = pointers.data[mask.data]
        element = pointers.get_element_ty().primitive_bitwidth // 8
        asked = {}
        for name, tensor in tensors.items():
            first = tensor.untyped_storage().data_ptr()
            last = first + tensor.untyped_storage().nbytes()
            asked[name] = int(((addresses >= first) & (addresses < last)).sum())
        asked["others"] = addresses.size - sum(asked.values())
        for name, lanes in asked.items():
            for way in ways:
                counts[name][way] += lanes * element

    def counted(method: str, pointers_at: int, mask_at: int, *ways: int) -> Any:
        original = getattr(builder, method)

        def call(*arguments: Any) -> Any:
            note(arguments[pointers_at], arguments[mask_at], ways)
            return original(*arguments)

        return patch.object(builder, method, call)

    loads, stores = counted("create_masked_load", 0, 1, 0), counted("create_masked_store", 0, 2, 1)
    with loads, stores, counted("create_atomic_rmw", 1, 3, 0, 1):
        call()
    return {name: Requested(*ways) for name, ways in counts.items() if name != "others" or any(ways)}
