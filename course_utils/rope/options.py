"""Reading a ``rope_parameters`` dictionary: each value is checked as it is read, and what nobody reads is reported."""

import math
from collections.abc import Mapping
from typing import Any

from course_utils.arguments import LARGEST, is_number, require_length, shown

__all__ = ["DEFAULT_BASE", "RopeOptions", "RopeWarning"]

DEFAULT_BASE = 10_000.0

# What some models keep in this dictionary though it leaves the frequencies as they are: which axis of an image turns
# a pair, and how queries grow with their position.
_WITHOUT_EFFECT = frozenset({"mrope_section", "mrope_interleaved", "llama_4_scaling_beta", "max_position_embeddings"})


class RopeWarning(UserWarning):
    """A suspicious value among RoPE's parameters, with what was assumed."""


def _as_float(value: Any) -> float:
    """A real number as a float, and NaN for whatever is none."""
    if not is_number(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf


class RopeOptions:
    """The values of one ``rope_parameters`` dictionary; null counts as absent.

    Args:
        rope_parameters: the dictionary; None counts as an empty one.
        known_types: the names that ``rope_type`` may have.

    Raises:
        ValueError: not a dictionary, one of dictionaries, or a ``rope_type`` that is missing or unknown.
    """

    def __init__(self, rope_parameters: Mapping[str, Any] | None, known_types: tuple[str, ...]) -> None:
        if not isinstance(rope_parameters, Mapping | None):
            raise ValueError(f"rope_parameters must be a dictionary or None: got {rope_parameters!r}")
        self._values = {key: value for key, value in (rope_parameters or {}).items() if value is not None}
        self._read = {"rope_type", "type"}
        self.warnings: list[str] = []
        self.rope_type = self._rope_type(known_types)

    def _rope_type(self, known_types: tuple[str, ...]) -> str:
        nested = [key for key, value in self._values.items() if isinstance(value, Mapping)]
        if nested:
            raise ValueError(
                "rope_parameters must be the dictionary of one layer type: "
                f"got one of dictionaries, pass that of one of {', '.join(nested)}"
            )
        names = {key: self._values[key] for key in ("rope_type", "type") if key in self._values}
        expected = f"rope_type must be one of {', '.join(known_types)}"
        if not names and self._values.keys() - {"rope_theta", "partial_rotary_factor", *_WITHOUT_EFFECT}:
            raise ValueError(f"{expected}: got none, with {', '.join(sorted(self._values))}")
        for key, name in names.items():
            if name not in known_types:
                hint = "; an image's axial frequencies are positions.axial_rope_2d" if name == "axial" else ""
                raise ValueError(f"{expected}: got {key}={name!r}{hint}")
        rope_type = names.get("rope_type", names.get("type", "default"))
        if len(set(names.values())) > 1:
            self.warnings.append(f"rope_type={rope_type!r} is used, and type={names['type']!r} is ignored")
        return rope_type

    def has(self, key: str) -> bool:
        """Return whether ``key`` was given; asking counts as reading it."""
        self._read.add(key)
        return key in self._values

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        at_least: float = -math.inf,
        above: float = -math.inf,
        at_most: float = math.inf,
    ) -> float:
        """Return a finite number within bounds.

        Args:
            key: the name of the value.
            default: the value where none was given; None says that one must be.
            at_least: the smallest number allowed.
            above: a number that it must exceed.
            at_most: the largest number allowed.

        Returns:
            The number.

        Raises:
            ValueError: none given and no default, not a finite number, or out of bounds.
        """
        value = self._values[key] if self.has(key) else default
        bounds = [(at_least, "of at least"), (above, "above"), (at_most, "of at most")]
        expected = " and ".join(f"{words} {bound:g}" for bound, words in bounds if math.isfinite(bound))
        number = _as_float(value)
        if not (at_least <= number <= min(at_most, LARGEST) and above < number):
            if number > LARGEST:
                expected += f" and of at most {LARGEST:g}"
            got = "none" if value is None else f"{key}={shown(value)}"
            raise ValueError(f"{key} must be a number {expected} for rope_type={self.rope_type!r}: got {got}")
        return number

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false.

        Args:
            key: the name of the value.
            default: the value where none was given.

        Returns:
            The flag.

        Raises:
            ValueError: anything but true or false.
        """
        value = self._values[key] if self.has(key) else default
        if not isinstance(value, bool):
            raise ValueError(f"{key} must be true or false for rope_type={self.rope_type!r}: got {key}={value!r}")
        return value

    def per_pair(self, key: str, pairs: int) -> list[float]:
        """Return a list with one positive number per pair.

        Args:
            key: the name of the list.
            pairs: how many pairs rotate.

        Returns:
            The numbers.

        Raises:
            ValueError: none given, not a list, of another length, or with a member that is not a positive number.
        """
        value = self._values[key] if self.has(key) else None
        expected = f"{key} must be a list of {pairs} positive numbers, one per rotary pair"
        if not isinstance(value, list | tuple):
            raise ValueError(f"{expected}: got {'none' if value is None else repr(value)}")
        if len(value) != pairs:
            raise ValueError(f"{expected}: got {len(value)}")
        for k, member in enumerate(value):
            if not 0 < _as_float(member) <= LARGEST:
                raise ValueError(f"{expected}: got {key}[{k}]={shown(member)}")
        return [float(member) for member in value]

    def original_length(self, max_position_embeddings: int | None) -> int:
        """Return the window that the model was first trained with, or, with a warning, its present one.

        Args:
            max_position_embeddings: what stands in for a missing ``original_max_position_embeddings``.

        Returns:
            The length.

        Raises:
            ValueError: neither is given, or it is no length.
        """
        key = "original_max_position_embeddings"
        if self.has(key):
            return require_length(key, self._values[key])
        if max_position_embeddings is None:
            raise ValueError(f"{key} must be given for rope_type={self.rope_type!r}: got none")
        self.warnings.append(
            f"{key} is missing for rope_type={self.rope_type!r}: max_position_embeddings={max_position_embeddings} is "
            "taken for it, which is right only if that is the length before stretching"
        )
        return max_position_embeddings

    def report_unread(self) -> None:
        """Add a warning for the keys that the method did not ask for."""
        unread = sorted(self._values.keys() - self._read - _WITHOUT_EFFECT)
        if unread:
            known = ", ".join(sorted(self._read - {"type"}))
            self.warnings.append(
                f"{', '.join(unread)}: not known for rope_type={self.rope_type!r} and ignored; it knows {known}"
            )
