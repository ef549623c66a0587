"""The catalogue of known mistakes: each with what is wrong, why it matters, a hint, and functions that make it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Catalogue", "Mistake"]


@dataclass(frozen=True)
class Mistake:
    """One known mistake.

    Args:
        key: its name in reports and tests.
        title: a noun phrase, to stand in brackets: "epsilon outside the root".
        wrong: what the function does, in a sentence.
        matters: why that is not good enough, in a sentence or two.
        hint: a question or a nudge that does not give the answer away.
        examples: runnable functions that make it; more than one where the same mistake can be written so that the
            results differ.
    """

    key: str
    title: str
    wrong: str
    matters: str
    hint: str
    examples: tuple[Callable[..., Any], ...]
    edits: tuple[Mapping[str, str], ...] = ()
    everyday: bool = False


class Catalogue(Mapping[str, Mistake]):
    """The known mistakes of one exercise, by key, in the order in which they were added."""

    def __init__(self) -> None:
        self._mistakes: dict[str, Mistake] = {}

    def add(self, key: str, title: str, wrong: str, matters: str, hint: str, *examples: Callable) -> None:
        """Add a mistake with its ``examples``.

        Raises:
            ValueError: the key is taken, or there is no example.
        """
        if key in self._mistakes or not examples:
            raise ValueError(f"key must be new and have an example: got {key!r} with {len(examples)} examples")
        self._mistakes[key] = Mistake(key, title, wrong, matters, hint, examples)

    def mistake(self, title: str, wrong: str, matters: str, hint: str) -> Callable[[Callable], Callable]:
        """Return a decorator that adds the mistake which the function makes, under the function's name."""

        def enter(example: Callable) -> Callable:
            self.add(example.__name__, title, wrong, matters, hint, example)
            return example

        return enter

    def form_of(self, key: str) -> Callable[[Callable], Callable]:
        """Return a decorator for another way of writing the mistake ``key``, with other results."""

        def enter(example: Callable) -> Callable:
            known = self._mistakes[key]
            self._mistakes[key] = Mistake(
                key, known.title, known.wrong, known.matters, known.hint, (*known.examples, example)
            )
            return example

        return enter

    def __getitem__(self, key: str) -> Mistake:
        return self._mistakes[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mistakes)

    def __len__(self) -> int:
        return len(self._mistakes)

    def __repr__(self) -> str:
        return "\n".join(f"{mistake.key}: {mistake.wrong}" for mistake in self.values())
