"""Evidence can fail: what it is computed from is disturbed, one thing after the other, until it is
false.

``python tests/soak/disturbing.py NOTEBOOK`` runs a notebook. After a statement that tests a claim
it goes back, to that statement, to the one before it and so on, and runs on from there with the
value of an expression disturbed, wherever the same words stand: ``f(x) == f(x)`` stays true. Truth
values and written numbers stay, and an error is no verdict.
"""

import ast
import copy
import io
import linecache
import os
import signal
import sys
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from types import ModuleType
from unittest.mock import patch

import numpy as np
import torch

from course_utils import claims

BACK = 40  # statements
# the strictest first
KINDS = (
    ("factors",),
    ("earlier 1", "earlier 2", "earlier 3", "places"),
    ("one more", "nothing"),
)
ROUNDS = [(limit_s, kinds) for limit_s in (5, 120) for kinds in KINDS]  # seconds


def changed(kind, past, rng, value):
    """Return a tensor of other numbers, such as another computation would give, or ``value`` where
    there is none."""
    is_whole = not (value.is_floating_point() or value.is_complex())
    if kind == "factors":  # within the margin of a threshold: an error of 1e-16 stays one
        return (
            value
            if is_whole
            else value * torch.as_tensor(rng.uniform(0.6, 1.6, value.shape)).to(value)
        )
    if kind == "places":
        order = torch.as_tensor(rng.permutation(value.numel()))
        return value.flatten()[order].view(value.shape) if value.numel() > 1 else value
    if kind == "one more":
        return value + 1 if is_whole else value
    if kind == "nothing":
        return torch.zeros_like(value)
    like = [
        one
        for one in past
        if (one.shape, one.dtype) == (value.shape, value.dtype) and not torch.equal(one, value)
    ]
    # of its size: no rounding error's
    like = [one for one in like if 0.1 < one.abs().max() / value.abs().max() < 10]
    # so what is claimed to differ may agree
    return like[-int(kind[-1])] if len(like) >= int(kind[-1]) else value


def _changer(kind, past):
    return partial(changed, kind, past, np.random.default_rng(0))


def _are_equal(one, other):
    both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return both and (one.shape, one.dtype) == (other.shape, other.dtype) and torch.equal(one, other)


def disturbed(change, value):
    """Return ``value`` with ``change`` made to every tensor, array and number in it; itself where
    nothing changes."""
    if isinstance(value, torch.Tensor):
        return value if value.dtype is torch.bool or not value.numel() else change(value)
    if isinstance(value, torch.nn.Module) and any(True for _ in value.parameters()):
        value = copy.deepcopy(value)
        for parameter in value.parameters():
            parameter.data = change(parameter.data)
    if isinstance(value, np.ndarray | np.generic):
        return (
            change(torch.as_tensor(value)).numpy()[()]
            if value.dtype.kind in "ifc" and value.size
            else value
        )
    if isinstance(value, int | float | complex) and not isinstance(value, bool):
        number = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        return value if (new := change(number)) is number else new.item()
    if type(value) in (list, tuple):
        parts = [disturbed(change, one) for one in value]
        return (
            type(value)(parts)
            if any(new is not old for new, old in zip(parts, value, strict=True))
            else value
        )
    if type(value) is dict:
        parts = disturbed(change, old := [*value.values()])
        return value if parts is old else dict(zip(value, parts, strict=True))
    return value


class Sites(ast.NodeTransformer):
    """Hand each value that a statement reads or computes to ``_disturb_``, with its words; but not
    what is called."""

    def visit(self, node):
        words = ast.unparse(node) if isinstance(node, ast.expr) else ""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node.func.value = self.visit(node.func.value)
            node.args, node.keywords = (
                [self.visit(one) for one in part] for part in (node.args, node.keywords)
            )
        elif not isinstance(node, ast.JoinedStr | ast.arguments):
            self.generic_visit(node)
        is_read = isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(
            node.ctx, ast.Load
        )
        if words == "super()" or not (is_read or isinstance(node, ast.Call)):
            return node
        return ast.Call(ast.Name("_disturb_", ast.Load()), [ast.Constant(words), node], [])


