"""Two copies of a model of transformers: layer by layer, and plain, cached, padded and backwards
(chapter 17)."""

import inspect
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.models.decoding import with_cache
from course_utils.table import Table


@dataclass(frozen=True)
class LayerErrors:
    """What ``compare_layers`` saw: ``errors`` holds (layer, largest error relative to the largest
    value) in order."""

    errors: list[tuple[str, float]]
    tolerance: float

    @property
    def first(self) -> str | None:
        """The first layer that differs by more than the tolerance; None if none does."""
        return next((name for name, error in self.errors if not error <= self.tolerance), None)

    @property
    def ok(self) -> bool:
        """Whether no layer differs by more than the tolerance."""
        return self.first is None

    def require(self) -> None:
        """Raise an ``AssertionError`` that names the first layer that differs, unless ``ok``."""
        if not self.ok:
            raise AssertionError(repr(self))

    def __repr__(self) -> str:
        worst = torch.tensor(
            [error for _, error in self.errors], dtype=torch.float64
        ).max()  # unlike max, keeps NaN
        if self.ok:
            return f"{len(self.errors)} layers agree within {self.tolerance:.0e}"
        return (
            f"{self.first} is the first of {len(self.errors)} layers to differ (largest error of "
            f"all {worst:.1e})"
        )

    def table(self, rows: int = 8) -> Table:
        """Return the layers around the first that differs, or the last ones if all agree."""
        names = [name for name, _ in self.errors]
        at = max(0, len(names) - rows if self.first is None else names.index(self.first) - 2)
        lines = [
            (name, error, error <= self.tolerance) for name, error in self.errors[at : at + rows]
        ]
        return Table(("layer, as they finish", "error", "within tolerance"), lines, repr(self))


def compare_layers(
    mine: nn.Module, reference: nn.Module, tolerance: float = 1e-5, **inputs: Any
) -> LayerErrors:
    """Run both on the same inputs and compare what each layer that both have returns. Chapter 17.

    ``reference`` has layers of the same names, such as the model as it was; ``tolerance`` is for
    the largest difference, relative to the reference's largest value; ``inputs`` are passed to
    both.

    Raises:
        ValueError: the two have no layer in common that returns a tensor, or one does not take an
            input of this name.
    """
    for role, model in (("mine", mine), ("reference", reference)):
        _require_inputs(role, model, inputs)
    with torch.no_grad(), _outputs(reference) as wanted:
        reference(**inputs)
    with torch.no_grad(), _outputs(mine) as got:
        mine(**inputs)
    errors = [(name, _error(got[name], wanted[name])) for name in got if name in wanted]
    if not errors:
        raise ValueError(
            "mine and reference must have layers of the same names that return tensors: got none"
        )
    return LayerErrors(errors, tolerance)


def _require_inputs(role: str, model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Refuse names that a model of transformers would pass on among its ``**kwargs`` and nobody
    would read."""
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


def compare_runs(mine: Any, reference: Any, ids: Tensor) -> dict[str, float]:
    """Run two causal models of transformers in four ways and compare them. Chapter 17.

    Returns, for each way, the largest difference relative to the reference's largest value:
    ``logits`` of one pass; ``cached``, the first half at once and then a token at a time;
    ``left-padded``, the first row without its first quarter; ``gradients``, of all parameters. Both
    models are asked in the same way, since beyond the window the frequencies may depend on the
    length so far, and a cache then holds what no single pass computes. ``ids`` are tokens (B, T),
    at least 4 of them and none of them padding.
    """
    if ids.ndim != 2 or ids.shape[1] < 4 or not len(ids):
        raise ValueError(
            f"ids must be tokens (B, T) with T of at least 4: got shape {tuple(ids.shape)}"
        )
    mask = torch.ones_like(ids)
    mask[0, : ids.shape[1] // 4] = 0
    padded = {"attention_mask": mask, "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}
    found = []
    for model in (mine, reference):
        # dynamic scaling of transformers keeps the longest length until a short one comes
        _logits(model, ids[:, :1])
        cached = _one_at_a_time(model, ids)  # before any pass of the full length
        padded_logits = _logits(model, ids, **padded)[mask.bool()]
        ways = {"logits": _logits(model, ids), "cached": cached, "left-padded": padded_logits}
        found.append(ways | {"gradients": _gradients(model, ids)})
    return {name: _error(got, found[1][name]) for name, got in found[0].items()}


def _error(got: Tensor, wanted: Tensor) -> float:
    if got.shape != wanted.shape:
        return float("inf")
    return ((got - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)).item()


@contextmanager
def _outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep what each layer returns, in the order in which they finish; of several calls the
    last."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else getattr(output, "logits", output)
        if isinstance(first, Tensor) and first.is_floating_point():
            outputs[name or "logits"] = first.detach().float()

    hooks = [
        module.register_forward_hook(partial(keep, name)) for name, module in model.named_modules()
    ]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def _logits(model: Any, ids: Tensor, **inputs: Any) -> Tensor:
    return model(ids, **inputs).logits


@torch.no_grad()
def _one_at_a_time(model: Any, ids: Tensor) -> Tensor:
    """Return the logits of a prompt of half the tokens, and of one token after the other with a
    cache."""
    half = ids.shape[1] // 2
    output, cache = with_cache(model, ids[:, :half])
    parts = [output.logits]
    for t in range(half, ids.shape[1]):
        output, cache = with_cache(model, ids[:, t : t + 1], cache)
        parts.append(output.logits)
    return torch.cat(parts, dim=1)


def _gradients(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the gradient of the loss for all parameters, one after the other, by name."""
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    gradients = [
        p.grad.flatten() for _, p in sorted(model.named_parameters()) if p.grad is not None
    ]
    model.zero_grad()
    return torch.cat(gradients)
