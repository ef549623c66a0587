"""Tensors on disk that say what they are: safetensors with how they were made, weights in float16
(chapter 16)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from course_utils.runs import replacing


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and what is wrong with it."""


def save(model: nn.Module, path: Path, facts: Mapping[str, Any]) -> None:
    """Write the weights of ``model`` in float16, replacing ``path`` in one step.

    ``facts`` are what it takes to use and to make it again: sizes, task, seed, steps, versions
    (JSON).
    """
    tensors = {
        name: tensor.detach().half().cpu().contiguous()
        for name, tensor in model.state_dict().items()
    }
    with replacing(path) as unfinished:
        save_file(tensors, unfinished, {"facts": json.dumps(facts, sort_keys=True)})


def load(model: nn.Module, path: Path, wanted: Mapping[str, Any], remedy: str = "") -> None:
    """Copy the weights of ``path`` into ``model``, or raise a ``CheckpointError`` that ends in
    ``remedy``.

    The facts ``wanted``, such as the seed and the task, must be as written.
    """

    def fail(what: str) -> CheckpointError:
        return CheckpointError(f"{path.name} {what}" + (f"; {remedy}" if remedy else ""))

    if not path.is_file():
        raise fail("is missing")
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {}).get("facts", "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dictionary
    except (SafetensorError, OSError, ValueError) as error:
        raise fail(f"is damaged or no safetensors file ({error})") from None
    for key, value in wanted.items():
        if facts.get(key) != value:
            raise fail(f"was made with {key} {facts.get(key)!r}, and {value!r} is needed")
    try:
        model.load_state_dict(weights)  # which copies float16 into the model's own dtype
    except RuntimeError as error:
        raise fail(f"holds another model: {str(error).splitlines()[1].strip()}") from None
