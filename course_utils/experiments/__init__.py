"""The experiments: each a ``Study``, run live in a chapter in a reduced form and recorded in its full one.

    course train lstm-length --size full --out lstm-length.json

runs one; ``load("lstm-length")`` returns the rows of the record that comes with the course.

    study        what an experiment is, and running one: seeded, with progress, resumable
    rows         its results: selected, averaged over seeds, in a table; tuning: every arm at its own best setting
    archive      the records
    command      `course train`; pretrain: `course checkpoints`
    checkpoints  weights on disk that say what they are
    seeding      random numbers
    fitting      training on streams, for the long-context experiments

The others are the experiments themselves, found by their word in ``study.STUDIES``; tags is long_context's task.
"""

from course_utils.experiments.archive import available, load, record_path
from course_utils.experiments.rows import Rows, Spread
from course_utils.experiments.study import STUDIES, Study, find, run_study

__all__ = ["STUDIES", "Rows", "Spread", "Study", "available", "find", "load", "record_path", "run_study"]
