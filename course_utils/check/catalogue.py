"""The known mistakes of an exercise: text in ``mistakes/NAME.toml``, and edits that turn the right function wrong.

    [eps_outside_root]
    title = "epsilon outside the root"
    wrong = "Epsilon is added to the standard deviation, after the root, instead of to the variance under it."
    matters = "..."
    hint = "..."
    edits = [{ "c * torch.rsqrt(v + eps)" = "c / (torch.sqrt(v) + eps)" }]

Each table in ``edits`` is one way to make the mistake: ``"old" = "new"``, where ``old`` stands exactly once in the
source of the exercise's reference. What no edit can say is a function, named in ``examples``, beside the reference.
"""

import inspect
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["Mistake", "edited", "load"]

FOLDER = Path(__file__).parent / "mistakes"


@dataclass(frozen=True)
class Mistake:
    """One known mistake.

    Args:
        key: its name in reports and tests.
        title: a noun phrase, to stand in brackets: "epsilon outside the root".
        wrong: what the function does, in a sentence.
        matters: why that is not good enough, in a sentence or two.
        hint: a question or a nudge that does not give the answer away.
        edits: the ways to make it, each a mapping from the right code to the wrong code.
        examples: runnable functions that make it, one for each of ``edits`` and then those written out.
    """

    key: str
    title: str
    wrong: str
    matters: str
    hint: str
    edits: tuple[Mapping[str, str], ...]
    examples: tuple[Callable[..., Any], ...]


def load(exercise: str, reference: Callable[..., Any]) -> dict[str, Mistake]:
    """Return the known mistakes of ``exercise`` by key, in the order of its file.

    Args:
        reference: the right function, in whose source the edits are made; functions named in ``examples`` stand in its
            module.

    Raises:
        ValueError: an edit does not match its source exactly once.
    """
    beside = vars(sys.modules[reference.__module__])
    entries = tomllib.loads((FOLDER / f"{exercise}.toml").read_text(encoding="utf-8"))
    catalogue = {}
    for key, entry in entries.items():
        edits = tuple(entry.pop("edits", ()))
        written = tuple(beside[name] for name in entry.pop("examples", ()))
        examples = (*(edited(reference, edit) for edit in edits), *written)
        catalogue[key] = Mistake(key, **entry, edits=edits, examples=examples)
    return catalogue


def edited(reference: Callable[..., Any], edits: Mapping[str, str]) -> Callable[..., Any]:
    """Return ``reference`` with every ``old`` of its source replaced by ``new``.

    Raises:
        ValueError: an ``old`` is not there exactly once, or two overlap.
    """
    source = textwrap.dedent(inspect.getsource(reference))
    spans = []
    for old, new in edits.items():
        if source.count(old) != 1:
            raise ValueError(
                f"an edit must match {reference.__name__} exactly once: {old!r} is there {source.count(old)}x"
            )
        spans.append((source.index(old), source.index(old) + len(old), new))
    spans.sort(reverse=True)
    for (start, _, _), (_, end, new) in pairwise(spans):
        if end > start:
            raise ValueError(f"edits of {reference.__name__} must not overlap: see {new!r}")
    for start, end, new in spans:
        source = source[:start] + new + source[end:]
    namespace = dict(reference.__globals__)
    exec(compile(source, f"<{reference.__name__}, edited>", "exec"), namespace)
    return namespace[reference.__name__]
