"""Four models with one mistake each, and the judge of who finds which of nine it is."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import norms, rope
from course_utils.check.report import Report
from course_utils.check.sandbox import Sandbox, describe_error
from course_utils.swap import swap

__all__ = ["MISTAKES", "Judge", "culprits", "suspect"]

_ROTATION, _CACHE, _NORM = "a rotation", "positions with a cache", "a norm"
# as the notebook calls them, and what shows each
MISTAKES = {
    "pairs interleaved": _ROTATION,
    "base 10,000 for 100,000": _ROTATION,
    "positions counted from 0": _CACHE,
    "positions off by one": _CACHE,
    "weight 1 + w": _NORM,
    "squares in float16": _NORM,
    "layer norm": _NORM,
    "eps 0.01 for 0.00001": _NORM,
    "eps outside the root": _NORM,
}
# what two of one kind have in common
_ALIKE = {
    _ROTATION: "is a wrong rotation as well",
    _CACHE: "shows with a cache alone as well",
    _NORM: "is a wrong norm as well",
}
_FIRST = {
    _ROTATION: "an `o_proj` is the first layer to differ",
    _CACHE: "no layer differs on a prompt, and something does with a cache",
    _NORM: "a norm is the first layer to differ",
}


def culprits() -> dict[str, str]:
    """Return which mistake is in which model."""
    return {
        "A": "positions off by one",
        "B": "base 10,000 for 100,000",
        "C": "squares in float16",
        "D": "layer norm",
    }


def suspect(model: Any, letter: str) -> Any:
    """Return a copy of SmolLM2 with the mistake of ``letter``, A to D."""
    broken = copy.deepcopy(model)

    def turn(x: Tensor, at: Tensor, base: float) -> Tensor:
        at = at + (at[0] > 0) if letter == "A" else at
        base = 10_000.0 if letter == "B" else base
        return rope.apply_rope(x, *rope.rope_cos_sin(at, rope.rope_inv_freq(x.shape[-1], base)))

    def half_squares(x: Tensor, shape: Any, weight: Tensor, eps: float) -> Tensor:
        mean_square = x.half().square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + eps).float() * weight

    def centred(x: Tensor, shape: Any, weight: Tensor, eps: float) -> Tensor:
        return F.layer_norm(x, shape, weight, None, eps)

    if letter in ("A", "B"):
        swap(broken, rms_norm=norms.rms_norm, rope=turn)
    elif letter == "C":
        swap(broken.model.layers[24], rms_norm=half_squares, keep_rope=True)
    elif letter == "D":
        swap(broken.model.layers[12], rms_norm=centred, keep_rope=True)
    else:
        raise ValueError(f"letter must be one of A, B, C, D: got {letter!r}")
    return broken


@dataclass(frozen=True)
class Judge:
    """Judges a dictionary of letters and mistakes; of a wrong guess it says what speaks against
    it."""

    name: str

    def __call__(self, function: Callable[[], Mapping[str, str]], sandbox: Sandbox) -> Report:
        """Return whether every model is named rightly."""
        outcome = sandbox.call(function)
        if outcome.error is not None:
            return self._report([f"It fails: {describe_error(outcome.error)}."])
        named, right = outcome.value, culprits()
        if not isinstance(named, Mapping) or set(named) != set(right):
            return self._report(
                [f"It must return a dictionary with the keys A, B, C and D: got {named!r}."]
            )
        if unknown := [guess for guess in named.values() if guess not in MISTAKES]:
            return self._report(
                [f"{unknown[0]!r} is none of the nine, which are {', '.join(MISTAKES)}."]
            )
        wrong = [letter for letter in right if named[letter] != right[letter]]
        return self._report([_against(letter, named[letter]) for letter in wrong])

    def _report(self, against: list[str]) -> Report:
        message = " ".join(against) or "Each of the four is named."
        return Report(self.name, passed=not against, attempted=True, message=message)


def _against(letter: str, guess: str) -> str:
    """Return what is to be seen in the model that the guess does not explain."""
    shows, guessed = MISTAKES[culprits()[letter]], MISTAKES[guess]
    if shows != guessed:
        return (
            f"{letter} is not «{guess}»: with that {_FIRST[guessed]}; in {letter} {_FIRST[shows]}."
        )
    return (
        f"{letter} is not «{guess}», which {_ALIKE[shows]}. Put it there yourself, and compare "
        f"the logits of the two models{' behind a cache' if shows == _CACHE else ''}."
    )
