"""Tensors on disk that say what they are: safetensors with a checksum and how they were made, weights in float16."""

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

__all__ = ["CheckpointError", "load", "read", "save", "write"]

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
    write({name: tensor.half() for name, tensor in model.state_dict().items()}, path, facts)


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
    state = model.state_dict()
    weights, facts = read(path, wanted, state, remedy)
    model.load_state_dict({name: tensor.to(state[name].dtype) for name, tensor in weights.items()})
    return facts


def write(tensors: Mapping[str, Tensor], path: Path, facts: Mapping[str, Any]) -> None:
    """Write ``tensors`` as they are, with a checksum and ``facts``, replacing ``path`` in one step."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = {"format": FORMAT, "facts": json.dumps(facts, sort_keys=True), "checksum": _checksum(tensors)}
    unfinished = path.with_name(path.name + ".new")
    save_file(tensors, unfinished, about)
    os.replace(unfinished, path)


def read(
    path: Path, wanted: Mapping[str, Any], like: Mapping[str, Tensor], remedy: str = ""
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of ``path`` and the facts written with them.

    Args:
        path: a file that ``write`` wrote.
        wanted: facts that must be as written.
        like: tensors that those of the file must have the names and shapes of.
        remedy: what the reader can do, at the end of each message.

    Raises:
        CheckpointError: as ``load``.
    """

    def fail(what: str) -> CheckpointError:
        return CheckpointError(f"{path.name} {what}" + (f"; {remedy}" if remedy else ""))

    if not path.is_file():
        raise fail("is missing")
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dictionary
    except (SafetensorError, OSError, ValueError) as error:
        raise fail(f"is damaged or no safetensors file ({error})") from None
    if about.get("format") != FORMAT:
        raise fail(f"is not a {FORMAT}: its format is {about.get('format')!r}")
    if about.get("checksum") != _checksum(tensors):
        raise fail("is damaged: its weights do not match their checksum")
    facts = json.loads(about["facts"])
    for key, value in wanted.items():
        if facts.get(key) != value:
            raise fail(f"was made with {key} {facts.get(key)!r}, and {value!r} is needed")
    differing = sorted(name for name in tensors.keys() | like.keys() if _shape(tensors, name) != _shape(like, name))
    if differing:
        raise fail(f"holds another model: {', '.join(differing[:3])} differ")
    return tensors, facts


def _shape(tensors: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
