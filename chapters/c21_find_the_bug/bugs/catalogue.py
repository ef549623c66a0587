"""Chapter 21: the pieces as bugs.toml has them: what an input may be, an ordinary one, what is
right, what shows it."""

import string
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from chapters.c21_find_the_bug.bugs.piece import Arguments, Piece
from chapters.c21_find_the_bug.bugs.spec import Spec, below, read_spec
from course_utils import rope

__all__ = ["BUGS", "WORKED"]

_TEXTS = tomllib.loads(Path(__file__).with_name("bugs.toml").read_text(encoding="utf-8"))
_LAYERS = ("full_attention", "sliding_attention")
_REQUIRED = {"rope_theta", "factor", "original_max_position_embeddings"}
_ALLOWED = {"beta_fast", "beta_slow", "truncate"}


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng)


def _flip(rng: torch.Generator) -> bool:
    return bool(torch.rand(1, generator=rng) < 0.5)


def _block(x: Tensor, weight: Tensor) -> Tensor:
    return x + F.silu(F.rms_norm(x, x.shape[-1:], weight, eps=1e-6))


def _batch_norm(
    x: Tensor, running_mean: Tensor, running_var: Tensor, training: bool, dy: Tensor | None = None
) -> Tensor:
    with torch.enable_grad():
        y = F.batch_norm(
            x.requires_grad_(), running_mean, running_var, training=training, momentum=0.0
        )
        return y if dy is None else torch.autograd.grad(y, x, dy)[0]


def _rotate(x: Tensor, start: int) -> Tensor:
    positions = torch.arange(start, start + len(x))
    return rope.apply_rope(
        x, *rope.rope_cos_sin(positions, rope.rope_inv_freq(x.shape[1]), dtype=torch.float64)
    )


def _partial_rotate(x: Tensor, rotary_dim: int, base: float) -> Tensor:
    return rope.apply_rope(
        x, *rope.rope_cos_sin(len(x), rope.rope_inv_freq(rotary_dim, base), dtype=torch.float64)
    )


def _dynamic(lengths: Sequence[int], window: int, factor: float) -> Tensor:
    return rope.rope_frequencies(
        {"rope_type": "dynamic", "factor": factor}, 64, window, lengths[-1]
    )[0]


