"""Weights on disk that say what they are: safetensors in half precision, with a checksum and how they were made."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

__all__ = ["CheckpointError", "load", "save"]

FORMAT = "course checkpoint 1"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and what is wrong with it."""


def save(model: nn.Module, path: Path, facts: Mapping[str, Any]) -> None:
    """Write the weights of ``model`` in float16, replacing ``path`` in one step.

    Args:
        model: whose ``state_dict`` is written.
        path: the file.
        facts: what it takes to use and to make it again: sizes, task, seed, steps, versions (JSON).
    """
    weights = {name: tensor.detach().half().cpu().contiguous() for name, tensor in model.state_dict().items()}
    about = {"format": FORMAT, "facts": json.dumps(facts, sort_keys=True), "checksum": _checksum(weights)}
    unfinished = path.with_name(path.name + ".new")
    save_file(weights, unfinished, about)
    os.replace(unfinished, path)


def load(model: nn.Module, path: Path, wanted: Mapping[str, Any], remedy: str = "") -> dict[str, Any]:
    """Copy the weights of ``path`` into ``model``, and return the facts written with them.

    Args:
        model: what the weights are for; unchanged unless all is well.
        path: a file that ``save`` wrote.
        wanted: facts that must be as written, such as the seed and the task.
        remedy: what the reader can do, at the end of each message.

    Raises:
        CheckpointError: missing, damaged, no checkpoint of the course, of other facts, or of another model.
    """

    def fail(what: str) -> CheckpointError:
        return CheckpointError(f"{path.name} {what}" + (f"; {remedy}" if remedy else ""))

    if not path.is_file():
        raise fail("is missing")
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dictionary
    except (SafetensorError, OSError, ValueError) as error:
        raise fail(f"is damaged or no safetensors file ({error})") from None
    if about.get("format") != FORMAT:
        raise fail(f"is not a {FORMAT}: its format is {about.get('format')!r}")
    if about.get("checksum") != _checksum(weights):
        raise fail("is damaged: its weights do not match their checksum")
    facts = json.loads(about["facts"])
    for key, value in wanted.items():
        if facts.get(key) != value:
            raise fail(f"was made with {key} {facts.get(key)!r}, and {value!r} is needed")
    state = model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in state.items()}:
        differing = sorted(name for name in shapes.keys() | state.keys() if shapes.get(name) != _shape(state, name))
        raise fail(f"holds another model: {', '.join(differing[:3])} differ")
    model.load_state_dict({name: tensor.to(state[name].dtype) for name, tensor in weights.items()})
    return facts


def _shape(state: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(state[name].shape) if name in state else None


def _checksum(weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
