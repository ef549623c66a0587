"""The chapters of the course: their order, the ideas in them and what those build on, and the exercises.

Whatever lists chapters is made from here: the map, the lines that link a chapter back and on, the tables of chapter 00
and of the README.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from course_utils.book.tables import Inline, Table

__all__ = [
    "CHAPTERS",
    "NOTEBOOKS",
    "Chapter",
    "Idea",
    "chapter_of",
    "contents",
    "line_back",
    "line_on",
    "progress_table",
]

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"


@dataclass(frozen=True)
class Idea:
    """What a chapter holds, in a few words. ``builds_on`` names ideas before it, of this chapter or of others."""

    name: str
    builds_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chapter:
    """One notebook.

    Args:
        number, name, title: ``02``, ``layer_norm``, ``Layer norm``; the file and its heading are made of them.
        part: which part of the course it belongs to.
        column: where it stands on the map, from the left; its row follows from what it builds on.
        about: what a learner builds in it, in one line.
        ideas: two or three.
        exercises: names of checks.
    """

    number: str
    name: str
    title: str
    part: str
    column: int
    about: str
    ideas: tuple[Idea, ...] = ()
    exercises: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The notebook's file name."""
        return f"{self.number}_{self.name}.ipynb"

    @property
    def label(self) -> str:
        """Number and title."""
        return f"{self.number} {self.title}"

    @property
    def link(self) -> str:
        """A Markdown link from another notebook of the course."""
        return f"[{self.label}]({self.file})"

    @property
    def is_written(self) -> bool:
        """Whether the notebook is part of this copy of the course."""
        return (NOTEBOOKS / self.file).exists()

    @property
    def builds_on(self) -> tuple[str, ...]:
        """The numbers of the other chapters whose ideas this one's ideas build on."""
        homes = {_home(earlier) for idea in self.ideas for earlier in idea.builds_on}
        return tuple(sorted(homes - {self.number}))


