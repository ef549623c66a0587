"""What chapter 11 needs to write kernels: Triton or what stands in for it, a count of bytes, and a
guard.

Without Triton a cell that defines a kernel still runs; only starting the kernel says what is
missing, and ``pass_over_kernels`` has the notebook go on behind it.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from torch import Tensor

from course_utils.kernels import available

__all__ = ["Requested", "guarded", "language", "pass_over_kernels", "requested"]


@dataclass(frozen=True)
class Requested:
    """Bytes that the slots of a kernel asked to read from a tensor, and to write to it."""

    read: int = 0
    written: int = 0
    # of both together, what was asked for one number at a time
    singly: int = field(default=0, repr=False)

    @property
    def moved(self) -> int:
        """Read and written together."""
        return self.read + self.written


def language() -> tuple[Any, Any]:
    """Return ``triton`` and ``triton.language``; where Triton is missing, stand-ins in which
    kernels can be defined.

    >>> triton, tl = language()
    >>> @triton.jit
    ... def nothing(x_ptr, BLOCK: tl.constexpr):
    ...     pass
    """
    if find_spec("triton") is None:
        return _Absent(jit=lambda fn: _AbsentKernel()), _Absent(constexpr=None)
    import triton
    import triton.language as tl

    return triton, tl


class _Absent:
    """A module of Triton's on a machine without it: what defining a kernel needs is ``present``."""

    def __init__(self, **present: Any) -> None:
        vars(self).update(present)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(available("cpu").reason)


class _AbsentKernel:
    """A kernel on a machine without Triton: it can be defined, not started."""

    def __getitem__(self, grid: Any) -> Any:
        raise RuntimeError(available("cpu").reason)


def pass_over_kernels() -> None:
    """Where Triton's interpreter is missing: have IPython leave out the rest of a cell that starts
    or compiles a kernel, and of one that needs a name which such a cell would have made."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None and not available("cpu"):
        shell.ast_transformers.append(_PassOver(shell.user_ns))


class _PassOver(ast.NodeTransformer):
    """Put each cell into a ``try``; a name at its end is still shown."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.missing: set[str] = set()
        namespace["_pass_over"] = self.pass_over

    def visit_Module(self, cell: ast.Module) -> ast.Module:
        names = {node.id for node in ast.walk(cell) if isinstance(node, ast.Name)}
        guard = ast.parse(
            f"try:\n    pass\nexcept Exception as _error:\n    _pass_over(_error, {sorted(names)})"
        ).body[0]
        assert isinstance(guard, ast.Try)
        shown = [
            node
            for node in cell.body[-1:]
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name)
        ]
        guard.body += cell.body[: len(cell.body) - len(shown)]
        cell.body = [guard, *shown]
        return ast.fix_missing_locations(cell)

    def pass_over(self, error: Exception, names: Sequence[str]) -> None:
        """Go on if Triton was missing, or a name that is missing since then."""
        follows = isinstance(error, NameError) and error.name in self.missing
        if not follows and "Triton" not in str(error):
            raise error
        self.missing.update(names)


def requested(call: Callable[[], Any], **tensors: Tensor) -> dict[str, Requested]:
    """Run ``call`` in Triton's interpreter and count, slot by slot, what its kernels ask of each
    tensor.

    A slot that the mask shuts out asks for nothing. A byte that is asked for twice counts twice,
    although a cache may answer the second time. An atomic operation reads and writes. ``tensors``
    are on the CPU, by the name they are to have in the answer, where "others" is what was asked of
    any other tensor. Needs Triton's interpreter (RuntimeError).
    """
    # bytes read, bytes written, bytes of either that one slot asked for alone
    counts = {name: [0, 0, 0] for name in (*tensors, "others")}

    def note(addresses: Any, size: int, ways: Sequence[int]) -> None:
        asked = {}
        for name, tensor in tensors.items():
            first = tensor.untyped_storage().data_ptr()
            last = first + tensor.untyped_storage().nbytes()
            asked[name] = int(((addresses >= first) & (addresses < last)).sum())
        asked["others"] = addresses.size - sum(asked.values())
        for name, slots in asked.items():
            for way in ways:
                counts[name][way] += slots * size
                counts[name][2] += size if slots == addresses.size == 1 else 0

    with _watched(note):
        call()
    return {
        name: Requested(*ways) for name, ways in counts.items() if name != "others" or any(ways)
    }


