"""Why does SmolLM2-135M, stretched by 4 with YaRN, copy a passage over some jumps of positions and
not over others?

Chapter 16. Over a jump, a pair that is stretched by r turns as far as it did in training over a
distance r times smaller: that is the distance that it shows. YaRN blends, so that some pairs show
another one than the slow pairs do, which it stretches by 4. Here some pairs are given, at the jump
and nowhere else, the angle with which they show what the slow pairs show.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from chapters.c16_longer_context.smollm2_length import set_method, smollm2, versions
from chapters.c16_longer_context.smollm2_memory import EXCERPTS, PASSAGE
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models.pretrained import losses_after
from course_utils.rope import rope_inv_freq

FACTOR = 4
GAPS = (1000, 6000, 8000, 10_000, 12_000, 17_000)
PAIRS = {"none": (), "11 to 16": range(11, 17), "17 to 19": range(17, 20)}


@contextmanager
def agreeing(model: Any, pairs: Iterable[int], gap: int) -> Iterator[None]:
    """Let ``pairs`` of a stretched model show, beyond a jump by ``gap``, a distance of
    ``gap / FACTOR``."""
    rotary, chosen = model.model.rotary_emb, list(pairs)
    trained = rope_inv_freq(64, 100_000.0)
    extra = torch.zeros(32)
    extra[chosen] = (gap * (trained / FACTOR - rotary.inv_freq.double()))[chosen].float()
    usual = rotary.forward

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None] * rotary.inv_freq  # (B, T, pairs)
        angles = angles + (position_ids >= gap)[..., None] * extra
        both = torch.cat((angles, angles), dim=-1)
        return both.cos() * rotary.attention_scaling, both.sin() * rotary.attention_scaling

    rotary.forward = forward
    try:
        yield
    finally:
        rotary.forward = usual


def _copy(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return for each gap the loss of an excerpt after itself."""
    smol = smollm2()
    text, place = EXCERPTS[settings["excerpt"]]
    passage, copied = smol.passages(text)[place], []
    model = set_method(smol.model, "YaRN", FACTOR, max(GAPS) + 2 * PASSAGE)
    for gap in GAPS:
        with agreeing(model, PAIRS[settings["agree"]], gap):
            copied += losses_after(model, passage, passage, [gap])
    return {"text": text, "gap": list(GAPS), "copy": copied, "versions": versions()}


AGREEMENT = planned("smollm2-agreement", _copy)
