"""Bringing the many spellings of a ``config.json`` into one: a dictionary of RoPE's parameters per type of layer."""

import difflib
import math
from collections.abc import Mapping
from typing import Any

from course_utils.arguments import require_length
from course_utils.rope.model_defaults import MODEL_DEFAULTS, TRAINED_WINDOWS, TWO_BASES
from course_utils.rope.options import DEFAULT_BASE

__all__ = ["ConfigReader"]

# One thing, many names: today's first, then those of GPT-NeoX, StableLM, GPT-J, ChatGLM and Zamba2.
_NAMES = {
    "rope_theta": ("rope_theta", "rotary_emb_base"),
    "partial_rotary_factor": ("partial_rotary_factor", "rotary_pct", "rope_pct"),
    "hidden_size": ("hidden_size", "n_embd"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "seq_length"),
}
# Where models with several parts keep the text model, in some of them one inside another.
_TEXT_PARTS = ("thinker_config", "text_config", "llm_config", "language_config")
# What a misspelt key may have meant.
_ROPE_KEYS = (
    *_NAMES["rope_theta"],
    *_NAMES["partial_rotary_factor"],
    *("rope_scaling", "rope_parameters", "rotary_dim", "rope_local_base_freq", "global_rope_theta", "local_rope_theta"),
)
# Keys that only the dictionary of a rope_type has, and no configuration of transformers beside it.
_SCALING_KEYS = frozenset(
    (
        *("factor", "attention_factor", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor"),
        *("short_factor", "long_factor", "short_mscale", "long_mscale", "mscale", "mscale_all_dim"),
    )
)
_OLDER_TYPES = {"su": "longrope", "mrope": "default"}
_SCALED_FROM_ORIGINAL = ("yarn", "llama3", "longrope")
# About the layout of the pairs, or which layers rotate at all: the frequencies are the same.
_WITHOUT_EFFECT = {"rope_interleave", "rope_interleaved", "no_rope_layers", "no_rope_layer_interval"}

Parameters = dict[str, Any]


class ConfigReader:
    """Reads one file, and keeps what it assumed and what looked wrong.

    Args:
        config: the contents of a ``config.json``, or the part of it that speaks of RoPE.
        given: values for keys that the file leaves out.

    Raises:
        ValueError: keys of a scaling alone, without the ``rope_type`` that they are for.
    """

    def __init__(self, config: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.assumptions: list[str] = []
        self.warnings: list[str] = []
        self._config = self._text_part(config)
        self._given = given
        self._read: set[str] = set()
        self._why_not_read = "models of this model_type do not read it"
        named = self._config.get("model_type")
        self.model_type: str | None = named if isinstance(named, str) else None
        self._defaults = MODEL_DEFAULTS.get(self.model_type or "", {})

    def _text_part(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        path: list[str] = []
        while key := next((key for key in _TEXT_PARTS if config.get(key) and isinstance(config[key], Mapping)), None):
            path.append(key)
            config = config[key]
        if path:
            self.assumptions.append(f"the text model, {'.'.join(path)}, is read")
            return config
        if "model_type" not in config and ({"rope_type", "type", "full_attention"} & config.keys()):
            self.assumptions.append("the dictionary is taken for rope_parameters itself")
            return {"rope_parameters": config}
        if "model_type" not in config and (bare := _scaling_keys_of(config)):
            raise ValueError(f"rope_type must be given with {', '.join(bare)}: got none")
        return config

    def _own(self, key: str) -> Any:
        """What the file itself says, under any of the key's names."""
        names = _NAMES.get(key, (key,))
        self._read.update(names)
        return next((self._config[name] for name in names if self._config.get(name) is not None), None)

    def _get(self, key: str) -> Any:
        """What the file says, or was given beside it, or is taken by transformers; None if none of them does."""
        own = self._own(key)
        if own is not None or key in self._given:
            return self._given[key] if own is None else own
        if key in self._defaults:
            value = self._defaults[key]
            self.assumptions.append(f"{key}={value}, which transformers takes for model_type={self.model_type!r}")
        return self._defaults.get(key)

    def window(self) -> int | None:
        """Return ``max_position_embeddings``, or None where nothing gives it."""
        window = self._get("max_position_embeddings")
        return None if window is None else require_length("max_position_embeddings", window)

    def layers(self) -> dict[str, tuple[Parameters, int]]:
        """Return the rope parameters and the head dimension of each type of layer; a single type is ``"all"``.

        Raises:
            ValueError: a value is missing or is not what its key should hold.
        """
        parameters = self._stated_parameters()
        nested = {name: part for name, part in parameters.items() if isinstance(part, Mapping)}
        if nested:
            return self._nested_layers(parameters, nested)
        two_bases = TWO_BASES.get(self.model_type or "")
        if two_bases is None and self._own("rope_local_base_freq") is not None:
            two_bases = TWO_BASES["gemma3_text"]
        if two_bases is not None:
            return self._layers_of_two_bases(parameters, *two_bases)
        only = _standard(parameters)
        self._report_other_base(only)
        return {"all": self._complete(self._with_original_length(only))}

    def _stated_parameters(self) -> Mapping[str, Any]:
        older, todays = self._own("rope_scaling"), self._own("rope_parameters")
        for key, value in (("rope_scaling", older), ("rope_parameters", todays)):
            if value is not None and not isinstance(value, Mapping):
                raise ValueError(f"{key} must be a dictionary or null: got {key}={value!r}")
        if older and todays and older != todays:
            self.warnings.append("rope_scaling and rope_parameters differ: rope_scaling is used, as transformers does")
        return older or self._get("rope_parameters") or {}

    def _nested_layers(
        self, parameters: Mapping[str, Any], nested: Mapping[str, Any]
    ) -> dict[str, tuple[Parameters, int]]:
        beside = sorted(name for name, value in parameters.items() if name not in nested and value is not None)
        if beside:
            self.assumptions.append(f"{', '.join(beside)} beside the types of layers are ignored, as in transformers")
        without = sorted(name for name, value in parameters.items() if value is None and name.endswith("_attention"))
        if without:
            self.assumptions.append(f"layers of type {', '.join(without)} have no rotary embedding")
        head_dims = self._head_dims_of_layers()
        self._why_not_read = "rope_parameters has its own for each type of layer"
        return {name: self._complete(_standard(part), head_dims.get(name)) for name, part in nested.items()}

    def _layers_of_two_bases(
        self, parameters: Mapping[str, Any], full_key: str, sliding_key: str, scales_both: bool
    ) -> dict[str, tuple[Parameters, int]]:
        full = _standard(parameters)
        sliding = dict(full) if scales_both else {"rope_type": "default"}
        for part, key in ((full, full_key), (sliding, sliding_key)):
            base = self._get(key)
            if base is not None:
                part.setdefault("rope_theta", base)
        self.assumptions.append(f"sliding_attention layers turn at {sliding_key}, full_attention layers at {full_key}")
        return {"sliding_attention": self._complete(sliding), "full_attention": self._complete(full)}

    def _complete(self, parameters: Parameters, head_dim: int | None = None) -> tuple[Parameters, int]:
        """Add what the file says outside the dictionary, and bring older types up to date."""
        self._modernise_type(parameters)
        self._add_trained_window(parameters)
        if "rope_theta" not in parameters:
            parameters["rope_theta"] = self._base()
        partial = parameters.get("partial_rotary_factor", self._get("partial_rotary_factor"))
        head_dim = self._head_dim(partial) if head_dim is None else head_dim
        rotary_dim = self._get("rotary_dim")
        if partial is None and rotary_dim is not None:
            partial = require_length("rotary_dim", rotary_dim) / head_dim
            if head_dim * partial < rotary_dim:  # as for 30 of 44, since int(44 * (30 / 44)) is 29
                partial = math.nextafter(partial, 1.0)
        if partial is not None:
            parameters.setdefault("partial_rotary_factor", partial)
        return parameters, head_dim

    def _modernise_type(self, parameters: Parameters) -> None:
        rope_type = str(parameters.get("rope_type"))
        if rope_type in _OLDER_TYPES:
            parameters["rope_type"] = _OLDER_TYPES[rope_type]
            self.assumptions.append(f"rope_type={rope_type!r} is an older name for {_OLDER_TYPES[rope_type]!r}")
        if rope_type == "dynamic" and parameters.get("alpha") and str(self.model_type).startswith("hunyuan"):
            alpha = parameters["alpha"]
            parameters.clear()
            parameters.update(rope_type="ntk", factor=alpha)
            self.assumptions.append(f"Hunyuan's 'dynamic' with alpha={alpha} is static NTK-aware scaling by it")

    def _add_trained_window(self, parameters: Parameters) -> None:
        key, trained = "original_max_position_embeddings", TRAINED_WINDOWS.get(self.model_type or "")
        if parameters.get("rope_type") == "linear" and key not in parameters and trained is not None:
            parameters[key] = trained
            self.assumptions.append(f"{key}={trained}, with which model_type={self.model_type!r} was trained")

    def _base(self) -> float:
        base = self._get("rope_theta")
        if base is not None:
            return base
        note = f"rope_theta={DEFAULT_BASE:g} is assumed: none is given, and"
        if self.model_type in MODEL_DEFAULTS:
            self.assumptions.append(f"{note} transformers takes it for model_type={self.model_type!r}")
        elif any(_speaks_of_rope(key) for key in self._config):
            self.warnings.append(f"{note} what model_type={self.model_type!r} takes is not known here")
        else:
            nowhere = "no key speaks of rotary embeddings; does the model have them at all?"
            self.warnings.append(f"{note} {self._unread_parts() or nowhere}")
        return DEFAULT_BASE

    def _unread_parts(self) -> str:
        """Words for the parts of the file that speak of rotary embeddings and are not read; empty if there are none."""
        parts = {key: part for key, part in self._config.items() if key not in self._read and isinstance(part, Mapping)}
        names = [key for key, part in parts.items() if any(_speaks_of_rope(str(inner)) for inner in part)]
        return f"{', '.join(names)}, which speaks of rotary embeddings, is not read" if names else ""

    def _report_other_base(self, parameters: Parameters) -> None:
        inside, outside = parameters.get("rope_theta"), self._own("rope_theta")
        if None not in (inside, outside) and inside != outside:
            self.warnings.append(f"rope_theta={inside} in the dictionary is used, and {outside} outside it ignored")

    def _with_original_length(self, parameters: Parameters) -> Parameters:
        """Phi-3 and others keep the original length outside the dictionary; there it wins, as in transformers."""
        key = "original_max_position_embeddings"
        rope_type = str(parameters.get("rope_type"))
        rope_type = _OLDER_TYPES.get(rope_type, rope_type)
        outside = self._get(key) if rope_type in _SCALED_FROM_ORIGINAL else None
        if outside is not None:
            inside = parameters.get(key, outside)
            if inside != outside:
                self.warnings.append(f"{key}={outside} outside the dictionary is used, and {inside} in it ignored")
            parameters[key] = outside
        return parameters

    def _head_dim(self, partial: Any) -> int:
        """The dimension of a head, or of the part of it that alone rotates (DeepSeek's latent attention)."""
        rotary_part = self._get("qk_rope_head_dim")
        if rotary_part is not None and partial in (None, 1):
            self.assumptions.append(f"head_dim is qk_rope_head_dim={rotary_part}, the part of a head that rotates")
            return require_length("qk_rope_head_dim", rotary_part)
        sizes = (self._own("hidden_size"), self._own("num_attention_heads"))
        is_given_beside = self._own("head_dim") is None and "head_dim" in self._given
        head_dim = self._get("head_dim")
        if head_dim is not None and not (is_given_beside and all(sizes)):  # the file's own sizes win over what is given
            return require_length("head_dim", head_dim)
        if rotary_part is not None and self._own("qk_nope_head_dim") is not None:
            return require_length("qk_rope_head_dim", rotary_part) + require_length(
                "qk_nope_head_dim", self._own("qk_nope_head_dim")
            )
        hidden_size, heads = self._get("hidden_size"), self._get("num_attention_heads")
        if hidden_size is None or heads is None:
            unread = self._unread_parts()
            raise ValueError(
                "head_dim must be given, or hidden_size and num_attention_heads: got none of head_dim, "
                f"hidden_size={hidden_size}, num_attention_heads={heads}" + (f"; {unread}" if unread else "")
            )
        size = require_length("hidden_size", hidden_size)
        head_dim, rest = divmod(size, require_length("num_attention_heads", heads, at_least=1))
        if rest:
            self.warnings.append(
                f"hidden_size={size} should be a multiple of num_attention_heads={heads}: head_dim={head_dim} is "
                "rounded down"
            )
        self.assumptions.append(f"head_dim={head_dim} is hidden_size / num_attention_heads = {size} / {heads}")
        return require_length("hidden_size // num_attention_heads", head_dim)

    def _head_dims_of_layers(self) -> dict[str, int]:
        """Gemma 4's heads are wider in the layers that see everything: as it was published, and as it is saved now."""
        types, overrides = self._own("layer_types"), self._own("per_layer_config")
        if isinstance(types, list) and isinstance(overrides, Mapping):
            return {_type_of_layer(types, i): part["head_dim"] for i, part in overrides.items() if "head_dim" in part}
        wide = self._get("global_head_dim")
        return {} if wide is None else {"full_attention": require_length("global_head_dim", wide)}

    def report_unread(self) -> None:
        """Add warnings for keys that speak of RoPE, or nearly so, and were not read."""
        known = self._read | _WITHOUT_EFFECT
        stated = sorted(key for key, value in self._config.items() if value is not None and key not in known)
        meant = {key: match for key in stated if (match := _nearly_a_rope_key(key)) is not None}
        self.warnings += [f"{key}: not known and ignored; is {match} meant?" for key, match in meant.items()]
        unread = [key for key in stated if _speaks_of_rope(key) and key not in meant]
        for keys, why in (
            ([key for key in unread if key in _ROPE_KEYS], f"ignored, since {self._why_not_read}"),
            ([key for key in unread if key not in _ROPE_KEYS], "not known and ignored"),
        ):
            if keys:
                self.warnings.append(f"{', '.join(keys)}: {why}")
        if without := _other_positions(self._config):
            self.warnings.append(f"{without}: with this a model has no rotary embeddings; they are read all the same")
        if outside := _scaling_keys_of(self._config):
            self.warnings.append(f"{', '.join(outside)}: ignored outside rope_scaling and rope_parameters")


def _speaks_of_rope(key: str) -> bool:
    return "rope" in key.lower() or "rotary" in key.lower()


def _other_positions(config: Mapping[str, Any]) -> str:
    """The key and value that give the model other positions than rotary ones, or none at all; empty if none does."""
    if config.get("alibi") is True:
        return "alibi=True"
    # Other names tell nothing: ModernBERT's file says "absolute" and mmBERT's "sans_pos", and both models have RoPE.
    kind = config.get("position_embedding_type")
    return f"position_embedding_type={kind!r}" if kind in ("nope", "alibi") else ""


def _nearly_a_rope_key(key: str) -> str | None:
    """The key that ``key`` is a misspelling of, if any."""
    matches = difflib.get_close_matches(key.lower(), _ROPE_KEYS, n=1, cutoff=0.85)
    return matches[0] if matches and key not in _ROPE_KEYS else None


def _scaling_keys_of(config: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in _SCALING_KEYS & config.keys() if config[key] is not None)


def _type_of_layer(types: list[Any], index: Any) -> Any:
    if not str(index).isdecimal() or int(index) >= len(types):
        raise ValueError(f"per_layer_config must number the {len(types)} layers of layer_types from 0: got {index!r}")
    return types[int(index)]


def _standard(parameters: Mapping[str, Any]) -> Parameters:
    """A copy without nulls, and with the older ``type`` renamed where there is no ``rope_type``."""
    standard = {key: value for key, value in parameters.items() if value is not None}
    older = standard.get("type")
    if "rope_type" not in standard and (
        older is not None or not standard.keys() - {"rope_theta", "partial_rotary_factor"}
    ):
        standard["rope_type"] = "default" if older is None else older
    if standard.get("rope_type") == older:
        standard.pop("type", None)
    return standard
