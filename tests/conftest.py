"""What unit tests and browser tests share: the site of the whole course."""

from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Path:
    """The site of the whole course, built once for all runs and processes: anew when a file of it has changed."""
    from tools.site import build_site

    folder = pytestconfig.cache.mkdir("site")
    files = [file for part in ("notebooks", "course_utils", "tools", ".github") for file in (ROOT / part).rglob("*.*")]
    newest = max(file.stat().st_mtime for file in [*files, ROOT / "README.md"] if file.suffix != ".pyc")
    with FileLock(folder / "lock"):
        stamp = folder / "built"
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            stamp.unlink(missing_ok=True)
            assert build_site(folder / "site", ROOT) == 0
            stamp.touch()
    return folder / "site"
