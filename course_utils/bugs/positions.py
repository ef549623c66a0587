"""Pieces H to J: positions."""

import torch
from torch import Tensor

from course_utils import rope as position
from course_utils.bugs.piece import NearMiss, Piece
from course_utils.bugs.takes import Numbers, Real, Whole

__all__ = ["POSITIONS"]

_HEADS = (1, 2, 4, 8, 16, 32)


def _rotate(x: Tensor, start: int) -> Tensor:
    positions = torch.arange(start, start + len(x))
    cos, sin = position.rope_cos_sin(positions, position.rope_inv_freq(x.shape[1]), dtype=torch.float64)
    return position.apply_rope(x, cos, sin)


def _partial_rotate(x: Tensor, rotary_dim: int, base: float) -> Tensor:
    if rotary_dim % 2 or rotary_dim > x.shape[1]:
        raise ValueError(f"rotary_dim must be even and at most D: got {rotary_dim}, with D = {x.shape[1]}")
    inv_freq = position.rope_inv_freq(rotary_dim, base)
    return position.apply_rope(x, *position.rope_cos_sin(len(x), inv_freq, dtype=torch.float64))


def _alibi_bias(num_heads: int, query_length: int, key_length: int) -> Tensor:
    if query_length > key_length:
        raise ValueError(f"the queries are among the keys: got query_length={query_length}, key_length={key_length}")
    return position.alibi_bias(num_heads, query_length, key_length)


POSITIONS = (
    Piece(
        letter="H",
        function="rotate",
        claim="It claims to rotate tokens by their positions, computing in float32 whatever the dtype of x.",
        takes={"x": Numbers("TD", 100, (torch.float32, torch.bfloat16, torch.float16)), "start": Whole(0, 8192)},
        sizes={"T": (1, 512), "D": (2, 64)},
        draw=lambda generator: {"x": torch.randn(32, 8, generator=generator).bfloat16(), "start": 0},
        right=_rotate,
        mend=("dtype=x.dtype)\n", "dtype=torch.float32)\n"),
        tolerance=5e-2,
        because="bfloat16 rounds each result by up to 0.4 %, and float32 angles are off by 0.001 at position 8,192",
        hints=(
            "Which of the numbers on the way are not float32?",
            "How many whole numbers does bfloat16 know? `torch.arange(300).bfloat16().unique()` counts them.",
            "bfloat16, and a position beyond 256.",
        ),
        wrong="The positions are counted in the dtype of x. bfloat16 has every whole number up to 256; beyond, several "
        "tokens share one position. `.float()` in the next line comes too late.",
        seen="In a widely used library of rotary embeddings. Other code bases have had angles in half precision in "
        "other ways (pull requests 29285 of transformers and 3520 of candle). Nobody sees it in float32, or on short "
        "prompts.",
        solution=lambda ordinary: {**ordinary, "start": 1000},
        near=(
            NearMiss(
                lambda a: a["x"].dtype == torch.float32,
                "In float32 every position up to 16,777,216 is exact.",
            ),
            NearMiss(
                lambda a: a["x"].dtype == torch.float16,
                "float16 counts exactly to 2,048. It can be shown there, further out.",
            ),
            NearMiss(
                lambda a: a["start"] + len(a["x"]) <= 257,
                "bfloat16 counts exactly to 256, and you stay below.",
            ),
        ),
    ),
    Piece(
        letter="I",
        function="partial_rotate",
        claim="It claims that its first `rotary_dim` dimensions turn as a head of that size does, as in GPT-NeoX.",
        takes={"x": Numbers("TD", 100), "rotary_dim": Whole(2, 64), "base": Real(100, 1e7)},
        sizes={"T": (1, 256), "D": (2, 64)},
        draw=lambda generator: {
            "x": torch.randn(32, 16, generator=generator),
            "rotary_dim": 16,
            "base": 10.0 ** torch.randint(3, 7, (), generator=generator).item(),
        },
        right=_partial_rotate,
        mend=("2) / dim)", "2) / rotary_dim)"),
        tolerance=1e-2,
        because="float32 angles are off by 1e-5 at position 256",
        hints=(
            "Two sizes are about, that of the head and that of the part that turns. Where does which stand?",
            "In a model where the whole head turns, they are equal.",
            "`rotary_dim` below D, and at least two pairs.",
        ),
        wrong="The exponent is over the head, where this model's is over the rotary part: with 4 of 16 dimensions and "
        "a base of 100,000 the slower pair should turn by 0.003 a token, and turns by 0.24.",
        seen="Both rules are in use. GPT-NeoX and Phi take the exponent over the rotary part; the proportional RoPE of "
        "Gemma 4 takes it over the head, and pairs the dimensions differently too. Code that serves both has taken "
        "the head where it should be the rotary part (pie, issue 602): short prompts looked fine.",
        solution=lambda ordinary: {**ordinary, "rotary_dim": 4},
        near=(
            NearMiss(
                lambda a: a["rotary_dim"] == 2,
                "With one pair the exponent is zero whatever it is divided by.",
            ),
            NearMiss(lambda a: len(a["x"]) == 1, "A single token stands at position 0, and nothing turns there."),
            NearMiss(
                lambda a: a["rotary_dim"] == a["x"].shape[1],
                "The whole head turns. The base can be what it likes.",
            ),
        ),
    ),
    Piece(
        letter="J",
        function="alibi_bias",
        claim="It claims to be ALiBi's bias for the last `query_length` of `key_length` tokens.",
        takes={
            "num_heads": Whole(1, 32, _HEADS),
            "query_length": Whole(1, 64),
            "key_length": Whole(1, 64),
        },
        draw=lambda generator: {
            "num_heads": _HEADS[torch.randint(6, (), generator=generator)],
            **dict.fromkeys(("query_length", "key_length"), int(torch.randint(1, 65, (), generator=generator))),
        },
        right=_alibi_bias,
        mend=(
            "torch.arange(query_length)[:, None]",
            "torch.arange(key_length - query_length, key_length)[:, None]",
        ),
        tolerance=1e-5,
        because="the slopes are powers of two, and exact",
        hints=(
            "Training sees all tokens at once. What does a decoder ask for, with its keys in a cache?",
            "For one query and five keys: at which position is the query? And here?",
            "Fewer queries than keys.",
        ),
        wrong="The queries are counted from 0. One query against a cache of five keys is token 4, and here it is "
        "token 0: the nearest key is punished most, and the furthest not at all.",
        seen="In a library of language models, where the bias of a decoding step came out as zeros (keras-hub, pull "
        "request 2977). Training and prompts are square, so only generation suffers.",
        solution=lambda ordinary: {"num_heads": 8, "query_length": 1, "key_length": 5},
        near=(
            NearMiss(
                lambda a: a["query_length"] == a["key_length"],
                "As many queries as keys: that is what training asks for.",
            ),
        ),
    ),
)
