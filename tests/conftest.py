"""What tests in several folders share: claims, a widget's functions in Node, processes in which
Triton is imported."""

from pathlib import Path

import pytest


@pytest.fixture
def in_browser(tmp_path):
    """Call a function of a widget's module with each of a list of argument lists."""
    from in_node import call_in_node
    from widget_states import MAKERS

    return lambda name, function, calls: call_in_node(
        tmp_path, MAKERS[name]()._esm, function, calls
    )


@pytest.fixture
def figures(tmp_path):
    """Return ``count`` random states of a widget, or the given ones, each with what its browser
    computes for it."""
    from in_node import call_in_node
    from widget_states import MAKERS, random_states

    def pairs(name, function, states):
        widget = MAKERS[name]()
        states = (
            list(random_states(name, states))
            if isinstance(states, int)
            else [widget.state | s for s in states]
        )
        calls = [[state, widget.data] for state in states]
        return list(
            zip(
                states,
                call_in_node(tmp_path, widget._esm, f"module.{function}", calls),
                strict=True,
            )
        )

    return pairs


@pytest.fixture(scope="session")
def interpreter():
    """A process in which Triton is imported with TRITON_INTERPRET=1: starting one takes seconds."""
    from triton_processes import imports_triton, process

    from course_utils import kernels

    for run in process(TRITON_INTERPRET="1", OMP_NUM_THREADS="1"):
        # not by the chapter or the package, which that imports
        assert not run(imports_triton, "chapters.c11_fused_kernels.exercises")
        assert run(kernels.available, "cpu")
        yield run


@pytest.fixture(scope="session")
def compiler(tmp_path_factory):
    """A process in which Triton compiles, into a cache of its own."""
    from triton_processes import process

    yield from process(
        TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton"))
    )


@pytest.fixture
def tried(monkeypatch):
    """Claims to test, of no chapter."""
    from tried_claims import TRIED

    from chapters.sources import links_in
    from course_utils import Claims, claims

    monkeypatch.setattr(claims, "load", lambda file: TRIED)
    return Claims(Path("claims.toml"), links_in)
