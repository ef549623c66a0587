"""Chapter 19: the fourteen bugs: what an input may be, an ordinary one, what is right, what shows the bug."""

import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.bugs.base import Arguments, Between, Bug, Made, Tensors, below
from course_utils.norms.backward import batch_norm_backward
from course_utils.rope import RopeWarning, alibi_bias, apply_rope, rope_cos_sin, rope_frequencies, rope_inv_freq

__all__ = ["BUGS"]

_FOLDER = Path(__file__).parent
_TEXTS = tomllib.loads((_FOLDER / "bugs.toml").read_text(encoding="utf-8"))
_FLOAT_OR_HALF = (torch.float32, torch.bfloat16, torch.float16)
_FLAG = (False, True)
_HEADS = (1, 2, 4, 8, 16, 32)
_LAYERS = ("full_attention", "sliding_attention")
_REQUIRED = {"rope_theta", "factor", "original_max_position_embeddings"}
_ALLOWED = {"beta_fast", "beta_slow", "truncate"}


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng)


def _flip(rng: torch.Generator) -> bool:
    return bool(torch.rand(1, generator=rng) < 0.5)


def _batch_norm_or_gradient(x: Tensor, dy: Tensor | None) -> Tensor:
    return F.batch_norm(x, None, None, training=True) if dy is None else batch_norm_backward(dy, x)[0]


def _train(batches: Tensor, momentum: float) -> tuple[Tensor, Tensor, Tensor]:
    running_mean, running_var = batches.new_zeros(batches.shape[-1]), batches.new_ones(batches.shape[-1])
    for batch in batches:
        y = F.batch_norm(batch, running_mean, running_var, training=True, momentum=momentum)
    return y, running_mean, running_var


def _by_mode(x: Tensor, running_mean: Tensor, running_var: Tensor, training: bool, gradients: bool) -> Tensor:
    if (running_var < 0).any():
        raise ValueError("running_var must not be negative")
    return F.batch_norm(x, running_mean, running_var, training=training, momentum=0.0)


