"""Chapter 21: whether something is an input of a piece, and what is said to it.

A page of the site runs this file too, in MicroPython with a small torch: it stays with what they
have.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from course_utils.table import format_number

__all__ = [
    "ORDINARY",
    "allowed_values",
    "changed",
    "complaint",
    "first_that_holds",
    "fits",
    "reply_to",
    "what_is_off",
]

ORDINARY = "This is the ordinary input, and on it the piece is right."
_CLOSER = 3.0  # times as far off as on the ordinary input is said to be on the way
_ROUNDING = 1e-9  # what is smaller is rounding noise beside a zero, and other on every machine


def fits(limits: Mapping[str, Any], value: Any) -> bool:
    """Whether an argument may be ``value``, by its limits in bugs.toml: a tensor, a number, one of
    some values, a whole number."""
    if "axes" in limits:
        if value is None:
            return bool(limits.get("or_none"))
        if not isinstance(value, torch.Tensor):
            return False
        is_allowed = _name(value.dtype) in limits.get("dtypes", ["float32"])
        is_alike = str(value.device) == "cpu" and value.ndim == len(limits["axes"])
        return is_allowed and is_alike and bool((value.abs() <= limits["largest"]).all())  # no NaN
    if "low" in limits:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and limits["low"] <= value <= limits["high"]
    values = allowed_values(limits)
    return type(value) is type(values[0]) and value in values  # True is no 1


def allowed_values(limits: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values of an argument that has few, or is a whole number."""
    return limits.get("one_of") or range(limits["first"], limits["last"] + 1)


def complaint(
    words: Mapping[str, str],
    is_allowed: Callable[[str, Any], bool],
    axes: Mapping[str, str],
    sizes: Mapping[str, Sequence[int]],
    arguments: Mapping[str, Any],
) -> str:
    """Return why ``arguments`` are no input of a piece, as a sentence, or nothing.

    Args:
        words: what each argument may be.
        is_allowed: whether the argument of that name may be this.
        axes: of each tensor, a letter for each dimension.
        sizes: of each letter, the least and the most.
        arguments: the input.
    """
    if set(arguments) != set(words):
        names = ", ".join([str(name) for name in arguments]) or "none"
        return f"The arguments must be {', '.join(words)}: got {names}."
    for name in words:
        if not is_allowed(name, arguments[name]):
            return f"{name} must be {words[name]}: got {_described(arguments[name])}."
    tensors = {name: arguments[name] for name in words if axes.get(name)}
    tensors = {name: value for name, value in tensors.items() if value is not None}
    first: dict[str, Any] = {}  # of each letter: the argument that has it first, its size there
    for name, value in tensors.items():
        for letter, size in zip(axes[name], value.shape):  # noqa: B905
            other, expected = first.setdefault(letter, (name, size))
            low, high = sizes[letter]
            if size != expected:
                got = f"got {size} and {expected}"
                return f"{name} and {other} must have the same {letter}: {got}."
            if not low <= size <= high:
                return f"{letter} must be from {low:,} to {high:,}: got {size:,} in {name}."
    dtypes = {name: _name(value.dtype) for name, value in tensors.items()}
    if len(set(dtypes.values())) <= 1:
        return ""
    got = ", ".join([f"{name} {dtype}" for name, dtype in dtypes.items()])
    return f"The tensors must be of one dtype: got {got}."


def first_that_holds(messages: Mapping[str, str], arguments: Mapping[str, Any]) -> str:
    """Return the first message whose condition ``arguments`` meet, their values in its braces; or
    nothing."""
    names = {"torch": torch}
    names.update(arguments)
    for condition, message in messages.items():
        if eval(condition, names):
            return str(eval(f"f{message!r}", names))  # MicroPython's format has no attributes
    return ""


def what_is_off(place: Sequence[int], got: float, right: float) -> str:
    """Return in words, to stand in a sentence, which element is what, and what is right."""
    got_text, right_text = [
        format_number(0.0 if abs(value) < _ROUNDING else value) for value in (got, right)
    ]
    return f"output {list(place)} of the piece is {got_text}, where {right_text} is right"


def changed(arguments: Mapping[str, Any], ordinary: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that are not the ordinary ones."""
    return [name for name in arguments if not _equal(arguments[name], ordinary[name])]


def reply_to(
    piece: Any, arguments: Mapping[str, Any], broken: Any, mended: Any, usual: Callable[[], float]
) -> str:
    """Return what is said to an input that does not show the bug, or nothing where it does.

    Args:
        piece: its ordinary input, what it says to one that comes near, whether it is clean.
        arguments: the input, not the ordinary one.
        broken: how far off the piece is on it (ratio to what is allowed, error, words).
        mended: how far off it is without its bug.
        usual: returns the piece's ratio on the ordinary input.
    """
    if broken.ratio > 1 >= mended.ratio:
        return ""
    if broken.ratio > 1:
        by = format_number(mended.error)
        return (
            f"The piece is wrong here ({broken.message()}), but a version without a bug is wrong "
            f"too, by {by}: what you see is something else, such as the end of the dtype. Come a "
            "little nearer to the ordinary input."
        )
    before = usual()
    parts = [f"The piece is right on this input: off by {_share(broken.ratio)} of what is allowed."]
    if broken.ratio > _CLOSER * before and broken.ratio > 0.01:
        parts.append(
            "So far off is rounding, in a right version too."
            if piece.is_clean
            else f"You are on the way: on the ordinary input it is {_share(before)}."
        )
    new = changed(arguments, piece.ordinary())
    kept = [f"`{name}`" for name in arguments if name not in new]
    if message := first_that_holds(piece.near, arguments):
        parts.append(message)
    elif kept:
        was = "it was" if len(kept) == 1 else "they were"
        parts.append(f"You left {' and '.join(kept)} as {was}.")
    return " ".join(parts)


def _share(ratio: float) -> str:
    return f"{100 * ratio:.2g} %"


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = value.dtype == other.dtype and value.shape == other.shape
        return alike and bool((value == other).all())
    return type(value) is type(other) and bool(value == other)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return "NoneType" if value is None else repr(value)
    largest = f", elements up to {value.abs().max().item():,g}" if value.numel() else ""
    return f"a {_name(value.dtype)} tensor {tuple(value.shape)}{largest}"


def _name(dtype: Any) -> str:
    return str(dtype).split(".")[-1]
