"""Make the ledger of claims from what ran: the call of ``prove`` in a cell beside the line that the cell printed.

nbval runs every cell anew and compares its output, so a stored line is an assertion that holds; this module makes sure
that each call has its line, and each line its call.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from course_utils.book.claims import VERDICTS
from course_utils.book.ledger import Entry
from tools.lint import Finding, Page
from tools.notebooks import has_tag, parse_code

__all__ = ["claims_in", "collect", "ledger_text"]

_LINE = re.compile(
    rf"^claim (?P<key>[^:\n]+): (?P<verdict>{'|'.join(VERDICTS)})(?: \((?P<number>.*)\))?$", re.MULTILINE
)
_PARAMETERS = ("key", "statement", "evidence")  # of Claims.prove, those that may be given by position
_TEXTS = ("key", "statement", "verdict", "source")
_DEFAULTS = {"verdict": VERDICTS[0], "source": ""}


@dataclass(frozen=True)
class _Call:
    """One call of ``prove`` as it is written: ``None`` for a text that is computed, no evidence for a constant."""

    key: str | None
    statement: str | None
    verdict: str | None
    source: str | None
    evidence: str


def collect(paths: Iterable[Path]) -> tuple[list[Entry], list[Finding]]:
    """Return the claims of the notebooks at ``paths``, and what is wrong with those that are left out."""
    found = [one for path in paths for one in claims_in(Page.read(path))]
    return [one for one in found if isinstance(one, Entry)], [one for one in found if isinstance(one, Finding)]


def ledger_text(entries: Iterable[Entry]) -> str:
    """Return the ledger's file: the same bytes for the same entries."""
    return json.dumps([asdict(entry) for entry in entries], ensure_ascii=False, indent=1) + "\n"


def claims_in(page: Page) -> Iterator[Entry | Finding]:
    """Yield each claim of a notebook, or why it cannot be one."""
    chapter, taken = page.path.stem.split("_")[0], set[str]()
    for index, cell in page.code_cells():
        calls = list(_calls(cell.source))
        lines = list(_LINE.finditer("".join(_stdout(cell))))
        for number in _chapters_named(cell.source):
            if number != chapter:
                yield page.finding(index, "claim", f"Claims({number!r}) in chapter {chapter}: use its own number")
        if problem := _problem(calls, [line["key"] for line in lines], has_tag(cell, "nbval-ignore-output")):
            yield page.finding(index, "claim", problem)
            continue
        for call, line in zip(calls, lines, strict=True):
            if call.key in taken:
                yield page.finding(index, "claim", f"{call.key} is taken in this chapter: give the claim its own key")
            elif call.verdict != line["verdict"]:
                message = f"{call.key} is written as «{call.verdict}» and ran as «{line['verdict']}»: run the notebook"
                yield page.finding(index, "claim", message)
            else:
                taken.add(line["key"])
                yield Entry(chapter=chapter, cell=cell.id, number=line["number"] or "", **asdict(call))


def _problem(calls: list[_Call], printed: list[str], is_ignored: bool) -> str:
    """Return why the calls of a cell and the keys that it printed do not make claims, or nothing."""
    for call in calls:
        computed = [name for name in _TEXTS if getattr(call, name) is None]
        if computed:
            return f"{' and '.join(computed)} of the claim {call.key} computed: write the text out, to be quoted"
        if not call.evidence:
            return f"the evidence of {call.key} is a constant: it cannot fail"
    written = [call.key for call in calls]
    if written != printed:
        return f"the cell proves {_list(written)} and printed {_list(printed)}: run it, and prove each claim once"
    if calls and is_ignored:
        return f"{_list(written)} stands in a cell tagged nbval-ignore-output: nothing would notice another verdict"
    return ""


def _list(names: Iterable[str | None]) -> str:
    return ", ".join(map(str, names)) or "nothing"


def _nodes(source: str) -> Iterator[ast.Call]:
    """Yield the calls in a cell in the order in which they are written; none where it is not plain Python."""
    tree = parse_code(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    yield from sorted(calls, key=lambda node: (node.lineno, node.col_offset))


def _calls(source: str) -> Iterator[_Call]:
    for node in _nodes(source):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "prove":
            given = dict(zip(_PARAMETERS, node.args, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
            texts = {name: _text(given[name]) if name in given else _DEFAULTS.get(name) for name in _TEXTS}
            evidence = given.get("evidence", ast.Constant(None))
            segment = "" if isinstance(evidence, ast.Constant) else ast.get_source_segment(source, evidence) or ""
            yield _Call(**texts, evidence=" ".join(segment.split()))


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _chapters_named(source: str) -> Iterator[str]:
    """Yield the number of every ``Claims("NN")`` in a cell."""
    for node in _nodes(source):
        if ast.unparse(node.func) == "Claims" and node.args and (number := _text(node.args[0])):
            yield number


def _stdout(cell: dict) -> Iterator[str]:
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield output["text"]
