"""Exercise checks and the catalogue of known mistakes.

    from course_utils import check

    check.layer_norm(my_layer_norm)                    # a Report: shows itself, and is true when the function passed
    check.layer_norm.catalogue                         # the known mistakes
    layer_norm = check.layer_norm.choose(mine, the_course_s)

A learner's function is held against torch's in float64 on inputs chosen so that each known mistake gives itself away
by what it returns, whatever its source looks like.

    exercise      Check: tries the probes, explains the first stage that fails
    calls         a call of the learner's function, and a probe: a call with the reason for it
    observation   what a call shows: outputs, updated arguments, gradients, or a finding that stands in the way
    compared      that, held against the truth and against the examples of the catalogue
    smallest      the search for the smallest input that shows a failure
    report        what the learner reads
    sandbox       a call that cannot hang, flood, or change the process
    mistakes      the catalogue
    *_check       the checks: an oracle, its probes and its catalogue

A new exercise is data: a function that is right (its signature is the contract), probes in the order of what they look
at, and a catalogue whose examples the tests run.
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
