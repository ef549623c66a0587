"""What a reader of the notebooks would trip over, and what to do about it.

nbval compares outputs; it says nothing of a cell that never ran, a figure without a description, or a link that leads
nowhere. Each rule is a function from a ``Page`` to findings; ``rules_code``, ``rules_outputs`` and ``rules_text`` hold
them.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

from tools.authoring.files import NOTEBOOKS, find_notebooks
from tools.authoring.page import Finding, Page
from tools.authoring.rules_code import CODE_RULES
from tools.authoring.rules_outputs import OUTPUT_RULES
from tools.authoring.rules_text import TEXT_RULES

__all__ = ["RULES", "Finding", "Page", "lint", "lint_notebook", "stray_notebooks"]

RULES = (*TEXT_RULES, *CODE_RULES, *OUTPUT_RULES)
# made on demand or by others, and ignored by git
_NOT_OURS = {"edit", "student", "site", "build", "dist", "node_modules"}


def lint(paths: Iterable[Path], root: Path = Path()) -> list[Finding]:
    """Return the findings in the notebooks at ``paths`` and, below ``root``, notebooks that no test would run."""
    findings = [finding for path in paths for finding in lint_notebook(path)]
    return findings + list(stray_notebooks(root))


def lint_notebook(path: Path) -> list[Finding]:
    """Return the findings in one notebook, by cell; a file that cannot be read is a finding too."""
    try:
        page = Page.read(path)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, KeyError, AttributeError) as error:
        first_line = str(error).strip().splitlines()[0]
        return [
            Finding(path, None, "format", f"not a notebook ({first_line}): bring it back from git and run it again")
        ]
    findings = (finding for rule in RULES for finding in rule(page))
    return sorted(findings, key=lambda finding: -1 if finding.cell is None else finding.cell)


def stray_notebooks(root: Path) -> Iterator[Finding]:
    """Find notebooks outside ``notebooks/``, or in a folder that pytest skips there: nbval would never run them."""
    for path in find_notebooks(folder=root):
        folders = path.relative_to(root).parts[:-1]
        if not folders or folders[0] in _NOT_OURS or folders[0].startswith("."):
            if folders:
                continue
        elif folders[0] == NOTEBOOKS.name and not _skipped_by_pytest(folders[1:]):
            continue
        yield Finding(path, None, "covered", f"nbval never runs it: move it to {NOTEBOOKS}/, or delete it")


def _skipped_by_pytest(folders: tuple[str, ...]) -> bool:
    """Match pytest's own ``norecursedirs``."""
    skipped = {"build", "dist", "node_modules", "venv", "CVS", "_darcs", "{arch}"}
    return any(folder in skipped or folder.startswith(".") or folder.endswith(".egg") for folder in folders)
