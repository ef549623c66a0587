"""Chapter 20: rows that tell layers apart, and the two layers between Clay's and PyTorch's."""

from chapters.c20_on_trial import telling
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Tolerance, read_probes

__all__ = ["one_at_a_time", "telling_rows"]

telling_rows = Exercise("telling_rows", telling.telling_rows, judge=telling.Judge("telling_rows"))


def _one_at_a_time(x, eps):
    centred = x - x.mean(-1, keepdim=True)
    std = x.std(-1, correction=0, keepdim=True)
    variance = x.var(-1, correction=0, keepdim=True)
    with_std = centred / (std.square() + eps).sqrt()
    eps_outside = centred / (variance.sqrt() + eps)
    return with_std, eps_outside


one_at_a_time = Exercise(
    "one_at_a_time",
    _one_at_a_time,
    read_probes(__file__, "one_at_a_time", tolerance=Tolerance(1e-4, 1e-5)),
    load("one_at_a_time", _one_at_a_time),
    returns=("with_std", "eps_outside"),
)
