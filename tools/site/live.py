"""Widgets that answer without a kernel: their JavaScript beside the page, their state and data in
it."""

import ast
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from nbformat import NotebookNode

from tools.notebooks import parse_code

__all__ = ["live_html", "make_live"]

_EXPORTS = re.compile(r"^export \{[^}]*\};$", re.MULTILINE)


def make_live(cell: NotebookNode, scripts: Path, widgets: ModuleType) -> None:
    """Let the widget that ends ``cell`` be drawn by its own JavaScript, in place; see
    ``live_html``.

    ``widgets`` is what the notebook calls so."""
    widget = _widget_of(cell.source, widgets)
    for output in cell.outputs if widget is not None else ():
        if picture := output.get("data", {}).get("text/html"):
            output.data["text/html"] = live_html(widget, picture, scripts, "../_static")


def live_html(widget: Any, picture: str, scripts: Path, address: str) -> str:
    """Return the HTML of a widget that needs no kernel, and put its JavaScript into ``scripts``.

    Args:
        widget: a widget of the course.
        picture: the HTML that stands in its place where no JavaScript runs.
        scripts: the folder of the page's scripts.
        address: the folder's address, seen from the page.
    """
    name = type(widget).__name__.strip("_")
    # a page that is read from a file may not load modules: a script, whose names are its own
    module = _EXPORTS.sub("", str(widget._esm))
    module = module.replace("export default ", f'courseWidgets["{name}"] = ')
    (scripts / f"{name}.js").write_text(f"(() => {{\n{module}}})();\n", encoding="utf-8")
    data = {**widget.data, **widget.without_kernel()}
    values = json.dumps({"state": widget.state, "data": data}, ensure_ascii=False).replace(
        "</", "<\\/"
    )
    values = values.replace(".ipynb#", ".html#")
    return (
        f'<div class="course-live" data-widget="{name}"><style>{widget._css}</style>'
        f'<div class="course-picture">{picture}</div><script '
        f'type="application/json">{values}</script></div>'
        f'<script defer src="{address}/{name}.js"></script>'
    )


def _widget_of(source: str, widgets: ModuleType) -> Any:
    """Return the widget that a cell ends in, made anew from the arguments that are written out;
    None without one."""
    body = (parse_code(source) or ast.Module([], [])).body
    call = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    if isinstance(call, ast.Name):  # w = widgets.…(), and w
        named = {ast.unparse(s.targets[0]): s.value for s in body if isinstance(s, ast.Assign)}
        call = named.get(call.id)
    if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("widgets."):
        return None
    written = [ast.literal_eval(arg) for arg in call.args if _is_written_out(arg)]
    keywords = {
        kw.arg: ast.literal_eval(kw.value)
        for kw in call.keywords
        if kw.arg and _is_written_out(kw.value)
    }
    return getattr(widgets, ast.unparse(call.func).removeprefix("widgets."))(*written, **keywords)


def _is_written_out(node: ast.expr) -> bool:
    """Whether an argument is a literal; a measured machine, say, is not, and the recorded one
    stands in for it."""
    return not any(isinstance(part, ast.Name) for part in ast.walk(node))
