"""Pieces K and L: RoPE, stretched."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.bugs.piece import Arguments, NearMiss, Piece
from course_utils.bugs.takes import Lengths, Options, Real, Whole, Word
from course_utils.rope import RopeWarning, rope_frequencies

__all__ = ["SCALING"]

_LAYERS = ("full_attention", "sliding_attention")
_REQUIRED = {"rope_theta", "factor", "original_max_position_embeddings"}
_OPTIONAL = {"beta_fast", "beta_slow", "truncate"}


def _dynamic(lengths: Sequence[int], window: int, factor: float) -> Tensor:
    return rope_frequencies({"rope_type": "dynamic", "factor": factor}, 64, window, lengths[-1])[0]


def _yarn(rope_parameters: Mapping[str, Any], layer_type: str) -> Tensor:
    parameters = rope_parameters.get(layer_type, rope_parameters)
    keys = set(parameters) if isinstance(parameters, dict) else set()
    if not _REQUIRED <= keys <= _REQUIRED | _OPTIONAL:
        wanted = f"{', '.join(sorted(_REQUIRED))}, and perhaps {', '.join(sorted(_OPTIONAL))}"
        raise ValueError(f"the dictionary for {layer_type} must have {wanted}: got {', '.join(sorted(keys)) or 'none'}")
    if None in parameters.values():
        raise ValueError(f"an option that is not given must be left out: got null in the dictionary for {layer_type}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        return rope_frequencies({**parameters, "rope_type": "yarn"}, 64, None)[0]


def _flat_options(generator: torch.Generator) -> Arguments:
    return {
        "rope_parameters": {
            "rope_theta": 10_000.0,
            "factor": 2.0 ** torch.randint(1, 6, (), generator=generator).item(),
            "original_max_position_embeddings": 4096,
            "truncate": bool(torch.rand(1, generator=generator) < 0.5),
        },
        "layer_type": _LAYERS[torch.randint(2, (), generator=generator)],
    }


def _any_options(generator: torch.Generator) -> dict[str, Any]:
    """Options as most files have them, or, as often, the same for each of the layer types."""
    options = _flat_options(generator)["rope_parameters"]
    return dict.fromkeys(_LAYERS, options) if torch.rand((), generator=generator) < 0.5 else options


def _lengths(generator: torch.Generator) -> Arguments:
    lengths = torch.randint(1, 16_385, (4,), generator=generator).tolist()
    return {"lengths": lengths, "window": 4096, "factor": 4.0}


SCALING = (
    Piece(
        letter="K",
        function="run",
        claim="It claims that a call gives the frequencies of its own length, whatever was called before.",
        takes={"lengths": Lengths(8, 65_536), "window": Whole(16, 65_536), "factor": Real(1, 64)},
        draw=_lengths,
        right=_dynamic,
        mend=("length < self.window", "length <= self.window"),
        tolerance=1e-4,
        because="frequencies of at most 1, in float32",
        hints=(
            "What does the module remember from one call to the next, and when does it forget?",
            "Lengths beyond the window, lengths below it: is that all of them?",
            "A long call, then one of exactly the window.",
        ),
        wrong="A call of exactly the window is neither longer nor shorter, so it keeps what the last call left: after "
        "a long text, a text that fits is read with stretched frequencies.",
        seen="In the most used library of language models, whose test for going back is `<` (transformers 5.23). "
        "Another published form never goes back at all. Of all lengths, one shows it.",
        solution=lambda ordinary: {**ordinary, "lengths": [8192, 4096]},
        near=(
            NearMiss(lambda a: len(a["lengths"]) == 1, "A module that is called once has nothing to remember."),
            NearMiss(
                lambda a: a["lengths"][-1] == a["window"],
                "The last call is at the window itself. What was left over from the one before?",
            ),
            NearMiss(
                lambda a: max(a["lengths"]) > a["window"] > a["lengths"][-1],
                "Long, then short: it goes back as it should. Is that every kind of short?",
            ),
        ),
    ),
    Piece(
        letter="L",
        function="yarn",
        claim="It claims to be YaRN's frequencies, as `transformers` means them, for a head of 64. `truncate` says "
        "whether the ends of the ramp are rounded to whole pairs, and is true where it is not given.",
        takes={
            "rope_parameters": Options(
                "a dictionary with "
                + ", ".join(f"`{key}`" for key in sorted(_REQUIRED))
                + " and perhaps "
                + ", ".join(f"`{key}`" for key in sorted(_OPTIONAL))
                + "; or a dictionary of such, one for each layer type",
                _any_options,
            ),
            "layer_type": Word(_LAYERS),
        },
        draw=_flat_options,
        right=_yarn,
        mend=('rope_parameters.get("truncate", True)', 'parameters.get("truncate", True)'),
        tolerance=1e-4,
        because="frequencies of at most 1, in float32",
        hints=(
            "Two names for dictionaries: which of the lines read from which?",
            "In a configuration without layer types they are the same dictionary.",
            'One dictionary for each layer type, with `"truncate": False` inside.',
        ),
        wrong="Five options come from the layer's dictionary, and one from the dictionary around it, where nobody put "
        "it: `get` then quietly answers with the default.",
        seen="In the most used library of language models (transformers 5.23), for configurations that hold one "
        "dictionary for each type of layer. The `get` with a default is what keeps it quiet.",
        solution=lambda ordinary: {
            "rope_parameters": {"full_attention": {**ordinary["rope_parameters"], "truncate": False}},
            "layer_type": "full_attention",
        },
        near=(
            NearMiss(
                lambda a: a["layer_type"] in a["rope_parameters"],
                "A dictionary for each layer type: now choose an option in it that is not the default.",
            ),
        ),
    ),
)
