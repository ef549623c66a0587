"""The experiments of chapters 06, 07, 12 and 15: run live in a reduced form, and recorded in full.

    course train lstm-length --size full --out lstm-length.jsonl

runs one; ``load("lstm-length")`` returns the rows of the record that comes with the course, in ``recorded/``.

study.py, rows.py    what an experiment is and what it gives; training.py: the loop that trains
command.py           the command line of ``course train``, which names every study
tags.py, checkpoints.py  the task and the weights of the long-context experiments; long_context.py, run, makes them

Each other module holds an experiment.
"""

from course_utils.experiments.rows import Difference, Rows, Spread, at_best, paired_difference
from course_utils.experiments.study import Study, read, run_study, seeded
from course_utils.experiments.training import fit
from course_utils.rooms import submodules

__all__ = [
    "Difference",
    "Rows",
    "Spread",
    "Study",
    "at_best",
    "fit",
    "paired_difference",
    "read",
    "run_study",
    "seeded",
]

__getattr__ = submodules(__name__)
