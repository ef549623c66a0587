"""What a model's ``config.json`` says of its rotary embeddings, read by transformers (chapters 15
and 17)."""

import dataclasses
import inspect
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from course_utils.rope.embedding import RotaryEmbedding
from course_utils.rope.scaling import METHODS, ORIGINAL, RopeParameters, RopeWarning, warn

# Where models with several parts keep the text model, in some of them one inside another.
_TEXT_PARTS = ("thinker_config", "text_config", "llm_config", "language_config")
# What linear scaling starts from, where neither the file nor transformers tells: Gemma 3's files
# state 131,072, which the models were scaled to by a factor of 8, from 32,768. Source: Gemma 3
# Technical Report, 2025, §5.3.
_TRAINED_WINDOWS = {"gemma3_text": 32_768}
# What a part of a file without its model_type may hold: the keys of every method, and those that
# name one.
_KEYS = {key for method in METHODS.values() for key in inspect.signature(method).parameters} - {
    "dim",
    "base",
}
_KEYS |= {"rope_theta", "rope_type", "type"}
# Of these, the layers without a window have no positions, and no key of the file says so.
_ONLY_WINDOWS_ROTATE = (
    "afmoe",
    "cohere2",
    "cohere2_moe",
    "exaone4",
    "exaone_moe",
    "flint",
    "kolibri1",
)


class Read(NamedTuple):
    """What a file says: for each type of layer its ``rope_parameters`` and the dimension of its
    heads, and the rest."""

    layers: dict[str, tuple[dict[str, Any], int]]
    window: int | None
    warnings: list[str]
    without_positions: tuple[int, ...]


@dataclass(frozen=True)
class RopeConfig:
    """What ``from_config`` read: ``layers`` by their type, or under the one key ``"all"``. Chapters
    14, 16 and 17.

    ``without_positions`` are the layers, counted from 0, in which nothing is rotated, whatever
    ``layers`` says.
    """

    model_type: str | None
    max_position_embeddings: int | None
    layers: dict[str, RopeParameters]
    warnings: tuple[str, ...]
    without_positions: tuple[int, ...] = ()

    @property
    def main(self) -> RopeParameters:
        """The layers that see the whole context; where none is called so, the first."""
        return self.layers.get("full_attention", next(iter(self.layers.values())))

    @property
    def rope_parameters(self) -> Mapping[str, Any]:
        """The dictionary of the main layers, as ``rope_frequencies`` takes it."""
        return self.main.parameters

    @property
    def head_dim(self) -> int:
        """The dimension of a head of the main layers."""
        return self.main.head_dim

    def layer(self, layer_type: str | None = None) -> RopeParameters:
        """The parameters of one type of layer; of the main layers, if not told which."""
        if layer_type is not None and layer_type not in self.layers:
            raise ValueError(
                f"layer_type must be one of {', '.join(self.layers)}: got {layer_type!r}"
            )
        return self.main if layer_type is None else self.layers[layer_type]

    def frequencies(
        self, seq_len: int | None = None, layer_type: str | None = None
    ) -> tuple[Tensor, float]:
        """Return inv_freq, (rotary_dim/2,) float64, and the attention factor, of one type of
        layer."""
        return self.layer(layer_type).frequencies(seq_len)

    def rotary(self, layout: str = "half", layer_type: str | None = None) -> RotaryEmbedding:
        """Return the module that rotates the queries and keys of one type of layer.

        >>> from_config({"head_dim": 4, "rope_theta": 500_000.0}).rotary()
        RotaryEmbedding(4, rope_parameters={'rope_theta': 500000.0}, layout='half')
        """
        one = self.layer(layer_type)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RopeWarning)  # they were given when the file was read
            return RotaryEmbedding(
                one.head_dim,
                rope_parameters=one.parameters,
                max_position_embeddings=one.max_position_embeddings,
                layout=layout,
            )


