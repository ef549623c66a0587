"""Says what a wrong answer has to do with the right one, by the course's own relations.py.
MicroPython runs it."""

import json
import math
from array import array

import answer
from small_torch import Tensor, float64, torch


class _Tolerance:
    """What is still right, and how far apart two ways to write one mistake may be."""

    def __init__(self, relative, absolute):
        self.relative, self.absolute = relative, absolute

    def allowed(self, truth):
        finite = truth.abs()._map(lambda v: v if v < math.inf else 0.0)
        return self.relative * finite + self.absolute * finite.max().clamp_min(1.0)

    def between(self, example):
        return 2.5 * self.allowed(example)


class _Of:
    """Something with these attributes."""

    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)


def _zip(*several, strict=True):
    return zip(*several)


def _values(part, key):
    return Tensor(list(array("d", bytes.fromhex(part[key]))), part["shape"], float64)


def _comparison(seen):
    """What relations.py looks at of what an answer showed on a probe."""
    arguments = {name: answer._argument(value) for name, value in seen["arguments"].items()}
    tensors = {name: x.double() for name, x in arguments.items() if isinstance(x, Tensor)}
    call = _Of(tensors=lambda: list(tensors.items()), fresh=lambda double: tensors)
    parts = seen["parts"].items()
    return _Of(
        probe=_Of(call=call, **seen),
        expected=_Of(values={name: _values(part, "right") for name, part in parts}),
        observed=_Of(values={name: _values(part, "got") for name, part in parts}),
        tolerance=lambda name: _Tolerance(*seen["parts"][name]["tolerance"]),
        **seen,
    )


_names = {"torch": torch, "Tensor": Tensor, "zip": _zip}
_names.update({"_float": answer._float, "_int": answer._int})
with open("/relations.py") as file:
    exec(answer._in_our_words(file.read()), _names)


def words(seen):
    """Return as JSON the sentences on all wrong probes, and on those of the first wrong stage."""
    seen = [_comparison(each) for each in json.loads(seen)]
    right = [each for each in seen if each.passed]
    wrong = [each for each in seen if not each.passed]
    here = [each for each in wrong if each.stage == wrong[0].stage]
    told = {
        "plain": _names["plain_relation"](wrong, right),
        "factor": _names["factor_everywhere"](wrong),
    }
    told["everywhere"], told["here"] = [
        _names["relation"](each, right)[0] for each in (wrong, here)
    ]
    return json.dumps(told)
