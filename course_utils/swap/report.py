"""What a swap did: what was replaced, what was left and why, and the way back (chapter 15)."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from course_utils.book.tables import Table


def full_name(function: Any) -> str:
    """Return the module and the name of a function, or of the type of whatever else can be called."""
    return f"{function.__module__}.{getattr(function, '__name__', type(function).__name__)}"


@dataclass
class Swapped:
    """What ``swap`` did: ``replaced`` holds (name, what was there, what is there), ``left`` (name, what, why)."""

    replaced: list[tuple[str, str, str]] = field(default_factory=list)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    undo_actions: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Give the model back everything that was replaced."""
        while self.undo_actions:
            self.undo_actions.pop()()

    def replace(self, model: nn.Module, name: str, module: nn.Module, new: nn.Module, what: str) -> None:
        """Put ``new`` where ``module`` is in ``model``, and note it."""
        parent_name, _, child = name.rpartition(".")
        parent = model.get_submodule(parent_name)
        setattr(parent, child, new.train(module.training))
        self.replaced.append((name, type(module).__name__, what))
        self.undo_actions.append(lambda: setattr(parent, child, module))

    def table(self) -> Table:
        """Return both lists, equal lines of different layers counted together."""
        lines = [*self.replaced, *((name, what, f"left: {why}") for name, what, why in self.left)]
        counted = Counter((re.sub(r"(?<![^.])\d+(?![^.])", "*", name), was, now) for name, was, now in lines)
        rows = [(name, n, was, now) for (name, was, now), n in counted.items()]
        return Table(("module", "how many", "was", "is"), rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
