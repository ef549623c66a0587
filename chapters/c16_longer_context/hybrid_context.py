"""Does a model that is trained without some of its rotations reach further than one that rotates
everything?

Chapter 16. Task, size and training are those of ``long_context``, whose record has the model that
rotates everything ("none"). Nothing is stretched at the test: every model is tested as it was
trained.
"""

from collections.abc import Callable
from typing import Any

from chapters.c16_longer_context.long_context import (
    BASE,
    MULTIPLES,
    evaluate,
    finite,
    held_out_streams,
    new_model,
    train_from_scratch,
)
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.models import Decoder
from course_utils.rope import rope_frequencies

P_ROPE = {"rope_type": "proportional", "rope_theta": BASE, "partial_rotary_factor": 0.5}
STREAMS = 32  # to test on, as in the record of ``long_context``
LOCAL = 16  # tokens that the first layer sees where there is a window, in training and at the test


def _window_alone(seed: int) -> Decoder:
    """Return a model whose first layer sees a window, and whose second rotates too, and sees
    all."""
    model = new_model(seed)
    model.blocks[0].register_forward_pre_hook(lambda block, inputs: (*inputs[:3], LOCAL))
    return model


# the models before their training, by seed
DESIGNS: dict[str, Callable[[int], Decoder]] = {
    "p-RoPE": lambda seed: new_model(seed).set_rope(*rope_frequencies(P_ROPE, 32)),
    "hybrid": lambda seed: new_model(seed, nope_layers=(1,)),
    "hybrid, window": lambda seed: new_model(seed, nope_layers=(1,)).set_attention_window(LOCAL),
    "RoPE, window": _window_alone,
}


def _run(settings: Settings, progress: Progress) -> dict[str, Any]:
    model = train_from_scratch(
        settings["seed"], progress, DESIGNS[settings["design"]](settings["seed"])
    )
    scores = [
        finite(evaluate(model, held_out_streams(multiple, STREAMS))) for multiple in MULTIPLES
    ]
    return {
        "multiple": list(MULTIPLES),
        **{field: [score[field] for score in scores] for field in scores[0]},
    }


HYBRID = planned("hybrid-context", _run)
