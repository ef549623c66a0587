"""What an operation of the ladder is, and what a rung."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor

from course_utils import kernels

EPS = 1e-5  # added to the variance or the mean square in every implementation
LOOP_ELEMENTS = 512  # above that, loops in Python are no longer bearable

Function = Callable[..., Any]
Inputs = tuple[Tensor, ...]


# Where a rung is. Loops in Python bear few elements only; of those the time is all overhead, which
# no compiler takes.
Place = Literal["anywhere", "few elements", "many elements", "GPU", "Triton"]


@dataclass(frozen=True)
class Implementation:
    """A rung: one way to compute an operation."""

    name: str
    fn: Function
    place: Place = "anywhere"
    compiled: bool = False  # by torch.compile, for each shape by itself
    ours: bool = (
        True  # written for this course, and so held to the dtype's tolerance in every result
    )
    library: str = ""  # that must be installed
    # writes over its inputs and over the gradients that it is given, and so needs its own
    in_place: bool = False
    arrange: Callable[..., Inputs] | None = None  # prepares the inputs, once and not timed


@dataclass(frozen=True)
class Operation:
    """What is computed, and the ways to compute it, which all take the same inputs and the same
    epsilon.

    ``bytes_moved`` are the fewest bytes: each input read once and each result written once in each
    pass that needs it. What an implementation moves beyond that, such as a second pass or an
    intermediate, shows as a lower rate.
    """

    name: str
    differentiated: tuple[str, ...]  # the names of the inputs that get a gradient, which come first
    # from shape, dtype, device and seed
    inputs: Callable[[Sequence[int], torch.dtype, str, int], Inputs]
    truth: Function  # the result for float64 inputs, by code that is not on trial
    # from the inputs, and whether there is a backward pass
    bytes_moved: Callable[[Inputs, bool], int]
    rungs: Sequence[Implementation]  # the slowest kind first
    outputs: tuple[str, ...] = ("y",)  # the names of the results
    by_rows: bool = False  # whether each row of the first input is an operation by itself

    def implementations(self, shape: Sequence[int], device: str) -> list[Implementation]:
        """Return the rungs that there are for this shape on this kind of device."""
        places = {"anywhere", "few elements" if prod(shape) <= LOOP_ELEMENTS else "many elements"}
        if device == "cuda":
            places.add("GPU")
            if kernels.available(device):
                places.add("Triton")
        return [
            rung
            for rung in self.rungs
            if rung.place in places and (not rung.library or find_spec(rung.library))
        ]

    @property
    def eager(self) -> dict[str, Function]:
        """The functions that go operator by operator, by the names of their rungs."""
        return {rung.name: rung.fn for rung in self.rungs if rung.place == "anywhere" and rung.ours}

    @property
    def built_in(self) -> Function:
        """The function that PyTorch has built in."""
        return next(rung.fn for rung in self.rungs if rung.name == "built-in")
