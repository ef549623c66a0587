"""What experiments with several seeds share: settings, the loop that trains, records, rows.

study                what an experiment is, and how it is run and recorded
training             the loop that trains
rows                 what came out: means, spreads, differences seed by seed
adding_problem, power_law   a task and a fit that two chapters use

An experiment lies in the folder of its chapter, the settings of its runs in ``studies.toml`` and
its record in ``recorded/`` there; ``course train`` runs one.
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
