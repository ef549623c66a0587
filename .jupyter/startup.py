"""What a kernel of `make lab` says while a chapter's first cell loads what it needs, to an
interrupt, and to a cell that runs before those above it: one plain line."""


def _say_what_is_loaded(shell):
    import sys

    from IPython.display import clear_output, display

    def say(cell):
        if "course_utils.setup(" in cell.raw_cell and "torch" not in sys.modules:
            what = "PyTorch and transformers" if "transformers" in cell.raw_cell else "PyTorch"
            text = f"Loading {what}: some seconds, up to a minute the first time …"
            display({"text/plain": text}, raw=True)
            clear_output(wait=True)  # by what the cell prints at its end

    shell.events.register("pre_run_cell", say)


def _say_it_plainly(shell):
    import json
    import os
    import symtable
    from pathlib import Path

    def is_bound_by(name, source):
        try:
            symbol = symtable.symtable(source, "cell", "exec").lookup(name)
        except (KeyError, SyntaxError):
            return False
        return symbol.is_assigned() or symbol.is_imported()

    def is_of_this_notebook(name):
        try:
            notebook = json.loads(Path(os.environ["JPY_SESSION_NAME"]).read_text(encoding="utf-8"))
        except (KeyError, OSError, ValueError):
            return False
        code = (
            "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"
        )
        return any(is_bound_by(name, source) for source in code)

    def say(shell, kind, error, trace, tb_offset=None):
        if kind is KeyboardInterrupt:
            lines = [
                "Interrupted. What was computed before is kept; run the cell again when you like."
            ]
        elif kind is NameError and is_of_this_notebook(error.name):
            lines = [f"{error}: run the cells above first."]
        else:
            lines = shell.InteractiveTB.structured_traceback(
                kind, error, trace, tb_offset=tb_offset
            )
        shell._showtraceback(kind, error, lines)

    shell.set_custom_exc((KeyboardInterrupt, NameError), say)


if "get_ipython" in globals():
    _say_what_is_loaded(get_ipython())  # noqa: F821
    _say_it_plainly(get_ipython())  # noqa: F821
del _say_what_is_loaded, _say_it_plainly
