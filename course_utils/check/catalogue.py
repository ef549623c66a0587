"""The known mistakes of an exercise: text in NAME.toml, and edits that turn the right function
wrong.

    [eps_outside_root]
    title = "epsilon outside the root"
    wrong = "Epsilon is added to the standard deviation, after the root, not to the variance."
    matters = "..."
    hint = "..."
    everyday = true
    edits = [{ "std = torch.sqrt(variance + eps)" = "std = torch.sqrt(variance) + eps" }]

Each table in ``edits`` is one way to make the mistake: ``"old" = "new"``, where ``old`` stands
exactly once in the source of the exercise's reference. What no edit can say is a function, named in
``examples``, beside the reference. ``everyday`` marks the slips that are made several at once: a
check tries them together, so their edits should not overlap.

Mistakes that several exercises share stand once, in ``mistakes/`` here or there, with words such as
``{spread}`` in the text:

    [shared]
    file = "course_utils/check/mistakes/norms.toml"
    keys = ["unbiased_variance", "no_eps"]
    words = { spread = "variance" }

They come first. What an exercise's own table of the same key says replaces what they say.
"""

import difflib
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

__all__ = ["Mistake", "changed_lines", "edited", "load", "source_of", "spans_of", "with_edits"]


@dataclass(frozen=True)
class Mistake:
    """One known mistake of an exercise, in every chapter that has one."""

    key: str
    title: str  # a noun phrase, to stand in brackets: "epsilon outside the root"
    wrong: str  # what the function does, in a sentence
    matters: str
    hint: str  # a question or a nudge that does not give the answer away
    reference: Callable[..., Any]
    edits: tuple[
        Mapping[str, str], ...
    ] = ()  # the ways to make it, each from the right code to the wrong code
    written: tuple[Callable[..., Any], ...] = ()  # functions that make it where no edit can say it
    everyday: bool = False  # whether it is a slip that is often made together with others

    @cached_property
    def examples(self) -> tuple[Callable[..., Any], ...]:
        """Runnable functions that make it: one for each of ``edits``, and then those written
        out."""
        return (*(edited(self.reference, edit) for edit in self.edits), *self.written)

    def diff(self, form: int = 0) -> str:
        """Return what an example does differently: a unified diff without its head, or the source
        of a function."""
        if form >= len(self.edits):
            return textwrap.dedent(inspect.getsource(self.written[form - len(self.edits)])).rstrip()
        right = source_of(self.reference)
        return changed_lines(right, with_edits(right, self.edits[form]), context=1)


def load(exercise: str, reference: Callable[..., Any]) -> dict[str, Mistake]:
    """Return the known mistakes of ``exercise`` by key, in the order of its file.

    Edits are made in the source of ``reference``. The file lies in ``mistakes/`` beside the
    reference's module, which has the functions that it names in ``examples``; so does a file of
    shared mistakes, or its path begins with ``course_utils``.
    """
    beside = sys.modules[reference.__module__]
    folder = Path(str(beside.__file__)).parent / "mistakes"
    own = _read(folder / f"{exercise}.toml")
    shared = own.pop("shared", None)
    entries = _shared_entries(folder, **shared) if shared else {}
    for key, entry in own.items():
        entries[key] = entries.get(key, {}) | entry
    return {key: _mistake(key, entry, reference, vars(beside)) for key, entry in entries.items()}


def _mistake(
    key: str, entry: dict[str, Any], reference: Callable[..., Any], beside: Mapping[str, Any]
) -> Mistake:
    edits = tuple(entry.pop("edits", ()))
    written = tuple(beside[name] for name in entry.pop("examples", ()))
    return Mistake(key, **entry, reference=reference, edits=edits, written=written)


def _shared_entries(
    folder: Path, file: str, keys: list[str], words: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the entries of a file of shared mistakes, with ``words`` filled in."""
    beside = folder / file
    mistakes = _read(beside if beside.exists() else Path(__file__).parents[2] / file)
    entries = {}
    for key in keys:
        entry = mistakes[key].items()
        entries[key] = {
            name: v.format(**words or {}) if isinstance(v, str) else v for name, v in entry
        }
    return entries


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def edited(reference: Callable[..., Any], *edits: Mapping[str, str]) -> Callable[..., Any]:
    """Return ``reference`` with ``edits`` made in its source."""
    namespace = dict(reference.__globals__)
    source = with_edits(source_of(reference), *edits)
    exec(compile(source, f"<{reference.__name__}, edited>", "exec"), namespace)
    return namespace[reference.__name__]


@cache
def source_of(function: Callable[..., Any]) -> str:
    """Return the source of a function, without indentation."""
    return textwrap.dedent(inspect.getsource(function))


def with_edits(source: str, *edits: Mapping[str, str]) -> str:
    """Return ``source`` with every ``old`` replaced by ``new``, in all of ``edits`` at once.

    Raises:
        ValueError: an ``old`` is not there exactly once, or two change the same words.
    """
    spans = sorted((span for edit in edits for span in spans_of(edit, source)), reverse=True)
    for (start, _, _), (_, end, new) in pairwise(spans):
        if end > start:
            raise ValueError(f"edits must not overlap: see {new!r}")
    for start, end, new in spans:
        source = source[:start] + new + source[end:]
    return source


def spans_of(edit: Mapping[str, str], source: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the words that an edit changes begin and end, and what stands there then."""
    for old, new in edit.items():
        if source.count(old) != 1:
            raise ValueError(
                f"what is edited must be there exactly once: {old!r} is there {source.count(old)}x"
            )
        same_before, same_after = _in_common(old, new)
        start = source.index(old)
        end = start + len(old) - same_after
        yield start + same_before, end, new[same_before : len(new) - same_after]


@cache
def _in_common(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two texts have in common at their beginning and then at their
    end, in whole words."""
    words, new_words = (re.findall(r"\w+|\W", text) for text in (old, new))
    pairs = list(takewhile(lambda pair: pair[0] == pair[1], zip(words, new_words, strict=False)))
    rest, new_rest = words[len(pairs) :], new_words[len(pairs) :]
    ends = zip(reversed(rest), reversed(new_rest), strict=False)
    before = sum(len(word) for word, _ in pairs)
    return before, sum(len(word) for word, _ in takewhile(lambda pair: pair[0] == pair[1], ends))


def changed_lines(old: str, new: str, context: int = 0) -> str:
    """Return a unified diff without its head, and without the lines that say where unless there is
    ``context``."""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=context, lineterm=""))[
        2:
    ]
    return "\n".join(line for line in lines if context or not line.startswith("@@"))