@contextmanager
def guarded(**tensors: Tensor) -> Iterator[None]:
    """Make Triton's interpreter as strict as a GPU is treacherous.

    A slot that reads or writes outside of ``tensors`` raises an IndexError, and what a mask keeps
    out of a load that names no ``other`` is NaN, where the interpreter would have 0 and a GPU
    promises nothing. Nor does a GPU promise an order of the programs: here the last comes first.
    """
    ends = {
        n: (t.data_ptr(), t.data_ptr() + _extent(t) * t.element_size()) for n, t in tensors.items()
    }

    def note(addresses: Any, size: int, ways: Sequence[int]) -> None:
        outside = np.ones(addresses.shape, dtype=bool)
        for first, last in ends.values():
            outside &= (addresses < first) | (addresses + size > last)
        if outside.any():
            address = int(addresses[outside][0])
            name = min(ends, key=lambda name: min(abs(address - end) for end in ends[name]))
            where = f"before the start of {name}"
            if address >= ends[name][0]:
                where = f"past the end of {name}, by {(address - ends[name][1]) // size + 1}"
            raise IndexError(f"a slot {'writes' if 1 in ways else 'reads'} {where}")

    with _watched(note, undefined=float("nan")), _backwards(), _remapped_once():
        yield


@contextmanager
def _backwards() -> Iterator[None]:
    """Let Triton's interpreter run the last program of a grid first."""
    from triton.runtime.interpreter import interpreter_builder as builder

    original = builder.set_grid_idx

    def from_the_end(*place: int) -> None:
        original(*(size - 1 - at for size, at in zip(builder.grid_dim, place, strict=True)))

    with patch.object(builder, "set_grid_idx", from_the_end):
        yield


@contextmanager
def _remapped_once() -> Iterator[None]:
    """Let Triton's interpreter remap its language once a launch and module, and not again at every
    ``tl.sum``: that is a quarter of the time of a small kernel."""
    from triton.runtime import interpreter

    original, remapped = interpreter._patch_lang, set[frozenset[int]]()

    def patch_lang(function: Any) -> Any:
        languages = {interpreter.tl, interpreter.tl.core}
        here = frozenset(
            id(value)
            for value in function.__globals__.values()
            if isinstance(value, ModuleType) and value in languages
        )
        if here in remapped:
            return interpreter._LangPatchScope()  # of no changes
        remapped.add(here)
        return original(function)

    with patch.object(interpreter, "_patch_lang", patch_lang):
        yield


def _extent(tensor: Tensor) -> int:
    """Return how many elements lie from the first of a tensor to its last."""
    return 1 + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


@contextmanager
def _watched(
    note: Callable[[Any, int, Sequence[int]], None], undefined: float | None = None
) -> Iterator[None]:
    """Tell ``note`` the addresses that the mask lets through, the bytes of each and the ways (0
    reads, 1 writes).

    ``undefined`` is what a load without ``other`` has where its mask is false.
    """
    if not available("cpu"):
        raise RuntimeError(available("cpu").reason)
    from triton.runtime.interpreter import TensorHandle
    from triton.runtime.interpreter import interpreter_builder as builder

    def watched(method: str, pointers_at: int, mask_at: int, *ways: int) -> Any:
        original = getattr(builder, method)

        def call(*arguments: Any, **options: Any) -> Any:
            # A scalar condition beside one of a block makes the interpreter's mask one of integers,
            # and a block pointer's is an array, whose ``data`` is a view of memory.
            pointers = arguments[pointers_at]
            mask = np.asarray(arguments[mask_at].data).astype(bool)
            note(pointers.data[mask], pointers.get_element_ty().primitive_bitwidth // 8, ways)
            result = original(*arguments, **options)
            if (
                ways == (0,)
                and arguments[2] is None
                and undefined is not None
                and mask.size > 1  # of a scalar load the interpreter drops ``other`` itself
                and result.data.dtype.kind == "f"
            ):
                result = TensorHandle(
                    np.where(mask, result.data, np.array(undefined, result.data.dtype)),
                    result.dtype,
                )
            return result

        return patch.object(builder, method, call)

    loads, stores = watched("create_masked_load", 0, 1, 0), watched("create_masked_store", 0, 2, 1)
    with loads, stores, watched("create_atomic_rmw", 1, 3, 0, 1):
        yield
