"""Says whether an input shows what is wrong with a piece of chapter 21, in the words of its check
there (reply.py). MicroPython runs it.

What is right is found by the piece without its bug, in float64.
"""

import json
import math
import sys
from collections import OrderedDict

import answer
from small_torch import NotHere, Tensor, torch

sys.modules["torch"] = torch
import reply  # noqa: E402


class _Off:
    """How far a piece is from the right answer, where it is furthest."""

    def __init__(self, got, right, tolerance):
        shape = right.shape
        got, right = [each.double().flatten() for each in (got, right)]
        errors = [math.inf if e != e else e for e in (got - right).abs().tolist()]
        at = max(range(len(errors)), key=lambda i: errors[i])
        self.error, self.got, self.right = errors[at], got[at].item(), right[at].item()
        self.ratio = self.error / (tolerance * max([1.0] + right.abs().tolist()))
        self.place = []
        for n in reversed(shape):
            self.place.insert(0, at % n)
            at //= n

    def message(self):
        return reply.what_is_off(self.place, self.got, self.right)


class _Piece:
    """A piece of chapter 21, as it stands and without its bug."""

    is_clean = False

    def __init__(self, data):
        for name in ("near", "unanswerable", "arguments", "limits", "ordinary"):
            data[name] = OrderedDict(data[name])  # a dict has no order here
        self.near, self.data = data["near"], data
        self.broken, self.mended = [self._function(data[key]) for key in ("source", "mended")]

    def _function(self, source):
        names = {}
        exec(source, names)
        return names[self.data["function"]]

    def ordinary(self):
        pairs = self.data["ordinary"].items()
        return OrderedDict([(name, answer._argument(value)) for name, value in pairs])

    def usual_ratio(self):
        return self.data["usual_ratio"]

    def differences(self, arguments):
        """How far off it is, and how far without its bug."""
        exact = {
            name: value.double() if isinstance(value, Tensor) else value
            for name, value in arguments.items()
        }
        right, within = self.mended(**exact), self.data["tolerance"]
        return [_Off(f(**arguments), right, within) for f in (self.broken, self.mended)]


def _say_of(piece, changes):
    """Whether an answer of the learner's shows what is wrong with a piece, and what is said."""
    data = piece.data
    if isinstance(changes, list):
        return False, "Not clean: some input shows a bug. Return one that does, as a dictionary."
    if not isinstance(changes, dict):
        example, kind = next(iter(data["arguments"])), type(changes).__name__
        wanted = f'a dictionary of arguments, as {{"{example}": …}}'
        return False, f"It must return {wanted}: got {kind}."
    arguments = piece.ordinary()
    arguments.update(changes)
    limits = data["limits"]
    axes = {name: limit.get("axes") for name, limit in limits.items()}
    allowed = lambda name, value: reply.fits(limits[name], value)  # noqa: E731
    if wrong := reply.complaint(data["arguments"], allowed, axes, data["sizes"], arguments):
        return False, "No input of this piece. " + wrong
    if wrong := reply.first_that_holds(data["unanswerable"], arguments):
        return False, f"This input has no right answer to compare with: {wrong}."
    if not reply.changed(arguments, piece.ordinary()):
        return False, reply.ORDINARY
    broken, mended = piece.differences(arguments)
    if said := reply.reply_to(piece, arguments, broken, mended, piece.usual_ratio):
        return False, said
    return True, f"On your input, {broken.message()}."


_made = {}


def make(data):
    """Have the answer make its input for a piece of chapter 21; returns JSON, with what is said
    where that fails."""
    piece = _Piece(json.loads(data))
    try:
        changes = answer._job["function"](piece.ordinary())
    except Exception as error:
        place = answer._line(error)
        kind = "" if isinstance(error, NotHere) else f"{type(error).__name__}: "
        words = f"{kind}{error}" + (f", line {place}" if place else "")
        return json.dumps({"passed": False, "message": f"Making the input fails: {words}."})
    _made.update({"piece": piece, "changes": changes})
    return "{}"


def judge(_):
    """Judge the input that was made; returns JSON."""
    passed, message = _say_of(_made["piece"], _made["changes"])
    return json.dumps({"passed": passed, "message": message})
