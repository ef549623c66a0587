"""What does SmolLM2-135M remember over a jump of positions, and what does its loss say of that?

Chapter 16. A passage of 128 tokens is read, all positions jump, and a second passage follows. Where
the second is the first once more, a model that remembers copies it. Where it is what comes next in
the text, its loss is what long-context results usually show. Both are of the same tokens, the last
96 of the second passage, at the same positions; nothing is trained.
"""

from typing import Any

from chapters.c16_longer_context.smollm2_length import set_method, smollm2, versions
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models.pretrained import losses_after, token_losses

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


def _reach(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return for each gap of a grid what an excerpt costs after itself, ``copy``, and what it
    costs with nothing before it, ``alone``."""
    smol, factor = smollm2(), settings["factor"]
    text, place = EXCERPTS[settings["excerpt"]]
    passage = smol.passages(text)[place]
    gaps = list(range(0, max(16_000, 8000 * factor) + 1, 2000))
    model = set_method(smol.model, settings["method"], factor, max(gaps) + 2 * PASSAGE)
    alone = token_losses(model, passage[None])[0, -96:].mean().item()
    copied = losses_after(model, passage, passage, gaps)
    return {"text": text, "gap": gaps, "copy": copied, "alone": alone, "versions": versions()}


MEMORY = planned("smollm2-memory", _remember)
REACH = planned("smollm2-reach", _reach)
