"""``course bench``: every implementation of the ladder, checked against float64, timed, and recorded.

command   the command line
run       one run: its cases in order, the journal, the record
sweep     which shapes and dtypes
trial     one case: check, then time
processes a case tried in several processes, one after the other
elsewhere a trial in a process of its own
goals     what the course set out to reach, held against a record
ladder    the operations and their implementations
loops     the lowest rung
peers     other people's libraries
"""

from course_utils.timing.bench.command import main
from course_utils.timing.bench.run import run
from course_utils.timing.bench.sweep import Case, cases
from course_utils.timing.bench.trial import CheckFailed

__all__ = ["Case", "CheckFailed", "cases", "main", "run"]
