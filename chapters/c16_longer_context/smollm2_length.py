"""What does each way of scaling RoPE do to a trained language model, SmolLM2-135M, within its
window and beyond?

Chapter 16. The text is ``data.topics()``, an excerpt is 16,384 tokens of it, and nothing is
trained: the loss of the same last 512 tokens of an excerpt, after more or less of what stands
before them.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from chapters.c16_longer_context.long_context import SMOLLM2_METHODS as METHODS
from chapters.c16_longer_context.long_context import frequencies, rope_parameters
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models import pretrained

WINDOW, HEAD_DIM = 8192, 64  # of SmolLM2-135M
TARGETS, LONGEST = 512, 16_384
ENDS = (36_384, 66_384, 96_384)  # of the excerpts, in tokens of the text


def set_method(model: Any, method: str, factor: float = 2, length: int = TARGETS) -> Any:
    """Give SmolLM2 the frequencies and the attention factor of one of ``METHODS``, for ``length``
    tokens; return it."""
    parameters = rope_parameters(method, factor, METHODS, WINDOW)
    rotary = model.model.rotary_emb
    inv_freq, rotary.attention_scaling = frequencies(parameters, HEAD_DIM, WINDOW, length)
    rotary.inv_freq = inv_freq.float()
    return model


@torch.no_grad()
def losses(model: Any, ids: Tensor) -> Tensor:
    """Return the loss in nats of each token of ``ids`` (1, T) after the first, (T - 1,).

    As ``pretrained.token_losses``, in parts: the logits of 16,384 tokens at once take 3 GB.
    """
    hidden = model.model(ids, use_cache=False).last_hidden_state[0]
    parts = zip(hidden[:-1].split(1024), ids[0, 1:].split(1024), strict=True)
    return torch.cat(
        [F.cross_entropy(model.lm_head(part), wanted, reduction="none") for part, wanted in parts]
    )


@cache
def smollm2() -> pretrained.SmolLM2:
    """Return the model, loaded once."""
    smol = pretrained.smollm2()
    if smol is None:
        raise FileNotFoundError(pretrained.MISSING)
    return smol


def versions() -> str:
    """Return what the record of a run says of its libraries."""
    import transformers

    return f"transformers {transformers.__version__}, {pretrained.PACKAGE} {pretrained.VERSION}"


def _loss(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return the loss of the excerpt's end, and the means of the bins of 512 tokens up to there."""
    smol, length = smollm2(), settings["length"]
    model = set_method(smol.model, settings["method"], settings["factor"], length)
    each = losses(model, smol.passage(ENDS[settings["excerpt"]] - length, length))
    # the first bin lacks a token
    means = [part.mean().item() for part in each.flip(0).split(TARGETS)][::-1]
    return {"loss": means[-1], "by_position": means, "versions": versions()}


LENGTH = planned("smollm2-length", _loss)
