"""The known mistakes of an exercise: text in ``mistakes/NAME.toml``, and edits that turn the right function wrong.

    [eps_outside_root]
    title = "epsilon outside the root"
    wrong = "Epsilon is added to the standard deviation, after the root, instead of to the variance under it."
    matters = "..."
    hint = "..."
    everyday = true
    edits = [{ "std = torch.sqrt(variance + eps)" = "std = torch.sqrt(variance) + eps" }]

Each table in ``edits`` is one way to make the mistake: ``"old" = "new"``, where ``old`` stands exactly once in the
source of the exercise's reference. What no edit can say is a function, named in ``examples``, beside the reference.
``everyday`` marks the slips that are made several at once: a check tries them together, so their edits should not
overlap.

Mistakes that several exercises share stand once, in a file of their own, with words such as ``{spread}`` in the text:

    [shared]
    file = "norms"
    keys = ["unbiased_variance", "no_eps"]
    words = { spread = "variance" }

They come first. What an exercise's own table of the same key says replaces what they say.
"""

import difflib
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["Mistake", "edited", "load"]

FOLDER = Path(__file__).parent / "mistakes"


@dataclass(frozen=True)
class Mistake:
    """One known mistake of an exercise, in every chapter that has one."""

    key: str
    title: str  # a noun phrase, to stand in brackets: "epsilon outside the root"
    wrong: str  # what the function does, in a sentence
    matters: str
    hint: str  # a question or a nudge that does not give the answer away
    reference: Callable[..., Any]
    edits: tuple[Mapping[str, str], ...] = ()  # the ways to make it, each from the right code to the wrong code
    written: tuple[Callable[..., Any], ...] = ()  # functions that make it where no edit can say it
    everyday: bool = False  # whether it is a slip that is often made together with others

    @cached_property
    def examples(self) -> tuple[Callable[..., Any], ...]:
        """Runnable functions that make it: one for each of ``edits``, and then those written out."""
        return (*(edited(self.reference, edit) for edit in self.edits), *self.written)

    def diff(self, form: int = 0) -> str:
        """Return what an example does differently: a unified diff without its head, or the source of a function."""
        if form >= len(self.edits):
            return textwrap.dedent(inspect.getsource(self.written[form - len(self.edits)])).rstrip()
        right = _source(self.reference)
        wrong = _replaced(right, list(self.edits[form].items()), self.reference.__name__)
        lines = difflib.unified_diff(right.splitlines(), wrong.splitlines(), n=1, lineterm="")
        return "\n".join(list(lines)[2:])


def load(exercise: str, reference: Callable[..., Any]) -> dict[str, Mistake]:
    """Return the known mistakes of ``exercise`` by key, in the order of its file.

    Edits are made in the source of ``reference``; functions named in ``examples`` stand in its module.
    """
    beside = vars(sys.modules[reference.__module__])
    own = dict(_read(exercise))
    shared = own.pop("shared", None)
    entries: dict[str, dict[str, Any]] = {}
    for key in shared["keys"] if shared else ():
        common, words = _read(shared["file"])[key], shared.get("words", {})
        entries[key] = {name: v.format(**words) if isinstance(v, str) else v for name, v in common.items()}
    for key, entry in own.items():
        entries[key] = entries.get(key, {}) | entry
    catalogue = {}
    for key, entry in entries.items():
        edits, written = tuple(entry.pop("edits", ())), tuple(beside[name] for name in entry.pop("examples", ()))
        catalogue[key] = Mistake(key, **entry, reference=reference, edits=edits, written=written)
    return catalogue


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def edited(reference: Callable[..., Any], *edits: Mapping[str, str]) -> Callable[..., Any]:
    """Return ``reference`` with every ``old`` of its source replaced by ``new``, in all of ``edits`` at once.

    Raises:
        ValueError: an ``old`` is not there exactly once, or two overlap.
    """
    pairs = [pair for edit in edits for pair in edit.items()]
    namespace = dict(reference.__globals__)
    source = _replaced(_source(reference), pairs, reference.__name__)
    exec(compile(source, f"<{reference.__name__}, edited>", "exec"), namespace)
    return namespace[reference.__name__]


@cache
def _source(function: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(function))


def _replaced(source: str, edits: Sequence[tuple[str, str]], name: str) -> str:
    spans = []
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"an edit must match {name} exactly once: {old!r} is there {source.count(old)}x")
        spans.append((source.index(old), source.index(old) + len(old), new))
    spans.sort(reverse=True)
    for (start, _, _), (_, end, new) in pairwise(spans):
        if end > start:
            raise ValueError(f"edits of {name} must not overlap: see {new!r}")
    for start, end, new in spans:
        source = source[:start] + new + source[end:]
    return source
