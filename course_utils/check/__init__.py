"""Exercise checks and the catalogue of known mistakes.

    check = Checks(exercise, another)
    check.layer_norm(my_layer_norm)                    # a Report: shows itself, and is true when
                                                       the function passed
    check.layer_norm.catalogue                         # the known mistakes
    layer_norm = check.layer_norm.choose(mine, the_course_s)

A learner's function is held against torch's in float64 on inputs chosen so that each known mistake
gives itself away by what it returns, whatever its source looks like.

    exercise    what is asked, what is right, what to try, what is known to go wrong: data
    runner      calls a function on the probes, and looks at what comes of it
    diagnosis   which known mistakes show the same
    engine      the three together, and the walk of one wrong answer through them: begin there
    functions   what can be told of a function before it is called
    probes      a call, a probe (a call with the reason for it), and how far off is too far
    comparison  what a call shows beside what is right, and beside the example of a mistake
    catalogue   the known mistakes, as edits of the right function
    smallest    the search for the smallest input that shows a failure
    report      what the learner reads
    sandbox     a call that ends in time and leaves the process as it was
    norms       what the probes of all norms share

A new exercise is a function that is right (its signature is the contract), probes in the order of
what they look at, and a catalogue whose examples the tests run.
"""

from course_utils.check.catalogue import Mistake
from course_utils.check.engine import Check, Checks
from course_utils.check.exercise import Exercise
from course_utils.check.report import Report
from course_utils.rooms import submodules

__all__ = ["Check", "Checks", "Exercise", "Mistake", "Report"]

__getattr__ = submodules(__name__)
