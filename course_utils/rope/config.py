"""What a model's ``config.json`` says of its rotary embeddings, in today's spelling or in the older ones."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from course_utils.rope.config_reader import ConfigReader
from course_utils.rope.methods import RopeMethod, rope_method
from course_utils.rope.options import RopeWarning

__all__ = ["LayerRope", "RopeConfig", "from_config"]

_MAIN_LAYERS = "full_attention"


@dataclass(frozen=True)
class LayerRope:
    """The rotary embeddings of one type of layer: the arguments of ``rope_frequencies``."""

    rope_parameters: dict[str, Any]
    head_dim: int


@dataclass(frozen=True)
class RopeConfig:
    """What ``from_config`` read.

    ``layers`` maps each type of layer to its rotary embeddings; models of one type have the single key ``"all"``.
    ``assumptions`` says what the file left out and what was taken for it; ``warnings`` what looks wrong in it.
    """

    model_type: str | None
    max_position_embeddings: int | None
    layers: dict[str, LayerRope]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def main(self) -> LayerRope:
        """The layers that see the whole context; where none is called so, the first."""
        return self.layers.get(_MAIN_LAYERS, next(iter(self.layers.values())))

    @property
    def rope_parameters(self) -> dict[str, Any]:
        """The parameters of the layers that see the whole context, in the words of transformers."""
        return self.main.rope_parameters

    @property
    def head_dim(self) -> int:
        """The head dimension of the layers that see the whole context."""
        return self.main.head_dim

    def method(self, layer_type: str | None = None) -> RopeMethod:
        """Return the method of one type of layer.

        Args:
            layer_type: a key of ``layers``; None for the layers that see the whole context.

        Returns:
            The method, with its factor, trained length and rotary dimension.

        Raises:
            ValueError: an unknown ``layer_type``.
        """
        if layer_type is not None and layer_type not in self.layers:
            raise ValueError(f"layer_type must be one of {', '.join(self.layers)}: got {layer_type!r}")
        layer = self.main if layer_type is None else self.layers[layer_type]
        return rope_method(layer.rope_parameters, layer.head_dim, self.max_position_embeddings)

    def frequencies(self, seq_len: int | None = None, layer_type: str | None = None) -> tuple[Tensor, float]:
        """Return the frequencies and the attention factor of one type of layer.

        Args:
            seq_len: the length of the sequence so far; None counts as short.
            layer_type: as for ``method``.

        Returns:
            inv_freq, (rotary_dim/2,) float64, and the factor for cosine and sine.

        Raises:
            ValueError: an unknown ``layer_type``, or a ``seq_len`` that is no length.
        """
        return self.method(layer_type).frequencies(seq_len)


def from_config(
    config: str | Path | Mapping[str, Any],
    *,
    head_dim: int | None = None,
    max_position_embeddings: int | None = None,
) -> RopeConfig:
    """Read the rotary embeddings from a model's ``config.json``.

    Today's ``rope_parameters`` (one dictionary, or one per type of layer) and the older ``rope_theta`` with
    ``rope_scaling`` are read, and of models with several parts the text model. The part of a file that speaks of RoPE
    is enough if ``head_dim`` is given. What is left out is what transformers takes, for each ``model_type`` that
    ``rope_model_defaults`` names; for any other the base is 10,000, with a warning, and the whole head rotates.

    Args:
        config: the path of a ``config.json``, the directory that holds one, or its contents, as a dictionary or as
            JSON text.
        head_dim: the dimension of a head where the file gives none.
        max_position_embeddings: the window where the file gives none.

    Returns:
        The parameters of each type of layer, with what was assumed and what looks wrong.

    Raises:
        ValueError: the file cannot be read, or a value is missing or impossible; the message names the key.

    Warns:
        RopeWarning: what ``warnings`` of the result holds.

    Source: ``RotaryEmbeddingConfigMixin`` and the configuration classes of transformers 5.23.

    >>> llama2 = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_scaling": None}
    >>> read = from_config(llama2)
    >>> read.rope_parameters, read.head_dim
    ({'rope_type': 'default', 'rope_theta': 10000.0}, 128)
    """
    given = {"head_dim": head_dim, "max_position_embeddings": max_position_embeddings}
    reader = ConfigReader(_load(config), {key: value for key, value in given.items() if value is not None})
    layers = {name: LayerRope(*read) for name, read in reader.layers().items()}
    window = reader.window()
    for name, layer in layers.items():
        _validate(reader, layer, window, "" if len(layers) == 1 else f"{name}: ")
    reader.report_unread()
    if len(layers) > 1 and _MAIN_LAYERS not in layers:
        reader.assumptions.append(f"{next(iter(layers))} layers are shown as the main ones: none is {_MAIN_LAYERS}")

    for message in reader.warnings:
        warnings.warn(message, RopeWarning, stacklevel=2)
    assumptions, suspicions = (tuple(dict.fromkeys(notes)) for notes in (reader.assumptions, reader.warnings))
    return RopeConfig(reader.model_type, window, layers, assumptions, suspicions)


def _validate(reader: ConfigReader, layer: LayerRope, window: int | None, prefix: str) -> None:
    """Refuse what ``rope_frequencies`` would refuse, and note what it would warn of."""
    try:
        method = rope_method(layer.rope_parameters, layer.head_dim, window)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error
    reader.warnings += [prefix + message for message in method.warnings]
    if window is None or method.trained_length != window:
        return
    if method.rope_type in ("yarn", "longrope"):
        reader.assumptions.append(
            f"{prefix}max_position_embeddings={window} is the original length; stretched by factor={method.factor:g} "
            f"the model reaches {method.factor * window:.0f} positions"
        )
    # Files differ in which of the two windows they state, and the frequencies of these methods do not tell.
    if method.rope_type in ("linear", "ntk", "proportional") and method.factor > 1:
        reader.assumptions.append(
            f"{prefix}max_position_embeddings={window} is taken for the window before stretching by "
            f"factor={method.factor:g}; if it is the one after, the model reaches {window} positions, and no more"
        )


def _load(config: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    source, text = _text_of(config)
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise ValueError(f"config must be JSON: got {source}: {error}") from error
    if not isinstance(contents, dict):
        raise ValueError(f"config must hold a JSON object: got {source} with a {type(contents).__name__}")
    return contents


def _text_of(config: str | Path) -> tuple[str, str]:
    """What to call the text, and the text: a string that opens a brace is no path."""
    if isinstance(config, str) and config.lstrip().startswith("{"):
        return "text", config
    try:
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        return str(path), path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"config must be JSON: got {path}: {error}") from error
    except (OSError, TypeError) as error:
        raise ValueError(
            f"config must be a config.json, its directory, its text or a dictionary: got {config!r:.80}: {error}"
        ) from error
