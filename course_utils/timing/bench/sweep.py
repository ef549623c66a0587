"""Which cases a run measures: every operation over shapes and dtypes, forward, and forward with backward."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from course_utils.timing.bench.ladder import OPERATIONS, TOLERANCES

__all__ = ["DIRECTIONS", "Case", "cases"]

DIRECTIONS = ("forward", "forward+backward")

# operation, shape, dtype
Sweep = Iterator[tuple[str, tuple[int, ...], str]]

# small enough for loops in Python
TINY = {"layer_norm": (8, 16), "rms_norm": (8, 16), "batch_norm": (4, 4, 3, 3), "rope": (1, 2, 4, 8)}
QUICK = {"layer_norm": (1024, 1024), "rms_norm": (1024, 1024), "batch_norm": (32, 64, 14, 14), "rope": (1, 8, 512, 64)}
ON_CPU: dict[str, list[tuple[int, ...]]] = {
    "layer_norm": [(4096, 1024), (4096, 1023), (1024, 4096), (8192, 512)],
    "rms_norm": [(4096, 1024), (4096, 1023), (1024, 4096), (8192, 512)],
    "batch_norm": [(256, 64, 14, 14), (16, 64, 56, 56)],
    "rope": [(1, 32, 512, 128)],
}


@dataclass(frozen=True)
class Case:
    """One operation in one direction at one shape and dtype, to be measured in every way there is.

    Raises:
        ValueError: an unknown operation, direction or dtype, or a shape that the operation does not take.
    """

    operation: str
    direction: str
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        for field, known in (("operation", OPERATIONS), ("direction", DIRECTIONS), ("dtype", TOLERANCES)):
            if (value := getattr(self, field)) not in tuple(known):
                raise ValueError(f"{field} must be one of {', '.join(known)}: got {value!r}")
        OPERATIONS[self.operation].require(self.shape)

    def __str__(self) -> str:
        return f"{self.operation} {self.shape} {self.dtype} {self.direction}"

    def fields(self) -> dict[str, Any]:
        """Return the case as a record has it."""
        return {**asdict(self), "shape": list(self.shape)}

    @property
    def with_backward(self) -> bool:
        """Whether the gradients are part of it."""
        return self.direction == "forward+backward"


def cases(device: str, quick: bool = False) -> list[Case]:
    """Return the cases of a run on ``device``, "cpu" or "cuda", each operation's together.

    Raises:
        ValueError: another device.
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda: got {device!r}")
    sweep = _quick() if quick else _on_gpu() if device == "cuda" else _on_cpu()
    return [Case(name, direction, shape, dtype) for name, shape, dtype in sweep for direction in DIRECTIONS]


def _quick() -> Sweep:
    for name in OPERATIONS:
        yield name, TINY[name], "float32"
        yield name, QUICK[name], "float32"


def _on_cpu() -> Sweep:
    for name in OPERATIONS:
        yield name, TINY[name], "float32"
        yield from ((name, shape, "float32") for shape in ON_CPU[name])
        yield from ((name, ON_CPU[name][0], dtype) for dtype in ("bfloat16", "float16"))


def _on_gpu() -> Sweep:
    """Compiling takes most of a sweep's time, seconds for each shape and direction: hence no full grid."""
    for name in ("layer_norm", "rms_norm"):
        yield name, TINY[name], "float32"
        yield from ((name, (4096, features), "bfloat16") for features in (512, 1023, 2048, 4095, 4096, 8192, 16384))
        yield from ((name, (65536, features), "bfloat16") for features in (512, 4096, 16384))
        yield name, (8192, 4096), "bfloat16"
        yield from ((name, (4096, features), "float32") for features in (1024, 4095, 4096, 16384))
        yield from ((name, (4096, features), "float16") for features in (1024, 4096, 16384))
    yield from (("batch_norm", (256, 64, 56, 56), dtype) for dtype in ("float32", "bfloat16", "float16"))
    yield from (("rope", (1, 32, tokens, 128), "bfloat16") for tokens in (512, 4096, 16384))
    yield from (("rope", (1, 32, 4096, 128), dtype) for dtype in ("float32", "float16"))