def from_config(
    config: str | Path | Mapping[str, Any],
    head_dim: int | None = None,
    max_position_embeddings: int | None = None,
) -> RopeConfig:
    """Read the rotary embeddings from a model's ``config.json``, of any age, as transformers reads
    it. Chapter 15.

    Of models with several parts the text model is read. A part of a file without ``model_type`` is
    enough if it, or ``head_dim``, tells the dimension of a head: then today's keys are read as they
    are, and without transformers.

    ``config`` is the path of a ``config.json``, the directory that holds one, or its contents as a
    dictionary or as JSON; ``head_dim`` and ``max_position_embeddings``, the window, count where it
    gives none. A value that is missing or impossible is a ValueError that names the key; one that
    looks wrong is a RopeWarning.

    >>> config = {"head_dim": 4, "rope_scaling": {"type": "linear", "factor": 2.0}}
    >>> from_config(config).frequencies()
    (tensor([0.5000, 0.0050], dtype=torch.float64), 1.0)
    """
    # for a window, null is a value: no window
    text = {
        key: value
        for key, value in text_part(config).items()
        if value is not None or key == "sliding_window"
    }
    if not {"head_dim", "hidden_size", "n_embd"} & text.keys() and head_dim is not None:
        text["head_dim"] = head_dim
    if (
        not {"max_position_embeddings", "n_positions"} & text.keys()
        and max_position_embeddings is not None
    ):
        text["max_position_embeddings"] = max_position_embeddings
    model_type = text.get("model_type")

    read = _read_plainly(text) if model_type is None else _read_by_transformers(text, model_type)
    layers, suspicions = {}, []
    for name, (parameters, size) in read.layers.items():
        place = "" if len(read.layers) == 1 else f"{name}: "
        try:
            layers[name] = RopeParameters.read(parameters, size, read.window)
            layers[name].frequencies()
        except ValueError as error:
            raise ValueError(f"{place}{error}") from error
        suspicions += [place + suspicion for suspicion in layers[name].warnings]
    suspicions += read.warnings
    warn(suspicions, stacklevel=3)
    return RopeConfig(model_type, read.window, layers, tuple(suspicions), read.without_positions)