def _whole_batch(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    whole = torch.cat((a, b))
    return whole.mean(0), whole.var(0, correction=0)


def _rotate(x: Tensor, start: int) -> Tensor:
    positions = torch.arange(start, start + len(x))
    return apply_rope(x, *rope_cos_sin(positions, rope_inv_freq(x.shape[1]), dtype=torch.float64))


def _partial_rotate(x: Tensor, rotary_dim: int, base: float) -> Tensor:
    if rotary_dim % 2 or rotary_dim > x.shape[1]:
        raise ValueError(f"rotary_dim must be even and at most D: got {rotary_dim}, with D = {x.shape[1]}")
    return apply_rope(x, *rope_cos_sin(len(x), rope_inv_freq(rotary_dim, base), dtype=torch.float64))


def _alibi_bias(num_heads: int, query_length: int, key_length: int) -> Tensor:
    if query_length > key_length:
        raise ValueError(f"the queries are among the keys: got query_length={query_length}, key_length={key_length}")
    return alibi_bias(num_heads, query_length, key_length)


def _dynamic(lengths: Sequence[int], window: int, factor: float) -> Tensor:
    return rope_frequencies({"rope_type": "dynamic", "factor": factor}, 64, window, lengths[-1])[0]


def _yarn(rope_parameters: Mapping[str, Any], layer_type: str) -> Tensor:
    parameters = rope_parameters.get(layer_type, rope_parameters)
    keys = set(parameters) if isinstance(parameters, dict) else set()
    if not _REQUIRED <= keys <= _REQUIRED | _ALLOWED:
        wanted = f"{', '.join(sorted(_REQUIRED))}, and perhaps {', '.join(sorted(_ALLOWED))}"
        raise ValueError(f"the dictionary for {layer_type} must have {wanted}: got {', '.join(sorted(keys)) or 'none'}")
    if None in parameters.values():
        raise ValueError(f"an option that is not given must be left out: got null in the dictionary for {layer_type}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        return rope_frequencies({**parameters, "rope_type": "yarn"}, 64, None)[0]


def _yarn_options(rng: torch.Generator) -> Arguments:
    window, factor = {"original_max_position_embeddings": 4096}, 2.0 ** (1 + below(5, rng))
    options = {"rope_theta": 10_000.0, "factor": factor, **window, "truncate": _flip(rng)}
    return {"rope_parameters": options, "layer_type": _LAYERS[below(2, rng)]}


def _options_or_layers(rng: torch.Generator) -> dict[str, Any]:
    """Options as most files have them, or, as often, the same for each of the layer types."""
    options = _yarn_options(rng)["rope_parameters"]
    return dict.fromkeys(_LAYERS, options) if torch.rand((), generator=rng) < 0.5 else options


def _are_lengths(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and 1 <= len(value) <= 8
    return is_list and all(type(length) is int and 1 <= length <= 65_536 for length in value)


def _bug(letter: str, spec: Mapping[str, Any], **code: Any) -> Bug:
    text = dict(_TEXTS[letter])
    old, new = text.pop("mend")
    source = (_FOLDER / "pieces" / f"{letter.lower()}.py").read_text(encoding="utf-8")
    assert source.count(old) == 1, f"mend must name a text that is once in piece {letter}"
    text |= {"source": source, "mended_source": source.replace(old, new)}
    broken, mended = (_function(text[key], letter, text["function"]) for key in ("source", "mended_source"))
    return Bug(letter=letter, spec=spec, broken=broken, mended=mended, **code, **text)


def _function(source: str, letter: str, name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"__name__": f"piece_{letter.lower()}"}
    exec(compile(source, f"<piece {letter}>", "exec"), namespace)
    return namespace[name]


_BUGS = (
    _bug(
        "A",
        {"x": Tensors("NC", 1e5)},
        draw=lambda rng: {"x": _normal(rng, 4, 16)},
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        solution=lambda ordinary: {"x": torch.tensor([[8192.0, 8196.0]])},
    ),
    _bug(
        "B",
        {"x": Tensors("NC", 1e3), "weight": Tensors("C", 10), "bias": Tensors("C", 10)},
        draw=lambda rng: {
            "x": _normal(rng, 4, 16),
            "weight": 1 + 0.1 * _normal(rng, 16),
            "bias": 0.1 * _normal(rng, 16),
        },
        right=lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
        solution=lambda ordinary: {"x": 1e-3 * ordinary["x"]},
    ),
    _bug(
        "C",
        {"x": Tensors("NC", 1e3, _FLOAT_OR_HALF)},
        draw=lambda rng: {"x": _normal(rng, 4, 16).bfloat16()},
        right=lambda x: F.rms_norm(x, x.shape[-1:], eps=torch.finfo(torch.float32).eps),
        solution=lambda ordinary: {"x": torch.full((1, 4), 0.01, dtype=torch.bfloat16)},
    ),
    _bug(
        "D",
        {"x": Tensors("NC", 1e3), "dy": Tensors("NC", 1e3, or_none=True)},
        draw=lambda rng: {"x": _normal(rng, 16, 4), "dy": None},
        right=_batch_norm_or_gradient,
        solution=lambda ordinary: {"dy": F.one_hot(torch.tensor(0), 16).float()[:, None].expand(16, 4)},
    ),
    _bug(
        "E",
        {"batches": Tensors("SNC", 1e3), "momentum": Between(0, 1)},
        draw=lambda rng: {"batches": _normal(rng, 4, 256, 3), "momentum": 0.1},
        right=_train,
        solution=lambda ordinary: {"batches": ordinary["batches"][:, :2], "momentum": 1.0},
    ),
    _bug(
        "F",
        {"x": Tensors("NC", 1e3), "running_mean": Tensors("C", 1e3), "running_var": Tensors("C", 1e3)}
        | {"training": _FLAG, "gradients": _FLAG},
        draw=lambda rng: {
            "x": _normal(rng, 16, 4),
            "running_mean": _normal(rng, 4),
            "running_var": 0.5 + torch.rand(4, generator=rng),
            **dict.fromkeys(("training", "gradients"), _flip(rng)),
        },
        right=_by_mode,
        solution=lambda ordinary: {"training": False, "gradients": True},
    ),
    _bug(
        "G",
        {"a": Tensors("NC", 1e3), "b": Tensors("MC", 1e3)},
        draw=lambda rng: {name: _normal(rng, 256, 3) for name in "ab"},
        right=_whole_batch,
        solution=lambda ordinary: {"a": ordinary["a"] + 3},
    ),
    _bug(
        "H",
        {"x": Tensors("TD", 100, _FLOAT_OR_HALF), "start": range(8193)},
        draw=lambda rng: {"x": _normal(rng, 32, 8).bfloat16(), "start": 0},
        right=_rotate,
        solution=lambda ordinary: {"start": 1000},
    ),
    _bug(
        "I",
        {"x": Tensors("TD", 100), "rotary_dim": range(2, 65), "base": Between(100, 1e7)},
        draw=lambda rng: {"x": _normal(rng, 32, 16), "rotary_dim": 16, "base": 10.0 ** (3 + below(4, rng))},
        right=_partial_rotate,
        solution=lambda ordinary: {"rotary_dim": 4},
    ),
    _bug(
        "J",
        {"num_heads": _HEADS, "query_length": range(1, 65), "key_length": range(1, 65)},
        draw=lambda rng: {
            "num_heads": _HEADS[below(6, rng)],
            **dict.fromkeys(("query_length", "key_length"), 1 + below(64, rng)),
        },
        right=_alibi_bias,
        solution=lambda ordinary: {"num_heads": 8, "query_length": 1, "key_length": 5},
    ),
    _bug(
        "K",
        {
            "lengths": Made(_are_lengths, lambda rng: [1 + below(65_536, rng) for _ in range(1 + below(8, rng))]),
            "window": range(16, 65_537),
            "factor": Between(1, 64),
        },
        draw=lambda rng: {
            "lengths": torch.randint(1, 16_385, (4,), generator=rng).tolist(),
            "window": 4096,
            "factor": 4.0,
        },
        right=_dynamic,
        solution=lambda ordinary: {"lengths": [8192, 4096]},
    ),
    _bug(
        "L",
        {"rope_parameters": Made(lambda value: isinstance(value, dict), _options_or_layers), "layer_type": _LAYERS},
        draw=_yarn_options,
        right=_yarn,
        solution=lambda ordinary: {
            "rope_parameters": {"full_attention": {**ordinary["rope_parameters"], "truncate": False}},
            "layer_type": "full_attention",
        },
    ),
    _bug(
        "M",
        {"x": Tensors("NC", 1e3)},
        draw=lambda rng: {"x": _normal(rng, 4, 64 << below(3, rng))},
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        solution=lambda ordinary: {"x": torch.arange(1.0, 4.0)[None]},
    ),
    _bug(
        "N",
        dict.fromkeys(("dy", "x_hat"), Tensors("NC", 100, _FLOAT_OR_HALF)),
        draw=lambda rng: {name: _normal(rng, 256, 8).bfloat16() for name in ("dy", "x_hat")},
        right=lambda dy, x_hat: (dy * x_hat).sum(0),
        solution=lambda ordinary: dict.fromkeys(("dy", "x_hat"), torch.ones(4096, 1, dtype=torch.bfloat16)),
    ),
)
BUGS = {bug.letter: bug for bug in _BUGS}
