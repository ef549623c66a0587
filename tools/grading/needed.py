"""Which statements of a notebook an answer depends on: the others, experiments and figures above all, need not run."""

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager

__all__ = ["needed_statements"]

_GIVEN = {*dir(builtins), "__name__", "display", "get_ipython", "exit", "quit"}
_SHOW = {"print", "display"}  # what is handed to these stays as it is


@dataclass
class _Statement:
    """What the syntax of a statement at the top level of a cell says of names."""

    binds: set[str] = field(default_factory=set)  # assigned, defined, imported
    makes: set[str] = field(default_factory=set)  # of these, what is code and not data: defined or imported
    uses: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)  # an attribute or an item of it is assigned
    calls: set[str] = field(default_factory=set)  # a method of it is called, or something with it, for the effect
    imports: bool = False
    chooses: bool = False  # whether it goes on with the learner's function or with the course's


def needed_statements(sources: Sequence[str], name: str) -> list[list[int] | None]:
    """Return for each code cell the positions of the statements that can matter to what ``name`` is bound to.

    These are the statements that bind it; those that bind what they use, and so on; and those that change any of that:
    by assigning to a part of it or, for data, by a call for the effect, such as ``table.append(1)``. A cell with an
    import among them is needed whole, for it sets things up. The statement in which the notebook chooses between the
    learner's ``name`` and the course's comes after the answer, and is left out. Where a name comes from nowhere that
    the syntax shows (a star import, a magic, ``exec``), it may come from anywhere: then everything is needed. A cell
    that is no Python cannot be taken apart, and may be the reason why a name is missing: None.
    """
    cells = [_read(source, name) for source in sources]
    statements = [statement for cell in cells for statement in cell or ()]
    bound = set().union(*(statement.binds for statement in statements))
    made = set().union(*(statement.makes for statement in statements))
    wanted, found = {name}, -1
    while found < len(wanted):
        found = len(wanted)
        data = (wanted & bound) - made - {name}
        needed = [_needed(cell or [], wanted, data) for cell in cells]
        for cell, positions in zip(cells, needed, strict=True):
            wanted = wanted.union(*(cell[position].uses for position in positions if cell))
    if wanted - _GIVEN <= bound:
        return [None if cell is None else positions for cell, positions in zip(cells, needed, strict=True)]
    return [None if cell is None else list(range(len(cell))) for cell in cells]


def _needed(cell: list[_Statement], wanted: set[str], data: set[str]) -> list[int]:
    needed = [
        position
        for position, statement in enumerate(cell)
        if not statement.chooses and (wanted & (statement.binds | statement.sets) or data & statement.calls)
    ]
    return list(range(len(cell))) if any(cell[position].imports for position in needed) else needed


def _read(source: str, name: str) -> list[_Statement] | None:
    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
        return [_names_in(node, name) for node in tree.body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names_in(node: ast.stmt, name: str) -> _Statement:
    code = ast.unparse(node)
    statement = _Statement(
        imports=isinstance(node, ast.Import | ast.ImportFrom), chooses=f"check.{name}.choose(" in code
    )
    outermost = symtable.symtable(code, "cell", "exec")
    for table in _tables(outermost):
        for symbol in table.get_symbols():
            if table is not outermost and not symbol.is_global():
                continue
            if symbol.is_imported() or symbol.is_namespace():
                statement.makes.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                statement.binds.add(symbol.get_name())
            if symbol.is_referenced():
                statement.uses.add(symbol.get_name())
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            statement.sets.add(_base(part))
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            statement.calls |= _touched(part.value)
    return statement


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _touched(call: ast.Call) -> set[str]:
    """Return the names that a call may change: whose method it is, and what it is given."""
    if isinstance(call.func, ast.Name) and call.func.id in _SHOW:
        return set()
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    owner = {_base(call.func)} if isinstance(call.func, ast.Attribute) else set()
    return owner | {value.id for value in given if isinstance(value, ast.Name)}


def _base(node: ast.AST) -> str:
    """Return the name at the root of ``name.attribute[item]``, or nothing."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
