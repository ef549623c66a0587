"""What a kernel of `make lab` says while a chapter's first cell loads what it needs, to an
interrupt, and to a cell that runs before those above it: one plain line. And what it gives back."""


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
            is_folded = error.name.endswith("_solution")
            what = (
                "the folded solution above (click the line with the dots)"
                if is_folded
                else "the cells above first"
            )
            lines = [f"{error}: run {what}."]
        else:
            lines = shell.InteractiveTB.structured_traceback(
                kind, error, trace, tb_offset=tb_offset
            )
        shell._showtraceback(kind, error, lines)

    shell.set_custom_exc((KeyboardInterrupt, NameError), say)


def _give_memory_back(shell):
    """After each cell, what it freed goes back to the system, which GNU's C library would keep:
    several chapters may be open, and chapter 10 would hold a gigabyte."""
    import ctypes
    import sys

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        shell.events.register("post_run_cell", lambda result: trim(0))


if "get_ipython" in globals():
    _say_what_is_loaded(get_ipython())  # noqa: F821
    _say_it_plainly(get_ipython())  # noqa: F821
    _give_memory_back(get_ipython())  # noqa: F821
del _say_what_is_loaded, _say_it_plainly, _give_memory_back
