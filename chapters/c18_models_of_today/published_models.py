"""What a published configuration builds, layer by layer: found by asking transformers' own model.
Chapter 18.

The model is built small, with random weights, and with as many layers as the file says. Every layer
is given the same token at every place and attention returns zeros, so that tokens differ by their
positions alone: what differs from one key to the next is what the layer makes of the position. A
function in the place of attention reads it off. What still mixes tokens is no attention: a
convolution, or a state that is carried along.
"""

import copy
import inspect
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.rope.config import as_transformers, text_part
from course_utils.table import Table

__all__ = ["COPIES", "PUBLISHED", "Layer", "layer_table", "other_table", "read_layers"]

# Models' config.json; keys that bear neither on positions, norms nor attention are left out, and so
# are those that are null. Those of COPIES were read in others' copies, as chapter 18 says.
PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
COPIES = ("Qwen3 8B", "Qwen2.5-VL 7B", "GLM-4 9B (0414)", "Command R7B")
FAR = 131_072  # how many tokens there are before the one whose temperature and reach are read
_NOT_EXCHANGED = "its code does not let its attention be exchanged"
_BEFORE = 32  # tokens at position 0 before those that are read: a convolution forgets the start
# What a small model is built with, where its configuration has such a key. The dimension of a head,
# the number of layers and all that is about positions stay as published.
_SMALL = {
    **dict.fromkeys(
        ("intermediate_size", "moe_intermediate_size", "intermediate_size_mlp", "q_lora_rank"), 16
    ),
    **dict.fromkeys(("shared_expert_intermediate_size", "kv_lora_rank", "o_lora_rank"), 16),
    **dict.fromkeys(
        ("num_attention_heads", "num_key_value_heads", "num_local_experts", "num_experts"), 2
    ),
    **dict.fromkeys(("num_experts_per_tok", "n_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "hidden_size_per_layer_input"), 8),
    **dict.fromkeys(("linear_num_heads", "linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_head_dim", "linear_key_head_dim", "linear_value_head_dim"), 16),
    "mamba_chunk_size": 16,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Layer:
    """What one layer was seen to do.

    Args:
        index: which layer, from 0.
        max_positions: the model's ``max_position_embeddings``; 0 where it has none.
        head_dim: dimensions of a query and a key of one head; 0 in a layer without attention.
        frequencies: (turning dimensions / 2,) radians per position, fast to slow; none in a layer
            without positions.
        base: the base and the way of scaling, as the configuration names them for a layer that
            turns; "added" where the embedding has the positions in it.
        sees: the keys that a query may see in a long text: "all", a number, "chunks of" a number,
            or how many are chosen; "" without attention.
        window: how many of them it sees as they are, where that is not all.
        besides: what else mixes tokens: "a state", "the last" few, "in any order", or "".
        norms: where norms stand in the branch that mixes tokens and in the MLP's: before ("pre"),
            after ("post"), or both.
        qk_norm: "each head", "all heads" as one row, or "" for none.
        sink: whether the softmax has a column that stands for no key.
        scale: what scores are multiplied by, times √head_dim; what cosines and sines are multiplied
            by counts twice, for a query and a key.
        temperature: what a query after 131,072 tokens is multiplied by, over the first.
    """

    index: int
    max_positions: int = 0
    head_dim: int = 0
    frequencies: tuple[float, ...] = ()
    base: str = ""
    sees: str = ""
    window: int | None = None
    besides: str = ""
    norms: str = ""
    qk_norm: str = ""
    sink: bool = False
    scale: float = 0.0
    temperature: float = 1.0

    @property
    def kind(self) -> tuple[Any, ...]:
        """All but the index, and of the frequencies how many: equal for layers of one kind."""
        return len(self.frequencies), *(
            v for k, v in vars(self).items() if k not in ("index", "frequencies")
        )


def read_layers(config: str | Path | Mapping[str, Any], length: int = 2**22) -> list[Layer]:
    """Return what each layer does in the model of a published configuration. Chapter 18.

    ``config`` is a ``config.json`` as ``from_config`` takes it; of models with several parts the
    text model is built. ``length`` is that of the text, in tokens: the frequencies of ``dynamic``
    and ``longrope`` depend on it, and slow ones are read less well off a short text. A file that
    transformers does not read, a model that attends to later tokens, and one whose code does not
    let its attention be exchanged are ValueErrors, in a sentence.
    """
    text = text_part(config)
    published = as_transformers(text)
    try:
        return _read(_small_model(published), length)
    except Exception as error:  # whatever the code of some model raises
        own = "course_probe" in str(error)  # it looks for attention in a list of its own
        reason = _NOT_EXCHANGED if own else " ".join(str(error).split())
        raise ValueError(f"model_type={text['model_type']!r} is not read: {reason}") from error


def _read(model: Any, length: int) -> list[Layer]:
    doubling = torch.tensor([0, *(2**n for n in range((length - 1).bit_length()))])
    ear = _Ear(model)
    ear.hear([0] * _BEFORE + [0, 1])
    far = FAR
    if ear.codes_added:  # and there may be no code for far positions
        doubling, far = torch.tensor([0, 1]), 1
    turned = ear.hear([0] * _BEFORE + doubling.tolist())
    try:
        distant = ear.hear([far], cache=_Cache(far))
    except (AttributeError, TypeError):  # its code wants more of a cache than a length
        distant = ear.hear([far])
    unlike = ear.hear(list(range(7)), equal=False)
    rows = []
    longest = getattr(model.config, "max_position_embeddings", None) or 0
    for index, besides in ear.besides.items():
        layer = Layer(index, longest, besides=besides, norms=ear.norms.get(index, ""))
        if turned[index]:
            calls = turned[index][0], distant[index][0], unlike[index][0]
            layer = replace(layer, **_attention(model.config, index, ear, doubling, *calls))
        elif besides and not ear.has_states:
            raise ValueError(_NOT_EXCHANGED)
        rows.append(layer)
    return rows


def _attention(config, index, ear, doubling, turned, distant, unlike) -> dict[str, Any]:
    """What one layer's attention is seen to do: the fields of a Layer."""
    first, head_dim = turned.query[:, :, :1], turned.query.shape[-1]
    key = turned.key[0, :, _BEFORE : _BEFORE + len(doubling)]  # what comes after is of blocks
    frequencies = () if ear.codes_added else _frequencies(key, doubling)
    base = _base(config, index, turned.module) if frequencies else ""
    temperature = (distant.query.norm() / first.norm()).item()
    sees, window = _sees(distant.mask, turned.module, config)
    in_table = _in_table(ear.tables[index], turned.module) if frequencies else 1.0
    return {
        "head_dim": head_dim,
        "frequencies": frequencies,
        "base": "added" if ear.codes_added else base,
        "sees": sees,
        "window": window,
        "qk_norm": _qk_norm(unlike.query[0]),
        "sink": getattr(turned.module, "sinks", None) is not None,
        "scale": round(turned.scaling * in_table**2 * math.sqrt(head_dim), 4),
        "temperature": 1.0 if ear.codes_added else round(temperature, 4),
    }


def layer_table(models: Mapping[str, list[Layer]], caption: str = "") -> Table:
    """Return a row for each kind of layer of each model: which layers, their positions, and what
    they see. Chapter 18."""

    def positions(one: Layer) -> tuple[str, ...]:
        turn = one.frequencies
        turns = f"{2 * len(turn)} of {one.head_dim}" if turn else "none"
        slowest = _rounded(2 * math.pi / turn[-1]) if turn else ""
        sees = ", ".join(filter(None, (one.sees, one.besides)))
        return turns, one.base, slowest, sees, f"{one.max_positions:,}"

    columns = ("turn", "base", "slowest turn", "sees", "max positions")
    return _table(models, columns, positions, caption)


def other_table(models: Mapping[str, list[Layer]]) -> Table:
    """Return the rows of ``layer_table`` with the other columns, folded: norms, sinks, scales."""
    caption = (
        "The same layers. Norms: before a branch (pre), after it (post), or both. "
        "scale·√d: 1 where scores are divided by √d; the factor in cosines and sines counts, for "
        f"query and key. × at {FAR:,}: what a query there is multiplied by, over the first."
    )

    def others(one: Layer) -> tuple[str, ...]:
        scale = f"{one.scale:.3g}" if one.sees else ""
        warmth = "" if one.temperature == 1 else f"{one.temperature:.3g}"
        return one.norms, one.qk_norm, "yes" if one.sink else "", scale, warmth

    columns = ("norms", "QK norm", "sink", "scale·√d", f"× at {FAR:,}")
    return _table(models, columns, others, caption, folded=True)


def _table(
    models: Mapping[str, list[Layer]],
    columns: tuple[str, ...],
    cells: Callable[[Layer], tuple[str, ...]],
    caption: str,
    folded: bool = False,
) -> Table:
    """A row for each kind of layer, of each model: the model, which layers, and ``cells``."""
    rows = []
    for name, found in models.items():
        kinds: dict[tuple[Any, ...], list[Layer]] = {}
        for layer in found:
            kinds.setdefault(layer.kind, []).append(layer)
        for alike in kinds.values():
            which = _listed([layer.index for layer in alike], len(found))
            rows.append((name, which, *cells(alike[0])))
            name = ""
    return Table(("model", "layers", *columns), rows, caption, folded=folded)


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


def _open_mask(*_, mask_function, q_length, kv_length, **__):
    # hides nothing, and carries the function that can be asked at any two positions
    mask = torch.zeros(1, 1, q_length, kv_length)
    mask.rule = mask_function  # type: ignore[attr-defined]
    return mask


def _small_model(config: Any) -> Any:
    from transformers import AutoModel
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if config.is_encoder_decoder:
        raise ValueError("it is an encoder with a decoder")
    ALL_ATTENTION_FUNCTIONS.register("course_probe", _probe)
    ALL_MASK_ATTENTION_FUNCTIONS.register("course_probe", _open_mask)
    config = copy.deepcopy(config)
    stated = vars(config)  # where layers differ in a key, asking the object raises
    own_head_dim = stated.get("head_dim")
    head_dim = own_head_dim or config.hidden_size // stated.get("num_attention_heads", 1)
    hidden_size = 64 if own_head_dim else 2 * head_dim
    for key, value in {**_SMALL, "hidden_size": hidden_size}.items():
        if stated.get(config.attribute_map.get(key, key)) is not None:
            setattr(config, key, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModel.from_config(config, attn_implementation="course_probe").float().eval()


class _Ear:
    """Gives every layer of a model equal tokens, and hears what the layer does with them."""

    def __init__(self, model: Any) -> None:
        self.model = model
        depth = model.config.num_hidden_layers
        lists = (part for part in model.modules() if isinstance(part, nn.ModuleList))
        layers = next((part for part in lists if len(part) == depth), None)
        if layers is None:
            raise ValueError("its layers are in no list")
        self.layers = list(layers)
        kinds = getattr(model.config, "layer_types", None) or ()
        other = any("attention" not in kind or "linear" in kind for kind in kinds)
        self.has_states = other or getattr(model, "_is_stateful", False)
        self.codes_added = False  # whether tokens differ before the first layer
        self.calls: dict[int, list[_Call]] = {}
        self.tables: dict[int, Any] = {}  # the cosines and sines that a layer is given
        self.besides: dict[int, str] = {}
        self.norms: dict[int, str] = {}
        self._like: dict[tuple[str, ...], tuple[str, str]] = {}  # by the types of a layer's parts

    @torch.no_grad()
    def hear(
        self, positions: list[int], equal: bool = True, cache: Any = None
    ) -> dict[int, list[_Call]]:
        """What reaches attention in each layer with equal tokens at these positions, or with others
        than equal ones."""
        self.calls, self.equal = {}, equal
        ids = (
            torch.ones(len(positions), dtype=torch.long)
            if equal
            else 1 + torch.arange(len(positions))
        )
        named: dict[str, Any] = {"position_ids": torch.tensor([positions]), "use_cache": False}
        named |= {"cache": cache, "past_key_values": cache}  # transformers 5.24's name, and before
        known = inspect.signature(self.model.forward).parameters
        with self._hooks(len(positions)):
            self.model(ids[None], **{key: value for key, value in named.items() if key in known})
        return self.calls

    @contextmanager
    def _hooks(self, tokens: int) -> Iterator[None]:
        hooks = []
        for index, block in enumerate(self.layers):
            takes_and_gives: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
            enter = partial(self._enter, index, tokens)
            leave = partial(self._leave, index, tokens, takes_and_gives)
            hooks.append(block.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(block.register_forward_hook(leave, with_kwargs=True))
            for name, part in block.named_children():
                note = partial(_note, takes_and_gives[_role(name, part)])
                hooks.append(part.register_forward_hook(note, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            _seen.clear()

    def _enter(self, index, tokens, block, args, kwargs):
        _seen.clear()
        self.tables[index] = kwargs.get("position_embeddings")
        hidden, given = _hidden(args, kwargs)
        if not self.equal:  # large, so that no ε counts where a layer begins without a norm
            return given(hidden * (1e3 / hidden.std()))
        dim = hidden.shape.index(tokens)
        equal = hidden.narrow(dim, 0, 1).expand_as(hidden)
        if index == 0 and not torch.allclose(hidden, equal):
            self.codes_added = True
        return None if self.codes_added else given(equal.contiguous())

    def _leave(self, index, tokens, takes_and_gives, block, args, kwargs, output):
        self.calls[index] = list(_seen)
        parts = tuple(type(part).__name__ for part in block.modules())
        if index in self.besides:
            return
        if parts in self._like and not _seen:  # nothing of it was run
            self.besides[index], self.norms[index] = self._like[parts]
            return
        self.norms[index] = _norms(block, takes_and_gives)
        if parts not in self._like:
            attends = bool(_seen)
            hidden, given = _hidden(args, kwargs)
            besides = _besides(block, hidden, given, hidden.shape.index(tokens))
            self._like[parts] = besides, self.norms[index]
            if not attends:  # and the others like it need not be run
                self._skip(parts, isinstance(output, tuple))
        self.besides[index] = self._like[parts][0]

    def _skip(self, parts, gives_tuple):
        def forward(hidden_states, *_, **__):
            return (hidden_states, None) if gives_tuple else hidden_states

        for block in self.layers:
            if tuple(type(part).__name__ for part in block.modules()) == parts:
                block.forward = forward


def _hidden(args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """What a layer is given, and its arguments with something else in that place."""
    if args:
        return args[0], lambda hidden: ((hidden, *args[1:]), kwargs)
    return kwargs["hidden_states"], lambda hidden: ((), {**kwargs, "hidden_states": hidden})


def _note(pairs: list[tuple[Any, Any]], _: Any, args: Any, kwargs: Any, output: Any) -> None:
    takes = args[0] if args else kwargs.get("hidden_states")
    pairs.append((takes, output[0] if isinstance(output, tuple) else output))


def _role(name: str, part: nn.Module) -> str:
    if "norm" in type(part).__name__.lower():
        return "norm"
    is_mlp = any(word in name for word in ("mlp", "moe", "feed_forward", "ffn", "expert"))
    return "mlp" if is_mlp else "none" if "dropout" in name else "mixer"


def _besides(block: nn.Module, hidden: Tensor, given: Callable, dim: int) -> str:
    """What mixes tokens in a layer whose attention returns zeros: by which tokens the last one is
    moved, and whether their order counts."""

    def last(x):
        args, kwargs = given(x)
        output = block.forward(*args, **kwargs)
        output = output[0] if isinstance(output, tuple) else output
        return output.select(dim, -1)

    shape = hidden.shape
    x = torch.linspace(-2, 2, 97)[torch.arange(hidden.numel()) % 97].view(shape).requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(last(x).square().sum(), x)
    moves = gradient.movedim(dim, 0).flatten(1).abs().amax(1) > 0  # (T,)
    reach = len(moves) - int(moves.int().argmax())
    if reach == 1:
        return ""
    order = torch.arange(len(moves))
    order[-2], order[-3] = order[-3].item(), order[-2].item()
    in_order = not torch.allclose(last(x), last(x.index_select(dim, order)))
    return f"the last {reach}" if reach < _BEFORE else "a state" if in_order else "in any order"


def _norms(block: nn.Module, heard: Mapping[str, list[tuple[Any, Any]]]) -> str:
    """Where a layer's norms stand, told by which tensors they take and give."""
    words = []
    for role in ("mixer", "mlp"):
        if not heard[role]:
            continue
        takes, gives = zip(*heard[role], strict=True)
        pre = ["pre"] * any(output is taken for _, output in heard["norm"] for taken in takes)
        post = ["post"] * any(taken is given for taken, _ in heard["norm"] for given in gives)
        words.append(" + ".join(pre + post) or "none")
    if not heard["norm"] or not words:
        return ""
    both = heard["mixer"] and heard["mlp"]
    together = both and heard["mixer"][0][0] is heard["mlp"][0][0]
    places = f"{words[0]}, parallel" if together else " / ".join(dict.fromkeys(words))
    return f"{'layer norm' if _forgets_mean(block) else 'RMS'}, {places}"


@torch.no_grad()
def _forgets_mean(block: nn.Module) -> bool:
    norm = next(part for part in block.children() if "norm" in type(part).__name__.lower())
    x = torch.linspace(-1, 2, getattr(norm, "weight", torch.empty(64)).numel())
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


def _in_table(table: Any, attention: Any) -> float:
    """What cosines and sines are multiplied by: the length of one pair of them."""
    if isinstance(table, dict):  # DeepSeek-V4's
        table = table[attention.rope_layer_type]
    if torch.is_tensor(table) and table.is_complex():  # Llama 4's
        return table.abs().mean().item()
    if table is None:
        return 1.0
    cosines, sines = table
    return torch.hypot(cosines, sines).mean().item()


def _qk_norm(query: Tensor) -> str:
    """Which lengths are the same for unlike tokens, of queries (H, T, head_dim)."""
    squares = query.square().sum(-1)
    for name, lengths in {"each head": squares, "all heads": squares.sum(0, keepdim=True)}.items():
        if (lengths.std(-1) < 1e-3 * lengths.mean(-1)).all():
            return name
    return ""


def _sees(mask: Any, attention: Any, config: Any) -> tuple[str, int | None]:
    """A layer's ``sees`` and ``window``."""
    if getattr(attention, "indexer", None) is not None:
        return f"{config.index_topk:,} chosen", config.index_topk
    rule = getattr(mask, "rule", None)
    if rule is None:
        raise ValueError("its code makes masks of its own")
    keys, zero = torch.arange(FAR), torch.tensor(0)
    if bool(rule(zero, zero, zero, zero + 1)):
        raise ValueError("it attends to later tokens")
    counts = [int(rule(zero, zero, torch.tensor(at), keys).sum()) for at in (FAR - 1, FAR - 2)]
    if counts[0] == FAR:
        return "all", None
    sees = f"{counts[0]:,}" if counts[0] == counts[1] else f"chunks of {counts[0]:,}"
    if compressor := getattr(attention, "compressor", None):
        which = f"{config.index_topk:,} chosen " if hasattr(compressor, "indexer") else ""
        sees += f" + {which}blocks of {compressor.compress_rate}"
    return sees, counts[0]


def _base(config: Any, index: int, attention: Any) -> str:
    parameters = config.rope_parameters
    if bases := getattr(config, "layer_rope_theta", None):
        parameters = {**parameters, "rope_theta": bases[index]}
    if "rope_theta" not in parameters:
        name = getattr(attention, "rope_layer_type", None)  # DeepSeek-V4's
        parameters = parameters[name or config.layer_types[index]]
    scaled = {"default": "", "linear": "PI"}.get(parameters["rope_type"], parameters["rope_type"])
    factor = f" {parameters['factor']:g}" if parameters.get("factor") else ""
    sections = (
        f", M-RoPE {'+'.join(map(str, parameters['mrope_section']))}"
        if parameters.get("mrope_section")
        else ""
    )
    return f"{parameters['rope_theta']:,.0f}" + (f", {scaled}{factor}" if scaled else "") + sections


def _listed(indices: list[int], depth: int) -> str:
    """Which of ``depth`` layers these are, and how many: "3, 7, …, 31 (8)"; "all but" where the
    others are the shorter list."""
    if len(indices) == depth:
        return f"all {depth}"
    own = _in_steps(indices)
    others = "all but " + _in_steps([index for index in range(depth) if index not in indices])
    said = min(own, others, key=len)
    return said if said == own and len(indices) < 4 else f"{said} ({len(indices)})"


def _in_steps(indices: list[int]) -> str:
    """Numbers that rise, with "…" for the inner ones of equal steps: "0, 5, 11, …, 47"."""
    words, at = [], 0
    while at < len(indices):
        end = at + 1
        while end + 1 < len(indices) and (
            indices[end + 1] - indices[end] == indices[at + 1] - indices[at]
        ):
            end += 1
        if end - at < 3:  # too few to leave any out
            words.append(f"{indices[at]}")
            at += 1
        else:
            words.append(f"{indices[at]}, {indices[at + 1]}, …, {indices[end]}")
            at = end + 1
    return ", ".join(words)


def _rounded(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"