def _yarn(rope_parameters: Mapping[str, Any], layer_type: str) -> Tensor:
    parameters = rope_parameters.get(layer_type, rope_parameters)
    if parameters is not rope_parameters and (others := set(rope_parameters) - set(_LAYERS)):
        raise ValueError(
            f"beside the layer types stands nothing else: got {', '.join(sorted(map(str, others)))}"
        )
    keys = set(parameters) if isinstance(parameters, dict) else set()
    if not _REQUIRED <= keys <= _REQUIRED | _ALLOWED:
        wanted = f"{', '.join(sorted(_REQUIRED))}, and perhaps {', '.join(sorted(_ALLOWED))}"
        raise ValueError(
            f"the dictionary for {layer_type} must have {wanted}: got "
            f"{', '.join(sorted(keys)) or 'none'}"
        )
    if None in parameters.values():
        raise ValueError(
            "an option that is not given must be left out: got null in the dictionary for "
            f"{layer_type}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rope.RopeWarning)
        return rope.rope_frequencies({**parameters, "rope_type": "yarn"}, 64, None)[0]


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


# what bugs.toml cannot say of an argument
_SPECS = {
    "rope_parameters": Spec(
        lambda value: isinstance(value, dict), lambda rng, *_: _options_or_layers(rng)
    ),
    "lengths": Spec(
        _are_lengths, lambda rng, *_: [1 + below(65_536, rng) for _ in range(1 + below(8, rng))]
    ),
}


def _piece(name: str, **code: Any) -> Piece:
    text = dict(_TEXTS[name])
    limits = text["limits"]
    spec = {
        argument: read_spec(limits[argument]) if argument in limits else _SPECS[argument]
        for argument in text["arguments"]
    }
    letter = "0" if name == "hasty" else string.ascii_uppercase[list(_TEXTS).index(name)]
    return Piece(letter=letter, name=name, spec=spec, **code, **text)


def _layer_input(rng: torch.Generator, training: bool, with_gradient: bool) -> Arguments:
    statistics = {
        "running_mean": _normal(rng, 4),
        "running_var": 0.5 + torch.rand(4, generator=rng),
    }
    dy = _normal(rng, 16, 4) if with_gradient else None
    return {"x": _normal(rng, 16, 4), **statistics, "training": training, "dy": dy}


_PIECES = (  # in the order of bugs.toml
    _piece(
        "stream",
        draw=lambda rng: {
            "x": _normal(rng, 4, 16).bfloat16(),
            "weight": (1 + 0.1 * _normal(rng, 16)).bfloat16(),
        },
        right=_block,
        solution=lambda ordinary: {name: value.float() for name, value in ordinary.items()},
    ),
    _piece(
        "partial",
        draw=lambda rng: {
            "x": _normal(rng, 32, 16),
            "rotary_dim": 16,
            "base": 10.0 ** (3 + below(4, rng)),
        },
        right=_partial_rotate,
        solution=lambda ordinary: {"rotary_dim": 4},
    ),
    _piece(
        "variance",
        draw=lambda rng: {"x": _normal(rng, 4, 16)},
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        solution=lambda ordinary: {"x": torch.tensor([[8192.0, 8196.0]])},
    ),
    _piece(
        "table",
        # a prompt and a shorter rest
        draw=lambda rng: {
            "x": _normal(rng, 32, 8),
            "step": 17 + below(16, rng),
        },
        right=lambda x, step: _rotate(x, 0),
        solution=lambda ordinary: {"step": 1},
    ),
    _piece(
        "blocks",
        draw=lambda rng: {"x": _normal(rng, 4, 64 << below(3, rng))},
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        solution=lambda ordinary: [
            {"x": torch.arange(1.0, 4.0)[None]},
            {"x": 1e-3 * ordinary["x"]},
            {"x": 1000 + ordinary["x"]},
        ],
    ),
    _piece(
        "heads",
        # the heads of Llama 2 70B and of models without shared keys
        draw=lambda rng: {
            "weight": _normal(rng, 128, 4),
            "num_heads": (8, 64)[below(2, rng)],
            "num_kv_heads": 8,
        },
        right=lambda weight, num_heads, num_kv_heads: rope.half_to_interleaved(
            weight, num_kv_heads
        ),
        solution=lambda ordinary: {
            "weight": torch.arange(64.0)[:, None],
            "num_heads": 32,
            "num_kv_heads": 4,
        },
    ),
    _piece(
        "detached",
        draw=lambda rng: _layer_input(rng, _flip(rng), False),
        right=_batch_norm,
        solution=lambda ordinary: {
            "training": True,
            "dy": F.one_hot(torch.tensor(0), 16).float()[:, None].expand(16, 4),
        },
    ),
    _piece(
        "counting",
        draw=lambda rng: {"x": _normal(rng, 32, 8).bfloat16(), "start": 0},
        right=_rotate,
        solution=lambda ordinary: {"start": 1000},
    ),
    _piece(
        "epsilon",
        draw=lambda rng: {"x": _normal(rng, 4, 16).bfloat16()},
        right=lambda x: F.rms_norm(x, x.shape[-1:], eps=torch.finfo(torch.float32).eps),
        solution=lambda ordinary: {"x": torch.full((1, 4), 0.01, dtype=torch.bfloat16)},
    ),
    _piece(
        "modes",
        draw=lambda rng: _layer_input(rng, *[_flip(rng)] * 2),
        right=_batch_norm,
        solution=lambda ordinary: {"training": not ordinary["training"]},
    ),
    _piece(
        "options",
        draw=_yarn_options,
        right=_yarn,
        solution=lambda ordinary: {
            "rope_parameters": {
                "full_attention": {**ordinary["rope_parameters"], "truncate": False}
            },
            "layer_type": "full_attention",
        },
    ),
    _piece(
        "bias",
        draw=lambda rng: {
            "num_heads": 2 ** below(6, rng),
            **dict.fromkeys(("query_length", "key_length"), 1 + below(64, rng)),
        },
        right=rope.alibi_bias,
        solution=lambda ordinary: {"num_heads": 8, "query_length": 1, "key_length": 5},
    ),
    _piece(
        "dynamic",
        draw=lambda rng: {
            "lengths": torch.randint(1, 16_385, (4,), generator=rng).tolist(),
            "window": 4096,
            "factor": 4.0,
        },
        right=_dynamic,
        solution=lambda ordinary: {"lengths": [8192, 4096]},
    ),
    _piece(
        "sum",
        draw=lambda rng: {name: _normal(rng, 256, 8).bfloat16() for name in ("dy", "x_hat")},
        right=lambda dy, x_hat: (dy * x_hat).sum(0),
        solution=lambda ordinary: dict.fromkeys(
            ("dy", "x_hat"), torch.ones(4096, 1, dtype=torch.bfloat16)
        ),
    ),
)
BUGS = {piece.letter: piece for piece in _PIECES}
WORKED = _piece(  # the one that chapter 21 solves
    "hasty",
    draw=lambda rng: {"x": _normal(rng, 4, 1, 8)},
    right=lambda x: F.layer_norm(x, x.shape[-1:]),
    solution=lambda ordinary: {"x": torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])},
)
