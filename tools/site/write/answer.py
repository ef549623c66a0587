"""Calls an answer on inputs, and says what came of each call, in JSON. MicroPython runs it.

The page sends ``{"source", "name", "required"}``, and then calls, one at a time: memory is swept
between two of them alone. An argument is a number, a text, None, or a list of
what it is and what it holds: ``["tensor", dtype, shape, strides, values]``, ``["tuple", …]``,
``["double", values]`` for a number that is not whole, ``["moments", …]``. Values are hexadecimal:
MicroPython's base64 takes a second for a thousand.
"""

import io
import json
import math
import sys
from array import array

import small_torch
from small_torch import Tensor, torch


class Moments:
    """Count, mean and M2, as in the course."""

    def __init__(self, count, mean, m2):
        self.count, self.mean, self.m2 = count, mean, m2

    def __iter__(self):
        return iter((self.count, self.mean, self.m2))

    def __getitem__(self, index):
        return tuple(self)[index]

    def variance(self, correction=0):
        return self.m2 / torch.as_tensor(self.count - correction).clamp(min=0)


def rope_inv_freq(dim, base=10_000.0):
    """The frequencies of chapter 14, (dim/2,), in float64."""
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def _bit_length(number):
    return len(bin(abs(number))) - 2 if number else 0


def _float(value):
    return float(value.item() if isinstance(value, Tensor) else value)


def _int(value, *base):
    return int(value.item() if isinstance(value, Tensor) else value, *base)


def _is_of_name(letter):
    return letter.isalpha() or letter.isdigit()


def _in_our_words(source):
    """What MicroPython's own numbers lack, as functions: ``bit_length``, and ``float`` and ``int``
    of a tensor (a ``__float__`` would make numbers of sums, an ``__int__`` counts, too)."""
    end = source.find(".bit_length()")
    while end >= 0:
        start, depth = end, 0
        while start and (depth or source[start - 1] in ")]_." or _is_of_name(source[start - 1])):
            start -= 1
            depth += (source[start] in ")]") - (source[start] in "([")
            if not depth and source[start] == "(":
                break
        call = f"_bit_length({source[start:end]})"
        source = source[:start] + call + source[end + len(".bit_length()") :]
        end = source.find(".bit_length()")
    for call in ("float(", "int("):
        parts = source.split(call)
        for i, part in enumerate(parts[:-1]):
            before = part[-1:]
            parts[i] = part + ("" if before in (".", "_") or _is_of_name(before) else "_") + call
        source = "".join(parts)
    return source


class _Math:
    """``math``, with what MicroPython's lacks."""


_math = _Math()
for _name in dir(math):
    setattr(_math, _name, getattr(math, _name))
_math.prod = small_torch._size


def _install():
    """Let an answer import torch and math."""
    modules = {"torch": torch, "math": _math, "torch.nn": torch.nn}
    modules["torch.nn.functional"] = torch.nn.functional
    for name, module in modules.items():
        sys.modules[name] = module


def _argument(coded):
    if not isinstance(coded, list):
        return coded
    kind, *rest = coded
    if kind == "double":
        return array("d", bytes.fromhex(rest[0]))[0]
    if kind == "tensor":
        name, shape, strides, text = rest
        values = list(array("d" if name in ("float64", "int64") else "f", bytes.fromhex(text)))
        dtype = getattr(torch, name)
        if dtype is torch.int64:
            values = [int(v) for v in values]
        return Tensor(values, tuple(shape), dtype, tuple(strides))
    parts = [_argument(each) for each in rest]
    return tuple(parts) if kind == "tuple" else Moments(*parts)


def _numbers(values):
    return bytes(array("d", [float(v) for v in values])).hex()


def _part(value):
    if isinstance(value, Tensor):
        return [value.dtype.name, list(value.shape), _numbers(value._values())]
    if isinstance(value, (int, float)) and not isinstance(value, complex):
        return ["", [], _numbers([value])]
    return type(value).__name__ if value is not ... else "ellipsis"


def _state(value):
    """What must be the same after a call; of an empty part nothing must."""
    if isinstance(value, Moments):
        return value.count.item() and [_state(part) for part in value]
    return [list(value.shape), value._values()] if isinstance(value, Tensor) else value


def _same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all([_same(x, y) for x, y in zip(a, b)])
    return a == b or (a != a and b != b)


def _line(error):
    """Where in the answer an error arose."""
    text = io.StringIO()
    sys.print_exception(error, text)
    line = 0
    for part in text.getvalue().split("\n"):
        if 'File "yours.py", line ' in part:
            line = int(part.split("line ")[1].split(",")[0])
    return line


def _error(error):
    kind, message = type(error).__name__, str(error)
    if message == "pystack exhausted":
        kind, message = "RecursionError", "maximum recursion depth exceeded"
    return {"error": kind, "message": message, "line": _line(error)}


def _cannot_be_read(error):
    """An error of a text that was not run; MicroPython's own words for a star are no help."""
    told = _error(error)
    if "*x must be" in told["message"]:
        told["message"] = "this page has no star inside a tuple or list, as (a, *b); JupyterLab has"
    return told


def _call(function, coded, names, printed):
    """What one call gives: ``parts``, ``changed``, or an ``error``."""
    arguments = {name: _argument(value) for name, value in coded.items()}
    before = {name: _state(value) for name, value in arguments.items()}
    required = [arguments.pop(name) for name in names if name in arguments]
    all_arguments = dict(zip([n for n in names if n in before], required))
    all_arguments.update(arguments)
    del printed[:]
    try:
        value = function(*required, **arguments)
    except Exception as error:
        return _error(error)
    parts = list(value) if isinstance(value, (tuple, list, Moments)) else [value]
    changed = {}
    for name, argument in all_arguments.items():
        after = _state(argument)
        if before[name] and not _same(after, before[name]):
            is_tensor = isinstance(argument, Tensor)
            changed[name] = [after[0], _numbers(after[1])] if is_tensor else None
    kind = "tuple" if isinstance(value, Moments) else type(value).__name__
    return {"kind": kind, "parts": [_part(part) for part in parts], "changed": changed}


_job = {}


def load(job):
    """Take an answer in: run its text. Returns JSON, with an error where there is one."""
    job = json.loads(job)
    printed = []

    def note(*values, sep=" ", end="\n", file=None):
        printed.extend(sep.join([str(value) for value in values]).split("\n"))

    _install()
    names = {"torch": torch, "math": _math, "F": torch.nn.functional, "nn": torch.nn}
    names.update({"Tensor": Tensor, "Moments": Moments, "rope_inv_freq": rope_inv_freq})
    names.update({"print": note, "_bit_length": _bit_length, "_float": _float, "_int": _int})
    try:
        exec(compile(_in_our_words(job["source"]), "yours.py", "exec"), names)
    except Exception as error:
        return json.dumps(_cannot_be_read(error))
    function = names.get(job["name"])
    if not callable(function):
        message = f"there is no function named {job['name']}"
        return json.dumps({"error": "NameError", "message": message, "line": 0})
    _job.update({"function": function, "required": job["required"], "printed": printed})
    return "{}"


def call(coded):
    """Call the answer that was taken in; returns what came of it as JSON."""
    result = _call(_job["function"], json.loads(coded), _job["required"], _job["printed"])
    result["printed"] = _job["printed"][:8]
    return json.dumps(result)
