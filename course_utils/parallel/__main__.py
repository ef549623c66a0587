"""What each process that `launch` starts runs: ``python -m course_utils.parallel FOLDER``."""

import sys
from pathlib import Path

from course_utils.parallel.processes import run_job

run_job(Path(sys.argv[1]))
