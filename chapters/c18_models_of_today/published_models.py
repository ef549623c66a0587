"""What a published configuration builds, layer by layer: found by asking transformers' own model.
Chapter 18.

The model is built small, with random weights, and with as many layers as the file says. All tokens
are the same one and attention hands on zeros, so that tokens differ by their positions alone: what
differs from one key to the next is what the layer makes of the position. A function in the place of
attention reads it off.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.models.decoding import with_cache
from course_utils.rope.config import as_transformers, text_part
from course_utils.table import Table

__all__ = ["PUBLISHED", "Layer", "layer_table", "read_layers"]

# Twelve models' config.json, as their publishers have them; keys that bear neither on positions,
# norms nor attention are left out, and so are those that are null. Four were read in copies, as
# chapter 18 says.
PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
FAR = 131_072  # how many tokens there are before the one whose temperature and reach are read
# What a small model is built with, where its configuration has such a key. The dimension of a head,
# the number of layers and all that is about positions stay as published.
_SMALL = {
    **dict.fromkeys(
        ("intermediate_size", "moe_intermediate_size", "intermediate_size_mlp", "q_lora_rank"), 16
    ),
    **dict.fromkeys(("shared_expert_intermediate_size", "kv_lora_rank"), 16),
    **dict.fromkeys(
        ("num_attention_heads", "num_key_value_heads", "num_local_experts", "num_experts"), 2
    ),
    **dict.fromkeys(("num_experts_per_tok", "n_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "hidden_size_per_layer_input"), 8),
    "pad_token_id": None,
}
# the first head's queries are the first rows
_QUERY_WEIGHTS = (
    "q_proj",
    "q_b_proj",
    "qkv_proj",
    "query_key_value",
)


@dataclass(frozen=True)
class Layer:
    """What one layer was seen to do.

    Args:
        index: which layer, from 0.
        head_dim: dimensions of a query and a key of one head.
        frequencies: (turning dimensions / 2,) radians per position, fast to slow; none in a layer
            without positions.
        base: the base and the way of scaling, as the configuration names them for a layer that
            turns.
        sees: the keys that a query may see in a long text: "all", a number, or "chunks of" a
            number.
        norms: where norms stand in attention's branch and in the MLP's: before ("pre"), after
            ("post"), or both.
        qk_norm: "each head", "all heads" as one row, or "" for none.
        sink: whether the softmax has a column that stands for no key.
        scale: what scores are multiplied by, times √head_dim.
        temperature: what a query after 131,072 tokens is multiplied by, over the first.
    """

    index: int
    head_dim: int
    frequencies: tuple[float, ...]
    base: str
    sees: str
    norms: str
    qk_norm: str
    sink: bool
    scale: float
    temperature: float

    @property
    def kind(self) -> tuple[Any, ...]:
        """All but the index, and of the frequencies how many: equal for layers of one kind."""
        return len(self.frequencies), *(
            v for k, v in vars(self).items() if k not in ("index", "frequencies")
        )


def read_layers(config: str | Path | Mapping[str, Any], length: int = 2**22) -> list[Layer]:
    """Return what each layer with softmax attention does in the model of a published configuration.
    Chapter 18.

    ``config`` is a ``config.json`` as ``from_config`` takes it; of models with several parts the
    text model is built. ``length`` is that of the text, in tokens: the frequencies of ``dynamic``
    and ``longrope`` depend on it, and slow ones are read less well off a short text. A file that
    transformers does not read is a ValueError.
    """
    model = _small_model(text_part(config))
    doubling = torch.tensor([0, *(2**n for n in range((length - 1).bit_length()))])
    with _places(model) as places:
        turned = _calls(model, doubling)
    norm = "layer norm" if _forgets_mean(model.layers[0]) else "RMS"
    distant = _calls(model, torch.tensor([FAR]), before=FAR)
    with torch.no_grad():
        for call in turned:
            maps = (getattr(call.module, name, None) for name in _QUERY_WEIGHTS)
            next(filter(None, maps)).weight[: call.query.shape[-1]] *= 3
    tripled = _calls(model, torch.tensor([0]))
    found = []
    for turns, far, times_3 in zip(turned, distant, tripled, strict=True):
        index, head_dim, first = (
            turns.module.layer_idx,
            turns.query.shape[-1],
            turns.query[:, :, :1],
        )
        frequencies = _frequencies(turns.key[0], doubling)
        measured = {
            "base": _base(model.config, index) if frequencies else "",
            "sees": _sees(far.mask),
            "norms": f"{norm}, {places[index]}",
            "qk_norm": _qk_norm(first, times_3.query),
            "sink": turns.others.get("s_aux") is not None,
            "scale": round(turns.scaling * math.sqrt(head_dim), 4),
            "temperature": round((far.query.norm() / first.norm()).item(), 4),
        }
        found.append(Layer(index, head_dim, frequencies, **measured))
    return found


def layer_table(models: Mapping[str, list[Layer]], caption: str = "") -> Table:
    """Return a row for each kind of layer of each model, and which layers are of it. Chapter 18."""
    rows = []
    for name, found in models.items():
        kinds: dict[tuple[Any, ...], list[Layer]] = {}
        for layer in found:
            kinds.setdefault(layer.kind, []).append(layer)
        for one, *others in kinds.values():
            turn = one.frequencies
            turns = f"{2 * len(turn)} of {one.head_dim}" if turn else "none"
            slowest = _rounded(2 * math.pi / turn[-1]) if turn else ""
            which = _listed([one.index, *(layer.index for layer in others)])
            warmth = "" if one.temperature == 1 else f"{one.temperature:.3g}"
            row = (
                name,
                which,
                turns,
                one.base,
                slowest,
                one.sees,
                one.norms,
                one.qk_norm,
                "yes" if one.sink else "",
            )
            rows.append((*row, f"{one.scale:.3g}", warmth))
            name = ""
    columns = (
        "model",
        "layers",
        "turn",
        "base",
        "slowest turn",
        "keys seen",
        "norms",
        "QK norm",
        "sink",
        "scale·√d",
    )
    return Table((*columns, f"× at {FAR:,}"), rows, caption)


@dataclass
class _Call:
    """What reached attention in one layer."""

    module: Any
    query: Tensor  # (1, H, T, head_dim)
    key: Tensor
    mask: Any
    scaling: float
    others: dict[str, Any]


class _Cache:
    """Says that it holds ``length`` tokens, and keeps none."""

    def __init__(self, length: int) -> None:
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    get_query_offset = get_seq_length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def update(self, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return key, value


_seen: list[_Call] = []


def _probe(module, query, key, value, attention_mask, scaling=None, **others):
    _seen.append(_Call(module, query, key, attention_mask, scaling, others))
    return query.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[-1]), None


def _mask_function(*_, mask_function, **__):
    # handed to attention in the place of a mask: it can be asked at any two positions
    return mask_function


def _small_model(text: Mapping[str, Any]) -> Any:
    from transformers import AutoModel
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register("course_probe", _probe)
    ALL_MASK_ATTENTION_FUNCTIONS.register("course_probe", _mask_function)
    config = as_transformers(text)
    head_dim = text.get("head_dim") or config.hidden_size // config.num_attention_heads
    for key, value in {
        **_SMALL,
        "hidden_size": 64 if text.get("head_dim") else 2 * head_dim,
    }.items():
        if getattr(config, key, None) is not None:
            setattr(config, key, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModel.from_config(config, attn_implementation="course_probe").float().eval()


@torch.no_grad()
def _calls(model: Any, positions: Tensor, before: int = 0) -> list[_Call]:
    """What reaches attention in each layer when one token stands at all these positions."""
    _seen.clear()
    ids = torch.ones(1, len(positions), dtype=torch.long)
    with_cache(model, ids, _Cache(before), position_ids=positions[None], use_cache=False)
    return list(_seen)


@contextmanager
def _places(model: Any) -> Iterator[dict[int, str]]:
    """Fill a dictionary: layer -> where its norms stand, told by which tensors they take and
    give."""
    places: dict[int, str] = {}
    heard: dict[str, list[tuple[Any, Any]]] = {}

    def listen(role):
        def hook(module, args, kwargs, output):
            given = args[0] if args else kwargs["hidden_states"]
            heard.setdefault(role, []).append(
                (given, output[0] if isinstance(output, tuple) else output)
            )

        return hook

    def conclude(index):
        def hook(*_):
            norms, words = heard.get("norm", []), []
            for role in ("attention", "mlp"):
                (given, result), *_rest = heard[role]
                pre = ["pre"] * any(given is output for _, output in norms)
                words.append(
                    " + ".join(pre + ["post"] * any(result is taken for taken, _ in norms))
                    or "none"
                )
            together = heard["attention"][0][0] is heard["mlp"][0][0]
            places[index] = (
                f"{words[0]}, parallel" if together else " / ".join(dict.fromkeys(words))
            )
            heard.clear()

        return hook

    hooks = []
    for index, block in enumerate(model.layers):
        for name, part in block.named_children():
            role = "attention" if "attn" in name or name == "attention" else "mlp"
            role = "norm" if "norm" in type(part).__name__.lower() else role
            if "dropout" not in name:
                hooks.append(part.register_forward_hook(listen(role), with_kwargs=True))
        hooks.append(block.register_forward_hook(conclude(index)))
    try:
        yield places
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def _forgets_mean(block: Any) -> bool:
    norm = next(part for part in block.children() if "norm" in type(part).__name__.lower())
    x = torch.linspace(-1, 2, norm.weight.numel())
    return torch.allclose(norm(x), norm(x + 1), atol=1e-3)


def _frequencies(key: Tensor, doubling: Tensor) -> tuple[float, ...]:
    """From keys (H, T, head_dim) at the positions 0, 1, 2, 4, ...: x(0) + x(2m) = 2 cos(f·m) x(m)
    in each dimension."""
    key = key.double()
    first, middle, last = key[:, :1], key[:, 1:-1], key[:, 2:]  # the last two: (H, T-2, head_dim)
    # (T-2, head_dim)
    cosine = ((first + last) * middle).sum(0) / (2 * middle.square().sum(0)).clamp_min(1e-30)
    moves = (key - first).abs().amax((0, 1)) > 1e-5 * key.abs().max()
    angle = cosine.clamp(-1, 1).acos() / doubling[1:-1, None]
    enough = cosine < 0.9
    enough[-1] = True
    at = enough.int().argmax(0)  # the first step that turns far enough, or the longest
    found = angle.gather(0, at[None])[0][moves].sort(descending=True).values
    return tuple(found.view(-1, 2).mean(-1).tolist())


def _qk_norm(plain: Tensor, times_3: Tensor) -> str:
    first, second = (times_3.square().sum((0, 2, 3)) / plain.square().sum((0, 2, 3)))[:2].tolist()
    return "all heads" if second < 0.99 else "each head" if first < 1.01 else ""


def _sees(mask: Any) -> str:
    keys = torch.arange(FAR)
    zero = torch.tensor(0)
    counts = (
        [int(mask(zero, zero, torch.tensor(at), keys).sum()) for at in (FAR - 1, FAR - 2)]
        if mask
        else [FAR]
    )
    if counts[0] == FAR:
        return "all"
    return f"{counts[0]:,}" if counts[0] == counts[1] else f"chunks of {counts[0]:,}"


def _base(config: Any, index: int) -> str:
    parameters = config.rope_parameters
    if "rope_theta" not in parameters:
        parameters = parameters[config.layer_types[index]]
    scaled = {"default": "", "linear": "PI"}.get(parameters["rope_type"], parameters["rope_type"])
    factor = f" {parameters['factor']:g}" if parameters.get("factor") else ""
    sections = (
        f", M-RoPE {'+'.join(map(str, parameters['mrope_section']))}"
        if parameters.get("mrope_section")
        else ""
    )
    return f"{parameters['rope_theta']:,.0f}" + (f", {scaled}{factor}" if scaled else "") + sections


def _listed(indices: list[int]) -> str:
    """The first layers, and how many there are: "3, 7, 11, … (8)"."""
    start = ", ".join(map(str, indices[:3]))
    return start if len(indices) < 4 else f"{start}, … ({len(indices)})"


def _rounded(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"
