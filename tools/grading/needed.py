"""Which statements of a notebook an answer depends on: the others, experiments and figures above
all, need not run."""

import ast
import builtins
import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from IPython.core.inputtransformer2 import TransformerManager

__all__ = ["binding_statements", "needed_statements"]

_PREDEFINED = {*dir(builtins), "__name__", "display", "get_ipython", "exit", "quit"}
_IMPORT = ast.Import | ast.ImportFrom
_DEFINITION = ast.FunctionDef | ast.ClassDef | _IMPORT
_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


def needed_statements(sources: Sequence[str], name: str) -> list[list[ast.stmt] | None]:
    """Return for each code cell the statements that can matter to what ``name`` is bound to.

    These are the statements that bind it; those that bind what they use, and so on; and those that
    change any of that: by assigning to a part of it or, for data, by binding nothing, as
    ``table.append(1)`` does. A cell with an import among them is needed whole, for it sets things
    up. The statement in which the notebook chooses between the learner's ``name`` and the course's
    comes after the answer, and is left out. Where a name comes from nowhere that the syntax shows
    (a star import, a magic, ``exec``), it may come from anywhere: then everything is needed. A cell
    that is no Python cannot be taken apart, and may be the reason why a name is missing: None.
    """
    cells = [_read(source, name) for source in sources]
    statements = [statement for cell in cells for statement in cell or []]
    bound = {bound for statement in statements for bound in statement.binds}
    code = {
        bound
        for statement in statements
        if isinstance(statement.node, _DEFINITION)
        for bound in statement.binds
    }
    wanted = {name}
    before: set[str] = set()
    needed: list[list[_Statement]] = []
    while wanted != before:
        before = wanted
        data = (wanted & bound) - code - {name}
        needed = [_needed(cell or [], wanted, data) for cell in cells]
        wanted = wanted.union(*(statement.uses for cell in needed for statement in cell))
    if not wanted - _PREDEFINED <= bound:
        needed = [cell or [] for cell in cells]
    nodes = [[statement.node for statement in cell] for cell in needed]
    return [None if cell is None else part for cell, part in zip(cells, nodes, strict=True)]


def binding_statements(sources: Sequence[str], name: str) -> list[str]:
    """Return the statements that bind ``name``, or may: a star import."""
    statements = [statement for source in sources for statement in _read(source, name) or []]
    return [
        ast.unparse(one.node)
        for one in statements
        if name in one.binds or "import *" in ast.unparse(one.node)
    ]


@dataclass
class _Statement:
    """A statement at the top level of a cell, and the names that it binds, uses, or assigns to a
    part of."""

    node: ast.stmt
    binds: set[str]
    uses: set[str]
    changes: set[str]


def _read(source: str, name: str) -> list[_Statement] | None:
    """Return the statements of a cell but for the choice of ``name``; None for a cell that is no
    Python."""
    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
        return [
            _statement(node)
            for node in tree.body
            if f"check.{name}.choose(" not in ast.unparse(node)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _statement(node: ast.stmt) -> _Statement:
    code = compile(ast.Module([node], []), "cell", "exec")
    steps = list(_steps(code))
    binds = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_NAME"}
    binds |= {step.argval for step in steps if step.opname == "STORE_GLOBAL"}
    uses = {step.argval for step in steps if step.opname in _LOADS}
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute | ast.Subscript)]
    return _Statement(
        node, binds, uses, {_base(part) for part in parts if isinstance(part.ctx, ast.Store)}
    )


def _steps(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions of ``code`` and of the functions and classes in it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _steps(constant)


def _base(node: ast.AST) -> str:
    """Return the name at the root of ``name.attribute[item]``, or nothing."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _needed(cell: list[_Statement], wanted: set[str], data: set[str]) -> list[_Statement]:
    needed = []
    for statement in cell:
        changes_data = not statement.binds and statement.uses & data
        if wanted & (statement.binds | statement.changes) or changes_data:
            needed.append(statement)
    return cell if any(isinstance(statement.node, _IMPORT) for statement in needed) else needed