def text_part(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's part on the text model; ``config`` as for ``from_config``."""
    text = _contents(config)
    while part := next(
        (text[key] for key in _TEXT_PARTS if isinstance(text.get(key), Mapping) and text[key]), None
    ):
        text = part
    return dict(text)


def as_transformers(text: Mapping[str, Any]) -> Any:
    """Return transformers' own configuration object of a text part, any age; a ValueError where it
    refuses."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.utils import logging

    model_type = text.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"model_type must be one that transformers knows: got {model_type!r}")
    text = {key: value for key, value in text.items() if key != "model_type"}
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(text.get(key), Mapping):
            text[key] = dict(text[key])  # transformers writes into it
            if (
                text[key].get("type") == "su"
            ):  # LongRoPE's first name, over which Phi3Config stumbles
                text[key]["type"] = "longrope"
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what looks wrong is said here
    try:
        return CONFIG_MAPPING[model_type](
            **text
        ).get_text_config()  # older files have no part of its own for the text
    except Exception as error:
        raise ValueError(
            f"config must be one that transformers reads for model_type={model_type!r}: {error}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)


def _read_by_transformers(text: dict[str, Any], model_type: str) -> Read:
    """The keys as transformers' configuration has them once it has read the file."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        unknown = f"model_type={model_type!r} is not known to transformers: today's keys are read"
        return _read_plainly(text)._replace(warnings=[unknown])
    config = as_transformers(text)
    parameters = _parameters_of(config, text)
    by_type = {name: part for name, part in parameters.items() if isinstance(part, Mapping)}
    layers = {}
    for name, part in (by_type or {"all": parameters}).items():
        stated = {key: value for key, value in part.items() if key != "type"}
        for quirk in QUIRKS:
            stated = quirk(stated, model_type)
        layers[name] = (
            stated,
            _head_dim(config.per_layer_config[name] if by_type else config, stated),
        )
    known = {entry.name for entry in dataclasses.fields(config)}
    ignored = sorted(
        key for key in text if "rope" in key.lower() and key not in known and key in vars(config)
    )
    suspicions = [f"{', '.join(ignored)}: not known and ignored"] if ignored else []
    return Read(
        layers,
        getattr(config, "max_position_embeddings", None),
        suspicions,
        _without_positions(config),
    )


def _parameters_of(config: Any, text: Mapping[str, Any]) -> dict[str, Any]:
    """The ``rope_parameters`` of transformers' configuration, without what it filled in for a key
    that was missing."""
    parameters = getattr(config, "rope_parameters", None)
    if parameters is None and getattr(config, "rotary_dim", None):  # GPT-J
        return {"partial_rotary_factor": config.rotary_dim / _head_dim(config, {})}
    if parameters is None:
        raise ValueError(
            f"model_type={config.model_type!r} has no rotary embeddings in transformers"
        )
    stated = text.get("rope_scaling") or text.get("rope_parameters") or {}
    window = getattr(config, "max_position_embeddings", None)
    if stated and ORIGINAL not in {*text, *stated} and parameters.get(ORIGINAL) == window:
        # there is something to warn of
        return {key: value for key, value in parameters.items() if key != ORIGINAL}
    return parameters


def _hunyuan_alpha(part: dict[str, Any], model_type: str) -> dict[str, Any]:
    """HunYuan's ``dynamic`` with ``alpha`` is NTK-aware at every length, in transformers' code of
    the model."""
    if (
        part.get("rope_type") == "dynamic"
        and part.get("alpha")
        and model_type.startswith("hunyuan")
    ):
        return {"rope_type": "ntk", "factor": part["alpha"], "rope_theta": part["rope_theta"]}
    return part


def _trained_window(part: dict[str, Any], model_type: str) -> dict[str, Any]:
    if part.get("rope_type") == "linear" and model_type in _TRAINED_WINDOWS:
        return {ORIGINAL: _TRAINED_WINDOWS[model_type], **part}
    return part


# what some models mean by their keys, and no key says: each takes a layer type's keys and the
# model's type
QUIRKS = (_hunyuan_alpha, _trained_window)


def _without_positions(config: Any) -> tuple[int, ...]:
    """The layers whose queries and keys transformers' code does not rotate."""
    for rotates_by in (_rotates_by_list, _rotates_by_window, _rotates_by_parameters):
        rotates = rotates_by(config)
        if rotates is not None:
            return tuple(layer for layer, turns in enumerate(rotates) if not turns)
    return ()


def _rotates_by_list(config: Any) -> list | None:
    """A number for each layer, 0 where it does not rotate."""
    return vars(config).get("no_rope_layers") or vars(config).get("layer_rope_theta")


def _rotates_by_window(config: Any) -> list[bool] | None:
    """Models in which a layer rotates when it has a window."""
    if config.model_type not in _ONLY_WINDOWS_ROTATE:
        return None
    if config.sliding_window is None and config.model_type.startswith(("exaone", "kolibri")):
        return []  # without any window all layers of these rotate
    return [
        kind == "sliding_attention" and config.sliding_window is not None
        for kind in _layer_types(config)
    ]


def _rotates_by_parameters(config: Any) -> list[bool]:
    """A dictionary for each type of layer, null where it does not rotate."""
    parameters = vars(config).get("rope_parameters") or {}
    return [parameters.get(kind, True) is not None for kind in _layer_types(config)]


def _layer_types(config: Any) -> list[str]:
    return vars(config).get("layer_types") or []


def _head_dim(config: Any, parameters: Mapping[str, Any]) -> int:
    """The dimension of a head, or of the part of it that alone rotates (DeepSeek's latent
    attention)."""
    rotary_part = getattr(config, "qk_rope_head_dim", None)
    if rotary_part and parameters.get("partial_rotary_factor", 1.0) == 1.0:
        return rotary_part
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _read_plainly(text: Mapping[str, Any]) -> Read:
    """Today's keys as they are, or a ``rope_parameters`` dictionary itself."""
    inside = text.get("rope_parameters") or text.get("rope_scaling") or text
    if not isinstance(inside, Mapping):
        raise ValueError(f"rope_parameters must be a dictionary or null: got {inside!r}")
    if "head_dim" not in text and not {"hidden_size", "num_attention_heads"} <= text.keys():
        raise ValueError("head_dim must be given, or hidden_size and num_attention_heads: got none")
    head_dim = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
    outside = {key: value for key, value in text.items() if key in _KEYS}
    nested = {name: part for name, part in inside.items() if isinstance(part, Mapping)}
    layers = nested or {"all": outside if inside is text else {**outside, **inside}}
    with_heads = {name: (dict(part), head_dim) for name, part in layers.items()}
    return Read(with_heads, text.get("max_position_embeddings"), [], ())


def _contents(config: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    try:
        if isinstance(config, str) and config.lstrip().startswith("{"):  # no path
            return json.loads(config)
        path = Path(config) / "config.json" if Path(config).is_dir() else Path(config)
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        known = "a config.json, the directory that holds one, a dictionary, or JSON"
        raise FileNotFoundError(
            f"config must be {known}; names on a hub are not fetched: got {config!r}"
        ) from error
    except ValueError as error:
        raise ValueError(f"config must be JSON: {error}") from error
