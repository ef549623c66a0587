"""Two copies of a model, layer by layer: where do they first differ?"""

import inspect
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.book.tables import Table

__all__ = ["Layers", "compare_layers"]


@dataclass(frozen=True)
class Layers:
    """What ``compare_layers`` saw: ``errors`` holds (layer, largest error relative to the largest value) in order."""

    errors: list[tuple[str, float]]
    tolerance: float

    @property
    def first(self) -> str | None:
        """The first layer, in the order in which they finish, that differs by more than the tolerance; None if none."""
        return next((name for name, error in self.errors if not error <= self.tolerance), None)

    @property
    def ok(self) -> bool:
        """Whether no layer differs by more than the tolerance."""
        return self.first is None

    def require(self) -> None:
        """Raise unless ``ok``.

        Raises:
            AssertionError: names the first layer that differs.
        """
        if not self.ok:
            raise AssertionError(repr(self))

    def __repr__(self) -> str:
        worst = torch.tensor([error for _, error in self.errors], dtype=torch.float64).max()  # unlike max, keeps NaN
        if self.ok:
            return f"{len(self.errors)} layers agree within {self.tolerance:.0e}"
        return f"{self.first} is the first of {len(self.errors)} layers to differ (largest error of all {worst:.1e})"

    def table(self, rows: int = 8) -> Table:
        """Return the layers around the first that differs, or the last ones if all agree."""
        names = [name for name, _ in self.errors]
        at = max(0, len(names) - rows if self.first is None else names.index(self.first) - 2)
        lines = [(name, error, error <= self.tolerance) for name, error in self.errors[at : at + rows]]
        return Table(("layer, as they finish", "error", "within tolerance"), lines, repr(self))


def compare_layers(mine: nn.Module, reference: nn.Module, tolerance: float = 1e-5, **inputs: Any) -> Layers:
    """Run both on the same inputs and compare what each layer returns.

    Args:
        mine: a model.
        reference: one with layers of the same names, such as the model as it was.
        tolerance: for the largest difference, relative to the reference's largest value.
        inputs: passed to both.

    Returns:
        The error of each layer that both have, in the order in which they finish.

    Raises:
        ValueError: the two have no layer in common that returns a tensor, or one does not take an input of this name.
    """
    for role, model in (("mine", mine), ("reference", reference)):
        _require_inputs(role, model, inputs)
    with torch.no_grad(), _outputs(reference) as wanted:
        reference(**inputs)
    with torch.no_grad(), _outputs(mine) as got:
        mine(**inputs)
    errors = [(name, _error(got[name], wanted[name])) for name in got if name in wanted]
    if not errors:
        raise ValueError("mine and reference must have layers of the same names that return tensors: got none")
    return Layers(errors, tolerance)


def _require_inputs(role: str, model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Refuse names that a model of transformers would pass on among its ``**kwargs`` and nobody would read."""
    known: set[str] = set()
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            known.add(name)
        elif typing.get_origin(parameter.annotation) is typing.Unpack:
            known |= typing.get_args(parameter.annotation)[0].__annotations__.keys()
        else:
            return  # says nothing of what it takes
    if unknown := sorted(inputs.keys() - known):
        raise ValueError(f"inputs must be arguments of {role}.forward: got {', '.join(unknown)}")


def _error(got: Tensor, wanted: Tensor) -> float:
    if got.shape != wanted.shape:
        return float("inf")
    return ((got - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)).item()


@contextmanager
def _outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep what each layer returns, in the order in which they finish; of several calls the last."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else getattr(output, "logits", output)
            if isinstance(first, Tensor) and first.is_floating_point():
                outputs[name or "logits"] = first.detach().float()

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
