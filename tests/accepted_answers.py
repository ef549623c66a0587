"""Right answers in forms that nobody expects and every check accepts."""

import inspect

from chapters import check
from course_utils.check.functions import argument_names

# the other convention of rope, the one exercise that has one
NEIGHBOURS = """import torch

TYPE = torch.float64

def rope(x, positions, base=10_000.0, dtype=TYPE):
    dim = x.shape[-1]
    f = base ** (-torch.arange(0, dim, 2, dtype=dtype) / dim)
    angles = positions.double()[:, None] * f
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    a, b = x.to(wide)[..., ::2], x.to(wide)[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)
"""
# Every check takes other names and places of arguments, a list for a tuple, any real number for a
# number, a module for a function, and any dtype where that is free.
FORMS = {
    "doubles": """import numpy

def in_form(value):
    if isinstance(value, tuple):
        return [in_form(part) for part in value]
    if isinstance(value, int | float):
        return numpy.float64(value)
    return value.double() if FREE and value.is_floating_point() else value

def NAME(OWN, *, BACKWARDS):
    return in_form(check.NAME.oracle(OWN, PASSED))
""",
    "singles": """class Answer(torch.nn.Module):
    def forward(self, OWN, DEFAULTS):
        return self.in_form(check.NAME.oracle(OWN, PASSED))

    def in_form(self, value):
        if isinstance(value, tuple):
            return [self.in_form(part) for part in value]
        if isinstance(value, int | float):
            return torch.tensor(value, dtype=torch.float64)
        return value.float() if FREE and value.is_floating_point() else value

NAME = Answer()
""",
}
# Kernels are compiled from what is written, judged exercises have no oracle, and Triton takes a
# number of warps as Python's alone.
IN_FORMS = [
    name
    for name, each in check.items()
    if not each.exercise.judge and not each.exercise.interpreter and name != "warps_for"
]


def in_form(name, form):
    """Return an answer as a learner's cell: the oracle of an exercise in one of ``FORMS``."""
    exercise = check[name].exercise
    required, optional = argument_names(exercise.oracle)
    parameters = inspect.signature(exercise.oracle).parameters
    own = ", ".join(f"my_{argument}" for argument in required)
    defaults = [f"{argument}={parameters[argument].default!r}" for argument in optional]
    parts = {
        "OWN, *, BACKWARDS": f"{own}, *, {', '.join(reversed(defaults))}" if optional else own,
        "OWN, DEFAULTS": ", ".join([own, *defaults]),
        "OWN, PASSED": ", ".join([own, *(f"{argument}={argument}" for argument in optional)]),
        # which must not round: its check says why
        "FREE": repr(exercise.any_dtype and name != "merge_moments"),
        "NAME": name,
    }
    source = FORMS[form]
    for part, text in parts.items():
        source = source.replace(part, text)
    return source
