"""Every way to stretch RoPE to a longer context, behind one function that reads a model's ``rope_parameters``.

The formulas are in ``rope_formulas``, what each method reads in ``rope_methods``, and what a whole ``config.json``
says in ``rope_config``. Frequencies are float64, for the reason given in ``positions``. A changed base (ABF) is no
method of its own: it is ``default`` with another ``rope_theta``.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from course_utils.rope.config import LayerRope, RopeConfig, from_config
from course_utils.rope.methods import ROPE_TYPES, RopeMethod, rope_method
from course_utils.rope.options import RopeWarning

__all__ = [
    "ROPE_TYPES",
    "LayerRope",
    "RopeConfig",
    "RopeMethod",
    "RopeWarning",
    "from_config",
    "rope_frequencies",
    "rope_method",
]


def rope_frequencies(
    rope_parameters: Mapping[str, Any] | None,
    head_dim: int,
    max_position_embeddings: int | None,
    seq_len: int | None = None,
) -> tuple[Tensor, float]:
    """Return the rotary frequencies and the attention factor that a model's ``rope_parameters`` ask for.

    Keys and defaults are those of transformers; null counts as absent. For every type: ``rope_theta`` (10,000) and
    ``partial_rotary_factor`` (1).

    ========================  ======================================================================================
    ``rope_type``             keys, those in brackets optional
    ========================  ======================================================================================
    ``default``
    ``linear``                ``factor``, [``original_max_position_embeddings``, which leaves the frequencies alone]
    ``ntk``                   ``factor``
    ``dynamic``               ``factor``; stretches beyond ``max_position_embeddings``
    ``yarn``                  ``factor``, ``original_max_position_embeddings``, [``attention_factor``, ``beta_fast``,
                              ``beta_slow``, ``mscale``, ``mscale_all_dim``, ``truncate``]
    ``llama3``                ``factor``, ``original_max_position_embeddings``, ``low_freq_factor``,
                              ``high_freq_factor``
    ``longrope``              ``short_factor``, ``long_factor``, ``original_max_position_embeddings``, [``factor``,
                              ``attention_factor``, ``short_mscale``, ``long_mscale``]
    ``proportional``          [``factor``]; the exponent is over the whole head, and the slow pairs do not turn
    ========================  ======================================================================================

    Args:
        rope_parameters: the dictionary of a ``config.json``; of one layer type where it has several. None is
            ``default``. The older key ``type`` is read where ``rope_type`` is absent.
        head_dim: the dimension of a head.
        max_position_embeddings: the model's window; None where no key needs it.
        seq_len: the length of the sequence so far, for ``dynamic`` and ``longrope``; None counts as short.

    Returns:
        inv_freq, (rotary_dim/2,) float64 (head_dim/2 for ``proportional``), and what to multiply cosine and sine by,
        so that scores are multiplied by its square.

    Raises:
        ValueError: a value is missing or impossible; the message names the key, what was given, what is expected.

    Warns:
        RopeWarning: a value looks wrong; the message says what was assumed.

    Source: ``ROPE_INIT_FUNCTIONS`` of transformers 5.23, ``modeling_rope_utils.py``; the papers beside each formula
    in ``rope_formulas``. ``ntk`` is the course's name for the static form, which transformers has for Hunyuan alone.

    >>> inv_freq, attention_factor = rope_frequencies({"rope_type": "linear", "factor": 4.0}, 4, 2048)
    >>> inv_freq, attention_factor
    (tensor([0.2500, 0.0025], dtype=torch.float64), 1.0)
    """
    method = rope_method(rope_parameters, head_dim, max_position_embeddings)
    for message in method.warnings:
        warnings.warn(message, RopeWarning, stacklevel=2)
    return method.frequencies(seq_len)
