"""The exercises, a module a chapter: right answers, probes, and beside each in NAME.toml what is known to go wrong."""

from course_utils import yours
from course_utils.bugs.judge import FIND_BUG
from course_utils.check.engine import Checks
from course_utils.check.exercises.backward import (
    backward_steps,
    batch_norm_backward,
    layer_norm_backward,
    rms_norm_backward,
)
from course_utils.check.exercises.batch_norm import batch_norm
from course_utils.check.exercises.centre import centre
from course_utils.check.exercises.choose_and_report import choose_and_report
from course_utils.check.exercises.costs import norm_bytes, predicted_ms, to_keep
from course_utils.check.exercises.critical_dimension import critical_dimension
from course_utils.check.exercises.ema import ema
from course_utils.check.exercises.group_instance_rms_norm import group_norm, instance_norm, rms_norm
from course_utils.check.exercises.kernels import norm_backward_kernel, norm_kernel, rope_kernel
from course_utils.check.exercises.largest_error import largest_error
from course_utils.check.exercises.layer_norm import layer_norm
from course_utils.check.exercises.linear_scan import linear_scan
from course_utils.check.exercises.merge_moments import merge_moments, sync_backward
from course_utils.check.exercises.normalize import normalize
from course_utils.check.exercises.rope import half_to_interleaved, rope
from course_utils.check.exercises.rope_scaling import (
    ntk_inv_freq,
    plain_frequencies,
    rope_frequencies,
    yarn_frequencies,
)
from course_utils.check.exercises.sink_softmax import sink_softmax
from course_utils.check.exercises.sinusoidal import alibi_slopes, sinusoidal

__all__ = ["CHECKS"]

CHECKS = Checks(
    *(centre, normalize, layer_norm, batch_norm, ema),
    *(backward_steps, layer_norm_backward, batch_norm_backward, rms_norm_backward),
    *(group_norm, instance_norm, rms_norm, choose_and_report, merge_moments, sync_backward),
    *(norm_bytes, predicted_ms, to_keep, norm_kernel, norm_backward_kernel, rope_kernel, linear_scan),
    *(sinusoidal, alibi_slopes, rope, half_to_interleaved),
    *(ntk_inv_freq, yarn_frequencies, plain_frequencies, rope_frequencies, critical_dimension),
    *(sink_softmax, largest_error, *FIND_BUG),
    on_report=yours.note,
)
