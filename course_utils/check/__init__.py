"""Exercise checks and the catalogue of known mistakes.

    from course_utils import check

    check.layer_norm(my_layer_norm)                    # a Report: shows itself, and is true when the function passed
    check.layer_norm.catalogue                         # the known mistakes
    layer_norm = check.layer_norm.choose(mine, the_course_s)

A learner's function is held against torch's in float64 on inputs chosen so that each known mistake gives itself away
by what it returns, whatever its source looks like.

    engine      Check: tries the probes, names what explains each stage that fails, looks for the smallest input
    observe     what a call shows, held against the truth and against the examples of the catalogue
    probes      a call, a probe (a call with the reason for it), and how far off is too far
    catalogue   the known mistakes, as edits of the right function
    smallest    the search for the smallest input that shows a failure
    report      what the learner reads
    sandbox     a call that ends in time and leaves the process as it was
    yours       the answers that passed, kept for later chapters
    exercises   by subject: right answers, probes, the checks; mistakes/NAME.toml: what is known to go wrong

A new exercise is a function that is right (its signature is the contract), probes in the order of what they look at,
and a catalogue whose examples the tests run.
"""

from course_utils.check.catalogue import Mistake
from course_utils.check.engine import Check
from course_utils.check.exercises.backward import (
    backward_steps,
    batch_norm_backward,
    layer_norm_backward,
    rms_norm_backward,
)
from course_utils.check.exercises.channels import batch_norm, group_norm, instance_norm
from course_utils.check.exercises.costs import norm_bytes, predicted_ms, to_keep
from course_utils.check.exercises.find_bug import FIND_BUG
from course_utils.check.exercises.from_parts import ema, linear_scan, merge_moments, sync_backward
from course_utils.check.exercises.kernels import norm_backward_kernel, norm_kernel, rope_kernel
from course_utils.check.exercises.largest_error import largest_error
from course_utils.check.exercises.positions import alibi_slopes, half_to_interleaved, rope, sinusoidal
from course_utils.check.exercises.reporting import choose_and_report
from course_utils.check.exercises.rope_scaling import (
    critical_dimension,
    ntk_inv_freq,
    plain_frequencies,
    rope_frequencies,
    yarn_frequencies,
)
from course_utils.check.exercises.sinks import sink_softmax
from course_utils.check.exercises.trailing import centre, layer_norm, normalize, rms_norm
from course_utils.check.report import Report
from course_utils.rooms import submodules

input_a, input_b, input_c, input_d, input_e, input_f, input_g = FIND_BUG[:7]
input_h, input_i, input_j, input_k, input_l, input_m, input_n = FIND_BUG[7:]

__all__ = [
    "Check", "Mistake", "Report", "alibi_slopes", "backward_steps", "batch_norm", "batch_norm_backward", "centre",
    "choose_and_report", "critical_dimension", "ema", "group_norm", "half_to_interleaved", "input_a", "input_b",
    "input_c", "input_d", "input_e", "input_f", "input_g", "input_h", "input_i", "input_j", "input_k", "input_l",
    "input_m", "input_n", "instance_norm", "largest_error", "layer_norm", "layer_norm_backward", "linear_scan",
    "merge_moments", "norm_backward_kernel", "norm_bytes", "norm_kernel", "normalize", "ntk_inv_freq",
    "plain_frequencies", "predicted_ms", "rms_norm", "rms_norm_backward", "rope", "rope_frequencies", "rope_kernel",
    "sink_softmax", "sinusoidal", "sync_backward", "to_keep", "yarn_frequencies",
]  # fmt: skip

__getattr__ = submodules(__name__)
