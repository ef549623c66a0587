"""Which pairs of SmolLM2-135M's frequencies break it beyond its window? Chapter 15.

Some pairs are slowed to half their frequency, the others stay, and nothing is trained. The loss is
that of the last 96 tokens of an excerpt of 128, after the 128 before it in the text and a jump of
all positions.
"""

from functools import cache
from typing import Any

from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models import pretrained

GAPS = (0, 14_000)
# a text, and which of its passages
EXCERPTS = (("docstrings", 1), ("docstrings", 3), ("prose", 1), ("prose", 3))
SLOW = range(20, 32)  # from the first that has not finished a turn in the window
PAIRS = {
    "none": (),
    "23, 24": (23, 24),
    "22 to 25": range(22, 26),
    "20 to 31": SLOW,
    "20 to 31 but 23, 24": [pair for pair in SLOW if pair not in (23, 24)],
}


@cache
def _smollm2() -> pretrained.SmolLM2:
    smol = pretrained.smollm2()
    if smol is None:
        raise FileNotFoundError(pretrained.MISSING)
    return smol


def _halved(settings: Settings, progress: Progress) -> dict[str, Any]:
    smol = _smollm2()
    text, place = EXCERPTS[settings["excerpt"]]
    passages, rotary = smol.passages(text), smol.model.model.rotary_emb
    trained, pairs = rotary.inv_freq, list(PAIRS[settings["halved"]])
    rotary.inv_freq = trained.clone()
    rotary.inv_freq[pairs] /= 2
    try:
        loss = pretrained.losses_after(smol.model, passages[place - 1], passages[place], GAPS)
    finally:
        rotary.inv_freq = trained
    return {"text": text, "gap": list(GAPS), "loss": loss}


HALVED = planned("smollm2-halved", _halved)
