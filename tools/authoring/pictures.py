"""The two pictures of README.md: a widget as it looks without a kernel, and the ladder of chapter 09 as recorded."""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from course_utils import plots, recorded, widgets
from course_utils.timing.bench import Case

__all__ = ["FOLDER", "pictures", "write_pictures"]

FOLDER = Path(".github")
RUNGS = Case("layer_norm", "forward", (4096, 1024), "float32")
_DPI = 120  # README shows them at half a page's width


def pictures() -> Iterator[tuple[str, Figure]]:
    """Yield each picture's file name and its figure; the ladder only where a CPU's record comes with the course."""
    yield "widget.png", widgets.rope_clocks(position=4, distance=3).static_figure()
    for record in map(recorded.load, recorded.available("cpu")[:1]):
        yield "ladder.png", plots.recorded_ladder(record, **RUNGS.fields())


def write_pictures(folder: Path = FOLDER) -> list[Path]:
    """Write the pictures into ``folder`` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in pictures():
        paths.append(folder / name)
        # matplotlib would write its own version into the file, which changes the bytes from one install to another
        figure.savefig(paths[-1], dpi=_DPI, metadata={"Software": None})
    return paths