CHAPTERS = (
    Chapter(
        "00",
        "start_here",
        "Start here",
        "Start",
        1,
        "the way around, one exercise from first try to solved",
        (Idea("a claim and its test"), Idea("centring")),
        ("centre",),
    ),
    Chapter(
        "01",
        "why_normalize",
        "Why normalize",
        "Normalization",
        1,
        "one function that becomes batch, layer, instance and group norm",
        (Idea("depth multiplies gain", ("a claim and its test",)), Idea("a norm is its axes", ("centring",))),
        ("normalize",),
    ),
    Chapter(
        "02",
        "layer_norm",
        "Layer norm",
        "Normalization",
        1,
        "ten lines that equal `F.layer_norm`, and the inputs that expose those that do not",
        (
            Idea("each sample by itself", ("a norm is its axes",)),
            Idea("what it forgets", ("each sample by itself",)),
            Idea("two passes beat one"),
        ),
        ("layer_norm",),
    ),
    Chapter(
        "03",
        "batch_norm",
        "Batch norm",
        "Normalization",
        1,
        "outputs, gradients and running buffers of `F.batch_norm`; folding",
        (Idea("a channel's batch", ("each sample by itself",)), Idea("two variances"), Idea("training, evaluation")),
        ("batch_norm",),
    ),
    Chapter(
        "04",
        "running_statistics",
        "Running statistics",
        "Normalization",
        0,
        "the moving average in both conventions of momentum; moments that merge exactly; Precise BN",
        (Idea("moving average", ("training, evaluation",)), Idea("moments that merge", ("two variances",))),
        ("ema", "merge_moments"),
    ),
    Chapter(
        "05",
        "backward_by_hand",
        "Backward by hand",
        "Normalization",
        1,
        "the gradients of three norms, each step held against autograd; `autograd.Function`s",
        (Idea("a gradient projects", ("a channel's batch",)), Idea("save or recompute", ("a gradient projects",))),
        ("layer_norm_backward", "batch_norm_backward", "rms_norm_backward"),
    ),
    Chapter(
        "06",
        "the_family",
        "The family",
        "Normalization",
        2,
        "group, instance and RMS norm; what QK norm and dynamic tanh do, measured",
        (Idea("groups of channels", ("a channel's batch",)), Idea("a scale, no mean"), Idea("QK norm, tanh")),
        ("group_norm", "instance_norm", "rms_norm"),
    ),
    Chapter(
        "07",
        "norms_at_work",
        "Norms at work",
        "Normalization",
        2,
        "a scan: log₂ T rounds in place of T steps; fair experiments on a CNN, an LSTM and a transformer",
        (Idea("a fair comparison", ("groups of channels",)), Idea("pre-norm, post-norm"), Idea("a scan in log₂ T")),
        ("linear_scan",),
    ),
    Chapter(
        "08",
        "batch_norm_across_machines",
        "Batch norm across machines",
        "Normalization",
        0,
        "the backward pass of synchronised batch norm, run on processes that `torchrun` starts; what it costs",
        (
            Idea("one batch, many ranks", ("moments that merge",)),
            Idea("sums of gradients", ("a gradient projects",)),
        ),
        ("sync_backward",),
    ),
    Chapter(
        "09",
        "where_the_time_goes",
        "Where the time goes",
        "Speed",
        1,
        "the bytes a norm must move, and every implementation held against them",
        (Idea("bytes over bandwidth", ("save or recompute",)), Idea("what a call does")),
        ("norm_bytes", "predicted_ms", "to_keep"),
    ),
    Chapter(
        "10",
        "fused_kernels",
        "Fused kernels",
        "Speed",
        1,
        "layer norm, RMS norm and RoPE in Triton, forward and backward, every byte counted; no GPU needed, "
        "but Linux on x86-64",
        (
            Idea("a row in one program", ("bytes over bandwidth",)),
            Idea("masks, float32 sums", ("a row in one program",)),
            Idea("sums without locks", ("a gradient projects",)),
        ),
        ("masked_layer_norm",),
    ),
    Chapter(
        "11",
        "why_position",
        "Why position",
        "Position",
        3,
        "the sinusoidal code and ALiBi's slopes; six encodings tested far beyond their training length",
        (
            Idea("order is invisible", ("a claim and its test",)),
            Idea("a row of clocks", ("order is invisible",)),
            Idea("distance as a bias"),
        ),
        ("sinusoidal", "alibi_slopes"),
    ),
    Chapter(
        "12",
        "rope",
        "RoPE",
        "Position",
        3,
        "the rotation in either layout and the permutation between them; what the decay with distance does not promise",
        (
            Idea("rotate by position", ("a row of clocks",)),
            Idea("two layouts", ("rotate by position",)),
            Idea("angles need digits"),
        ),
        ("rope", "half_to_interleaved"),
    ),
    Chapter(
        "13",
        "scaling_rope",
        "Scaling RoPE",
        "Position",
        3,
        "eight ways to stretch RoPE behind one function, equal to `transformers`; any `config.json` read and drawn",
        (
            Idea("waves and the window", ("rotate by position",)),
            Idea("stretch by parts", ("waves and the window",)),
            Idea("read any config"),
        ),
        ("ntk_inv_freq", "yarn_frequencies", "rope_frequencies"),
    ),
    Chapter(
        "14",
        "longer_context",
        "Longer context",
        "Position",
        3,
        "the critical dimension; a small model stretched to sixteen times its window, near order and far memory apart",
        (Idea("near order, far memory", ("stretch by parts",)), Idea("critical dimension", ("waves and the window",))),
        ("critical_dimension",),
    ),
    Chapter(
        "15",
        "a_real_llama",
        "A real Llama",
        "Use it",
        3,
        "your norms and your RoPE inside models of `transformers`, and the first layer that differs",
        (
            Idea("swap and compare", ("a scale, no mean", "two layouts", "read any config")),
            Idea("first layer that differs", ("swap and compare",)),
        ),
    ),
    Chapter(
        "16",
        "on_trial",
        "On trial",
        "Use it",
        2,
        "the claims of the course's sources in one table, each with its verdict and the cell that found it",
        (Idea("all verdicts, one table", ("a claim and its test",)), Idea("holds, but when?", ("swap and compare",))),
        ("largest_error",),
    ),
    Chapter(
        "17",
        "find_the_bug",
        "Find the bug",
        "Use it",
        3,
        "broken norms and encodings without a label: you find what is wrong, and the input that proves it",
        (
            Idea("a bug without a label", ("first layer that differs",)),
            Idea("an input that proves it", ("a bug without a label",)),
        ),
        tuple(f"input_{letter}" for letter in "abcdefghijklmn"),
    ),
    Chapter(
        "18",
        "words_and_conventions",
        "Words and conventions",
        "Use it",
        0,
        "one page to work from: every convention proved in its row, every word of the course with its symbol",
        (Idea("whose momentum?"), Idea("one word, one meaning")),
    ),
)


