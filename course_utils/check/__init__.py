"""Exercise checks and the catalogue of known mistakes.

    from course_utils import check

    check.layer_norm(my_layer_norm)                    # a Report: shows itself, and is true when the function passed
    check.layer_norm.catalogue                         # the known mistakes
    layer_norm = check.layer_norm.choose(mine, the_course_s)

A learner's function is held against torch's in float64 on inputs chosen so that each known mistake gives itself away
by what it returns, whatever its source looks like.
"""

from course_utils.check.batch_norm_check import batch_norm
from course_utils.check.exercise import Check
from course_utils.check.first_steps_check import centre, normalize
from course_utils.check.group_norm_check import group_norm
from course_utils.check.instance_norm_check import instance_norm
from course_utils.check.layer_norm_check import layer_norm
from course_utils.check.mistakes import Catalogue, Mistake
from course_utils.check.report import Report
from course_utils.check.rms_norm_check import rms_norm

__all__ = [
    "Catalogue",
    "Check",
    "Mistake",
    "Report",
    "batch_norm",
    "centre",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "normalize",
    "rms_norm",
]
