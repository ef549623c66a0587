"""Make the ledger of claims from what ran: the call of ``claims.test`` in a cell beside the card
that the cell showed.

nbval runs every cell anew and compares its output, so a stored card is an assertion that holds;
this module makes sure that each call has its card, each card its call, and each entry of
``claims.toml`` both.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from nbformat import NotebookNode

from chapters import known_claims
from chapters.c20_on_trial.ledger import Entry
from chapters.contents import chapter_of
from tools.lint import Finding, Page
from tools.notebooks import has_tag, parse_code

__all__ = ["claims_in", "collect", "ledger_text"]

_EVIDENCE = ("evidence", "holds", "fails")


def collect(paths: Iterable[Path]) -> tuple[list[Entry], list[Finding]]:
    """Return the claims of the notebooks at ``paths``, and what is wrong with those that are left
    out."""
    found = [one for path in paths for one in claims_in(Page.read(path))]
    return [one for one in found if isinstance(one, Entry)], [
        one for one in found if isinstance(one, Finding)
    ]


def ledger_text(entries: Iterable[Entry]) -> str:
    """Return the ledger's file: the same bytes for the same entries."""
    return json.dumps([asdict(entry) for entry in entries], ensure_ascii=False, indent=1) + "\n"


def claims_in(page: Page) -> Iterator[Entry | Finding]:
    """Yield each claim of a notebook, or why it cannot be one."""
    chapter, seen = page.path.stem.split("_")[0], set[str]()
    known = known_claims(chapter)
    file = f"{chapter_of(chapter).folder.name}/claims.toml"
    for index, cell in page.code_cells():
        tests, shown = list(_tests(cell.source)), _shown(cell)
        problems = [problem for test in tests if (problem := _problem(test))]
        keys = [_key(test) for test in tests]
        if keys != list(shown):
            problems.append(
                f"the cell tests {_list(keys)} and showed {_list(shown)}: run it, and test each "
                "claim once"
            )
        if keys and has_tag(cell, "nbval-ignore-output"):
            problems.append(
                f"{_list(keys)} in a cell tagged nbval-ignore-output: nothing would notice another "
                "verdict"
            )
        for key, text in shown.items():
            start = known[key].line if key in known else ""
            if key not in known:
                problems.append(f"{key} has no entry in {file}")
            elif not text.startswith(start):
                problems.append(
                    f"{key} has another verdict or sentence in {file}: run the notebook"
                )
            elif key in seen:
                problems.append(
                    f"{key} is tested twice in this chapter: give the claim its own key"
                )
            elif not problems:
                yield Entry(
                    chapter,
                    key,
                    cell.id,
                    text.removeprefix(start).strip().removeprefix("[").removesuffix("]"),
                )
            seen.add(key)
        yield from (Finding(page.path, index, "claim", problem) for problem in problems)
    for key in known.keys() - seen:
        yield Finding(page.path, None, "claim", f"{key} in {file} is tested in no cell")


def _problem(test: ast.Call) -> str:
    """Return why a call of ``claims.test`` tests nothing, or nothing."""
    key, given = _key(test), {keyword.arg: keyword.value for keyword in test.keywords}
    if key is None:
        return "the key of a claim is computed: write it out, to be found"
    if len(test.args) > 1:
        given["evidence"] = test.args[1]
    if any(isinstance(given[name], ast.Constant) for name in _EVIDENCE if name in given):
        return f"the evidence of {key} is a constant: it cannot fail"
    if "number" in given and not any(
        isinstance(node, ast.Name) for node in ast.walk(given["number"])
    ):
        return f"the number of {key} is written out: compute it"
    return ""


def _tests(source: str) -> Iterator[ast.Call]:
    """Yield the calls of ``claims.test`` in a cell in the order in which they stand."""
    tree = parse_code(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if ast.unparse(node.func) == "claims.test":
            yield node


def _key(test: ast.Call) -> str | None:
    first = test.args[0] if test.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _shown(cell: NotebookNode) -> dict[str, str]:
    """Return the cards among a cell's outputs: key and text."""
    bundles = [output.get("data", {}) for output in cell.get("outputs", ())]
    cards = [(bundle.get("text/html", ""), bundle.get("text/plain", "")) for bundle in bundles]
    marker = '<div id="claim-'
    return {
        html.removeprefix(marker).partition('"')[0]: text
        for html, text in cards
        if html.startswith(marker)
    }


def _list(names: Iterable[str | None]) -> str:
    return ", ".join(map(str, names)) or "nothing"
