"""What does SmolLM2-135M remember over a jump of positions, and what does its loss say of that?

Chapter 16. A passage of 128 tokens is read, all positions jump, and a second passage follows. Where
the second is the first once more, a model that remembers copies it. Where it is what comes next in
the text, its loss is what long-context results usually show. Both are of the same tokens, the last
96 of the second passage, at the same positions; nothing is trained.
"""

from typing import Any

from chapters.c16_longer_context.smollm2_length import set_method, smollm2, versions
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models.pretrained import losses_after

PASSAGE = 128
GAPS = (0, 6000, 10_000, 14_000)
# a text, and which of its passages
EXCERPTS = (("docstrings", 1), ("docstrings", 3), ("prose", 1), ("prose", 3))


def _remember(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return for each gap the loss of an excerpt after the passage before it in the text, ``loss``,
    and after itself, ``copy``."""
    smol, method = smollm2(), settings["method"]
    text, place = EXCERPTS[settings["excerpt"]]
    passages = smol.passages(text)
    results: dict[str, Any] = {"text": text, "gap": list(GAPS)}
    model = set_method(smol.model, method, settings["factor"], max(GAPS) + 2 * PASSAGE)
    for kind, first in (("loss", passages[place - 1]), ("copy", passages[place])):
        results[kind] = losses_after(model, first, passages[place], GAPS)
    return {**results, "versions": versions()}


MEMORY = planned("smollm2-memory", _remember)
