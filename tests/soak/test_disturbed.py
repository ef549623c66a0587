"""No claim is tested by evidence that cannot be false."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 3600  # far more than the longest chapter takes


def test_every_claim_is_false_where_its_evidence_is_disturbed(notebook_path, tmp_path):
    command = [sys.executable, str(ROOT / "tests/soak/disturbing.py"), str(notebook_path)]
    own = {"MPLBACKEND": "agg", "PYTHONPATH": str(ROOT), "COURSE_PROGRESS_DIR": str(tmp_path)}
    where = {"cwd": notebook_path.parent, "env": {**os.environ, **own}}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **where)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "NEVER FALSE" not in done.stdout, done.stdout
    assert done.stdout.count(": false by ") == notebook_path.read_text(encoding="utf-8").count(
        "claims.test("
    )