def chapter_of(number: str) -> Chapter:
    """Return the chapter with this number.

    Raises:
        ValueError: there is none.
    """
    for chapter in CHAPTERS:
        if chapter.number == number:
            return chapter
    raise ValueError(f"number must be a chapter's, 00 to {CHAPTERS[-1].number}: got {number!r}")


@cache
def _home(idea: str) -> str:
    """Return the number of the chapter that holds ``idea``."""
    homes = [chapter.number for chapter in CHAPTERS if idea in (held.name for held in chapter.ideas)]
    if len(homes) != 1:
        raise ValueError(
            f"builds_on must name an idea of exactly one chapter: got {idea!r}, found in {homes or 'none'}"
        )
    return homes[0]


def line_back(chapter: Chapter) -> str:
    """Return the sentence that a chapter's first cell says: what it builds on, in links."""
    earlier = [chapter_of(number).link for number in chapter.builds_on]
    if not earlier:
        return "Builds on nothing but a little Python and PyTorch."
    return f"Builds on {' and '.join([', '.join(earlier[:-1])] * (len(earlier) > 1) + earlier[-1:])}."


def line_on(chapter: Chapter) -> str:
    """Return the line that a chapter ends with: to the next one, to others that build on it, back, and to the map."""
    written = [other for other in CHAPTERS if other.is_written or other == chapter]
    following = [later for this, later in pairwise(written) if this == chapter]
    parts = {
        "Next": following,
        "Also from here": [other for other in written if chapter.number in other.builds_on],
        "Back": [chapter_of(number) for number in chapter.builds_on],
        "Map": [CHAPTERS[0]],
        "Words": [CHAPTERS[-1]] if CHAPTERS[-1].is_written else [],
    }
    said, shown = {chapter}, []
    for heading, others in parts.items():
        links = [other.link + f": {other.about}" * (heading == "Next") for other in others if other not in said]
        shown += [f"**{heading}:** {', '.join(links)}"] if links else []
        said.update(others)
    return " · ".join(shown)


def contents() -> Table:
    """Return a table of the written chapters with links to them, part by part."""
    rows, above = [], ""
    for chapter in CHAPTERS:
        if chapter.is_written:
            rows.append((chapter.part if chapter.part != above else "", Inline(chapter.link), Inline(chapter.about)))
            above = chapter.part
    return Table(("part", "chapter", "what you build"), rows)


def progress_table() -> Table:
    """Return a table of the written chapters' exercises and whether this learner has passed them."""
    from course_utils.book import progress

    passed = progress.passed()
    rows = [
        (chapter.number, chapter.title, exercise, "passed" if exercise in passed else "open")
        for chapter in CHAPTERS
        if chapter.is_written
        for exercise in chapter.exercises
    ]
    return Table(("chapter", "title", "exercise", "yours"), rows)
