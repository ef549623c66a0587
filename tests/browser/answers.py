"""Answers to type into a notebook's stubs."""

import ast

from tools.notebooks import SOLUTION_SUFFIX


def with_check(exercise, code):
    """Return a learner's cell: ``code``, and the check that ends the stub."""
    name = exercise.names[0]
    return f"{code}\n\n\ncheck.{name}({name})"


def the_solution_as_the_learners_own(notebook, exercise):
    """Return the definitions of the folded solution under the names that the learner is asked
    for."""
    tree = ast.parse(notebook.cells[exercise.solution].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = node.name.removesuffix(SOLUTION_SUFFIX)
            node.decorator_list = []
        elif isinstance(node, ast.Name):
            node.id = node.id.removesuffix(SOLUTION_SUFFIX)
    kept = [node for node in tree.body if not _checks(node) and not _compares(node)]
    return "\n\n".join(ast.unparse(node) for node in kept)


def gives_back_its_argument(notebook, exercise):
    """Return the stub with a body that gives back its first argument: attempted, and wrong."""
    tree = ast.parse(notebook.cells[exercise.stub].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse(f"return {node.args.args[0].arg}").body
    return "\n\n".join(ast.unparse(node) for node in tree.body if not _checks(node))


def _compares(node):
    """Whether a line holds the solution against torch's own, or tells the answer."""
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(("verify.", "bugs."))


def _checks(node):
    """Whether a line checks, or picks whose version to go on with: no part of an answer."""
    return any(isinstance(part, ast.Name) and part.id == "check" for part in ast.walk(node))
