"""The chapters of the course: their order, what each builds on, and the exercises in it."""

from dataclasses import dataclass
from pathlib import Path

from course_utils.tables import Table

__all__ = ["CHAPTERS", "NOTEBOOKS", "Chapter", "progress_table"]

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@dataclass(frozen=True)
class Chapter:
    """One notebook. ``builds_on`` holds chapter numbers, ``exercises`` names of checks, ``lane`` a row of the map."""

    number: str
    name: str
    title: str
    part: str
    lane: int
    builds_on: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The notebook's file name."""
        return f"{self.number}_{self.name}.ipynb"

    @property
    def is_written(self) -> bool:
        """Whether the notebook is part of this copy of the course."""
        return (NOTEBOOKS / self.file).exists()


CHAPTERS = (
    Chapter("00", "start_here", "Start here", "Start", 2, (), ("centre",)),
    Chapter("01", "why_normalize", "Why normalize", "Normalization", 2, ("00",), ("normalize",)),
    Chapter("02", "layer_norm", "Layer norm", "Normalization", 2, ("01",), ("layer_norm",)),
    Chapter("03", "batch_norm", "Batch norm", "Normalization", 2, ("02",), ("batch_norm",)),
    Chapter("04", "running_statistics", "Running statistics", "Normalization", 1, ("03",), ("ema", "merge_moments")),
    Chapter(
        "05",
        "backward_by_hand",
        "Backward by hand",
        "Normalization",
        0,
        ("03",),
        ("layer_norm_backward", "batch_norm_backward", "rms_norm_backward"),
    ),
    Chapter("06", "the_family", "The family", "Normalization", 3, ("03",), ("group_norm", "instance_norm", "rms_norm")),
    Chapter("07", "norms_at_work", "Norms at work", "Normalization", 3, ("06",), ("linear_scan",)),
    Chapter(
        "08",
        "batch_norm_across_machines",
        "Batch norm across machines",
        "Normalization",
        1,
        ("04", "05"),
        ("sync_backward",),
    ),
    Chapter("09", "where_the_time_goes", "Where the time goes", "Speed", 0, ("05",), ("norm_bytes",)),
    Chapter("10", "fused_kernels", "Fused kernels", "Speed", 0, ("09",), ("masked_layer_norm",)),
    Chapter("11", "why_position", "Why position", "Position", 4, ("00",), ("sinusoidal", "alibi_slopes")),
    Chapter("12", "rope", "RoPE", "Position", 4, ("11",), ("rope", "half_to_interleaved")),
    Chapter(
        "13",
        "scaling_rope",
        "Scaling RoPE",
        "Position",
        4,
        ("12",),
        ("ntk_inv_freq", "yarn_frequencies", "rope_frequencies"),
    ),
    Chapter("14", "longer_context", "Longer context", "Position", 4, ("13",), ("critical_dimension",)),
    Chapter("15", "a_real_llama", "A real Llama", "Use it", 4, ("06", "14")),
    Chapter("16", "on_trial", "On trial", "Use it", 3, ("07", "15")),
    Chapter("17", "find_the_bug", "Find the bug", "Use it", 4, ("15",)),
)


def progress_table() -> Table:
    """Return a table of the written chapters' exercises and whether this learner has passed them."""
    from course_utils import progress

    passed = progress.passed()
    rows = [
        (chapter.number, chapter.title, exercise, "passed" if exercise in passed else "open")
        for chapter in CHAPTERS
        if chapter.is_written
        for exercise in chapter.exercises
    ]
    return Table(("chapter", "title", "exercise", "yours"), rows)
