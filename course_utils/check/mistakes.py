"""Until the last exercise has moved: a catalogue written in Python. See ``catalogue``."""

from collections.abc import Callable
from dataclasses import replace

from course_utils.check.catalogue import Mistake

__all__ = ["Catalogue", "Mistake"]


class Catalogue(dict[str, Mistake]):
    """The known mistakes of one exercise, by key, in the order in which they were added."""

    def add(self, key: str, title: str, wrong: str, matters: str, hint: str, *examples: Callable) -> None:
        """Add a mistake with its ``examples``."""
        self[key] = Mistake(key, title, wrong, matters, hint, examples[0], written=examples)

    def mistake(self, title: str, wrong: str, matters: str, hint: str) -> Callable[[Callable], Callable]:
        """Return a decorator that adds the mistake which the function makes, under the function's name."""

        def enter(example: Callable) -> Callable:
            self.add(example.__name__, title, wrong, matters, hint, example)
            return example

        return enter

    def form_of(self, key: str) -> Callable[[Callable], Callable]:
        """Return a decorator for another way of writing the mistake ``key``, with other results."""

        def enter(example: Callable) -> Callable:
            self[key] = replace(self[key], written=(*self[key].examples, example))
            return example

        return enter
