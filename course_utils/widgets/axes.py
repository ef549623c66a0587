"""Which elements of a tensor share a statistic, for five norms in two layouts: the rule as data, and what follows.

Notation used for tensor shapes
    B   samples in the batch
    C   channels, or features
    H W rows and columns of an image
    T   positions of a sequence
    G   groups of channels
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_utils.arguments import is_whole, require_whole

__all__ = [
    "DEFAULT_SIZES",
    "LAYOUTS",
    "NORMS",
    "RULES",
    "SIZE_LIMITS",
    "AxisState",
    "Sharing",
    "blocks",
    "require_by_axis",
    "sharing",
]

LAYOUTS = {"B,C,H,W": "BCHW", "B,T,C": "BTC"}
NORMS = {
    "batch": "batch norm",
    "layer": "layer norm",
    "instance": "instance norm",
    "group": "group norm",
    "rms": "RMS norm",
}
DEFAULT_SIZES = {"B": 3, "C": 6, "H": 4, "W": 2, "T": 5}  # all different: a shape's numbers name their axes
SIZE_LIMITS = {"B": 4, "C": 8, "H": 4, "W": 4, "T": 6}  # the largest tensor still shows a number in every cell


def _rule(along: str, line: str, *, weight: str | None, bias: str | None, buffers: str | None, note: str = "") -> dict:
    return {"along": along, "line": line, "weight": weight, "bias": bias, "buffers": buffers, "note": note}


_TRANSPOSED = "PyTorch wants the channels second, so the sequence is transposed and transposed back."
_NO_AFFINE = "By default it has no weight and bias, and no running buffers."

# For each norm and layout: along which axes an element's statistic differs from its neighbour's. One letter per axis:
#   e  each index has its own statistic      a  all indices share one      g  the indices of one group share one
# The same data draws the picture in the browser, sizes every shape, and drives the reduction that is compared with
# PyTorch. Shapes are written with axis letters, separated by spaces; None where PyTorch's default has no such tensor.
RULES: dict[str, dict[str, dict[str, Any]]] = {
    "batch": {
        "B,C,H,W": _rule("aeaa", "nn.BatchNorm2d({C})(x)", weight="C", bias="C", buffers="C"),
        "B,T,C": _rule(
            "aae",
            "nn.BatchNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)",
            weight="C",
            bias="C",
            buffers="C",
            note=_TRANSPOSED,
        ),
    },
    "layer": {
        "B,C,H,W": _rule("eaaa", "nn.LayerNorm([{C}, {H}, {W}])(x)", weight="C H W", bias="C H W", buffers=None),
        "B,T,C": _rule("eea", "nn.LayerNorm({C})(x)", weight="C", bias="C", buffers=None),
    },
    "instance": {
        "B,C,H,W": _rule("eeaa", "nn.InstanceNorm2d({C})(x)", weight=None, bias=None, buffers=None, note=_NO_AFFINE),
        "B,T,C": _rule(
            "eae",
            "nn.InstanceNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)",
            weight=None,
            bias=None,
            buffers=None,
            note=f"{_TRANSPOSED} {_NO_AFFINE}",
        ),
    },
    "group": {
        "B,C,H,W": _rule("egaa", "nn.GroupNorm({G}, {C})(x)", weight="C", bias="C", buffers=None),
        "B,T,C": _rule(
            "eag",
            "nn.GroupNorm({G}, {C})(x.transpose(1, 2)).transpose(1, 2)",
            weight="C",
            bias="C",
            buffers=None,
            note=f"{_TRANSPOSED} A group then spans its channels and every position.",
        ),
    },
    "rms": {
        "B,C,H,W": _rule("eaaa", "nn.RMSNorm([{C}, {H}, {W}])(x)", weight="C H W", bias=None, buffers=None),
        "B,T,C": _rule("eea", "nn.RMSNorm({C})(x)", weight="C", bias=None, buffers=None),
    },
}


def require_by_axis(name: str, values: Any) -> None:
    """Raise unless ``values`` is a dictionary.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be a dictionary by axis letter, as in {{'B': 2}}: got {values!r}")


