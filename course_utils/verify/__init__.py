"""Mine against reference, and what a layer of anybody's computes (used in all chapters).

comparison       ``compare``: outputs, gradients, buffers, each held against float64
cases            the awkward inputs
adapter          other names and other axes
diagnosis        ``diagnose``: the conventions of a layer, found by calling it
subject          a layer that is called on copies, and what its parameters do
norm_probes      the questions asked of a norm
position_probes  the questions asked of a rotation, a bias, a code
command          ``course diagnose`` on the command line
"""

from course_utils.rooms import submodules
from course_utils.verify.cases import Case, cases_for, rotation_cases
from course_utils.verify.comparison import (
    DTYPES,
    Comparison,
    Line,
    assert_close,
    compare,
    max_error,
)
from course_utils.verify.diagnosis import diagnose
from course_utils.verify.subject import Diagnosis

__all__ = [
    "DTYPES",
    "Case",
    "Comparison",
    "Diagnosis",
    "Line",
    "assert_close",
    "cases_for",
    "compare",
    "diagnose",
    "max_error",
    "rotation_cases",
]

__getattr__ = submodules(__name__)
