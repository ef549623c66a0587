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
STEP = 1000  # of the grid of jumps, in positions
# a text, and which of its passages
EXCERPTS = (("docstrings", 1), ("docstrings", 3), ("prose", 1), ("prose", 3))


def _remember(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return for each jump of a grid the loss of an excerpt after the passage before it in the
    text, ``loss``, and after itself, ``copy``; and with nothing before it, ``alone``."""
    smol, factor = smollm2(), settings["factor"]
    text, place = EXCERPTS[settings["excerpt"]]
    before, passage = smol.passages(text)[place - 1 : place + 1]
    gaps = list(range(0, max(16_000, 8000 * factor) + 1, STEP))
    model = set_method(smol.model, settings["method"], factor, max(gaps) + 2 * PASSAGE)
    return {
        "text": text,
        "gap": gaps,
        "loss": losses_after(model, before, passage, gaps),
        "copy": losses_after(model, passage, passage, gaps),
        "alone": token_losses(model, passage[None])[0, -96:].mean().item(),
        "versions": versions(),
    }


MEMORY = planned("smollm2-memory", _remember)