@dataclass(frozen=True)
class AxisState:
    """What the learner has chosen: a norm, a layout, sizes, a number of groups and a picked element.

    Args:
        norm: a key of ``NORMS``.
        layout: a key of ``LAYOUTS``.
        sizes: size of every axis, 1 to ``SIZE_LIMITS``; those that the layout lacks are kept for when it changes.
        groups: number of channel groups, used by group norm.
        picked: index of the picked element along every axis; one that lies outside is moved to the last index.

    Raises:
        ValueError: a value that no control can produce.
    """

    norm: str = "batch"
    layout: str = "B,C,H,W"
    sizes: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_SIZES))
    groups: int = 2
    picked: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(DEFAULT_SIZES, 0))

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}: got {self.norm!r}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {'; '.join(LAYOUTS)}: got {self.layout!r}")
        for name, values in (("sizes", self.sizes), ("picked", self.picked)):
            require_by_axis(name, values)
            if set(values) != set(SIZE_LIMITS):
                got = ", ".join(map(repr, values))
                raise ValueError(f"{name} must name the axes {', '.join(SIZE_LIMITS)}: got {got}")
        for axis, limit in SIZE_LIMITS.items():
            require_whole(f"sizes[{axis!r}]", self.sizes[axis], 1, limit)
            if not is_whole(self.picked[axis]):
                raise ValueError(f"picked[{axis!r}] must be a whole number: got {self.picked[axis]!r}")
        require_whole("groups", self.groups, 1, SIZE_LIMITS["C"])
        inside = {axis: min(max(0, index), self.sizes[axis] - 1) for axis, index in self.picked.items()}
        object.__setattr__(self, "picked", inside)

    @property
    def axes(self) -> str:
        """The letters of the layout's axes."""
        return LAYOUTS[self.layout]

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(self.sizes[axis] for axis in self.axes)

    @property
    def picked_index(self) -> tuple[int, ...]:
        """The index of the picked element in the tensor."""
        return tuple(self.picked[axis] for axis in self.axes)

    @property
    def rule(self) -> dict[str, Any]:
        """The rule of this norm in this layout."""
        return RULES[self.norm][self.layout]


@dataclass(frozen=True)
class Sharing:
    """Who shares a statistic with whom.

    Args:
        group_of: for every element of the tensor, flattened, the number of the statistic it uses.
        count: how many statistics there are.
        members: how many elements share each.
        statistic_shape: shape of the mean with the averaged axes kept as 1; a grouped axis becomes (G, 1).
    """

    group_of: tuple[int, ...]
    count: int
    members: int
    statistic_shape: tuple[int, ...]


def blocks(state: AxisState) -> tuple[int, ...]:
    """Return into how many statistics each axis of the tensor is split.

    Raises:
        ValueError: the groups do not divide the channels.
    """
    split = {"e": lambda size: size, "a": lambda size: 1, "g": lambda size: state.groups}
    counts = tuple(split[letter](size) for letter, size in zip(state.rule["along"], state.shape, strict=True))
    for axis, size, count in zip(state.axes, state.shape, counts, strict=True):
        if size % count:
            raise ValueError(f"groups must divide the size of {axis}: got groups={count}, {axis}={size}")
    return counts


def sharing(state: AxisState) -> Sharing:
    """Return which elements share a statistic.

    Args:
        state: what the learner has chosen.

    Returns:
        The number of the statistic of every element, numbered in the order in which the elements are stored.

    Raises:
        ValueError: the groups do not divide the channels.
    """
    counts = blocks(state)
    group_of: NDArray[np.int64] = np.zeros(state.shape, dtype=np.int64)
    for index, size, count in zip(np.indices(state.shape), state.shape, counts, strict=True):
        group_of = group_of * count + index // (size // count)
    kept = zip(state.rule["along"], counts, strict=True)
    shape = [size for letter, count in kept for size in ((count, 1) if letter == "g" else (count,))]
    count = prod(counts)
    return Sharing(tuple(group_of.ravel().tolist()), count, prod(state.shape) // count, tuple(shape))