class Disturber:
    """Runs cells in ``space`` and tells what makes each claim false: the words of the expression,
    and the kind."""

    def __init__(self, space):
        self.space, self.steps, self.tested, self.false = space, [], set(), set()
        self.site, self.past, self.seen = ("", ""), [], {}

    def run(self, source):
        """Run a cell; yield the key of each claim in it with what makes it false, with no words
        where nothing does."""
        name, test, self.space["_disturb_"] = (
            f"<cell {len(linecache.cache)}>",
            claims.Claims.test,
            self.value,
        )
        linecache.cache[name] = len(source), None, source.splitlines(True), name

        def note(own, key, *args, **named):
            self.tested.add(key)
            try:
                test(own, key, *args, **named)
            except AssertionError:
                self.false.add(key)

        with patch.object(claims.Claims, "test", note), patch.object(claims, "_show"):
            for node in ast.parse(source).body:
                before, start, self.tested = self.copied(), time.monotonic(), set()
                exec(compile(ast.Module([node], []), name, "exec"), self.space)
                assert not self.false, f"false as it stands: {self.false}"
                self.steps = [*self.steps[-BACK:], (node, name, before, time.monotonic() - start)]
                after = dict(self.space)
                yield from self.attack(set(self.tested))
                self.space.clear()
                self.space.update(after)

    def attack(self, left):
        """Disturb what led to the claims ``left``, the nearest first, until each of them was false
        once."""
        for limit_s, kinds in ROUNDS:
            end, seconds = time.monotonic() + limit_s, 0.0
            for k in reversed(range(len(self.steps))):
                seconds += self.steps[k][-1]
                if not left or time.monotonic() + 2 * seconds > end:
                    break
                self.seen = {}
                # false undisturbed: a cell changed something in place
                unsteady = self.again(k, ("", ""), seconds)
                for (words, value), kind in [
                    (one, kind) for one in [*self.seen.items()][::-1] for kind in kinds
                ]:
                    if left <= unsteady or time.monotonic() > end:
                        break
                    is_tensor = isinstance(value, torch.Tensor)
                    if (
                        is_tensor
                        if "earlier" in kind
                        else disturbed(_changer(kind, ()), value) is not value
                    ):
                        found = self.again(k, (words, kind), seconds) & left - unsteady
                        left = left - found
                        yield from ((key, words, kind) for key in found)
        yield from ((key, "", "") for key in left)

    def again(self, k, site, seconds):
        """Run on from step ``k`` with a site of its statement disturbed; return the claims that are
        false then."""
        (node, name, before, _), *others = self.steps[k:]
        self.space.clear()
        self.space.update(before)
        self.space.update(self.copied())
        self.false, self.past, self.site, self.swapped = set(), [], site, (None, None)
        node = ast.fix_missing_locations(Sites().visit(copy.deepcopy(node)))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(60 + int(30 * seconds))  # a disturbed loop may have no end
        with suppress(Exception, SystemExit, KeyboardInterrupt):
            for one, file in [(node, name), *(step[:2] for step in others)]:
                exec(compile(ast.Module([one], []), file, "exec"), self.space)
        signal.alarm(0)
        found, self.false, self.site = self.false, set(), ("", "")
        return found

    def value(self, words, value):
        """Stand between an expression and its value."""
        self.seen.setdefault(words, value)
        if words == self.site[0]:
            if not _are_equal(value, self.swapped[0]):  # where they are, it is disturbed as it was
                self.swapped = value, disturbed(_changer(self.site[1], self.past), value)
            return self.swapped[1]
        if isinstance(value, torch.Tensor) and value.dtype is not torch.bool and value.numel() > 1:
            self.past = [*self.past[-30:], value]
        return value

    def copied(self):
        return {
            name: copy.copy(one) if type(one) in (list, dict, set) else one
            for name, one in self.space.items()
        }


def main(path):
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports it, for chapter 11
    import nbformat
    from IPython.display import display
    from matplotlib import pyplot
    from torch import _dynamo  # noqa: F401 (now: a run that is ended while it imports would leave half of it)

    warnings.simplefilter("ignore")
    screen, sys.modules["__main__"] = sys.stdout, ModuleType("__main__")
    disturber = Disturber(sys.modules["__main__"].__dict__)
    disturber.space["display"] = display
    for cell in nbformat.read(path, as_version=4).cells:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            for key, words, kind in disturber.run(cell.source) if cell.cell_type == "code" else ():
                print(
                    f"{key}: {f'false by {kind} in {words}' if words else 'NEVER FALSE'}",
                    file=screen,
                    flush=True,
                )
        pyplot.close("all")


if __name__ == "__main__":
    main(sys.argv[1])
