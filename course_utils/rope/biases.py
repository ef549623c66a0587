"""Position as a term added to the attention scores: ALiBi's slopes and T5's buckets (chapter 13).

Notation used for tensor shapes: H heads, Q queries, K keys.
"""

import math
from numbers import Integral

import torch
from torch import Tensor


def alibi_slopes(num_heads: int) -> Tensor:
    """Return ALiBi's slope of each head, (H,) float32: a geometric sequence from 2^(-8/H) to 2^-8.
    Chapter 13.

    Where H is no power of two, the slopes are those of the power below it, then every other slope
    of the power above.

    Source: Press et al. 2022, §3, and ``get_slopes`` in the authors' fairseq ``transformer.py``.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """
    if not isinstance(num_heads, Integral) or num_heads < 1:
        raise ValueError(
            f"num_heads must be a whole number of at least 1: got num_heads={num_heads}"
        )
    num_heads = int(num_heads)

    def geometric(heads: int) -> list[float]:
        return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]

    below = 1 << (num_heads.bit_length() - 1)
    return torch.tensor(geometric(below) + geometric(2 * below)[::2][: num_heads - below])


def alibi_bias(
    num_heads: int,
    query_length: int,
    key_length: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return ALiBi's addition to the attention scores, (H, Q, K): minus the slope times the
    distance.

    Chapter 13. The queries are the last ``query_length`` of the ``key_length`` tokens, so that
    decoding one token against a cache gives the last row of the full table. Keys ahead of the query
    get the bias of their distance too; a causal mask removes them.

    Source: Press et al. 2022, §3.

    >>> alibi_bias(1, 2, 3) * 256
    tensor([[[-1., -0., -1.],
             [-2., -1., -0.]]])
    """
    if not 0 <= query_length <= key_length:
        raise ValueError(
            f"query_length must be between 0 and key_length: got query_length={query_length}, "
            f"key_length={key_length}"
        )
    query = torch.arange(key_length - query_length, key_length, device=device)[:, None]  # (Q, 1)
    distance = (query - torch.arange(key_length, device=device)).abs()  # (Q, K)
    slopes = alibi_slopes(num_heads).to(query.device)
    return (-slopes[:, None, None] * distance).to(dtype)  # (H, Q, K)


def t5_relative_bucket(
    relative_position: Tensor,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """Return the bucket of each relative position, whose learned bias T5 adds to the score. Chapter
    12.

    ``relative_position`` is key position minus query position, integers of any shape. Half of the
    buckets of a direction hold one distance each; the other half grow logarithmically up to
    ``max_distance``, and everything beyond shares the last one. Keys ahead of the query have the
    upper half of the buckets, or, where attention is not ``bidirectional``, share bucket 0.

    Source: Raffel et al. 2020, §2.1, and ``_relative_position_bucket`` of Mesh TensorFlow and
    transformers' T5.

    >>> t5_relative_bucket(torch.tensor([-200, -20, -1, 0, 1, 20]))
    tensor([15, 10,  1,  0, 17, 26])
    """
    if num_buckets < (4 if bidirectional else 2) or (bidirectional and num_buckets % 2):
        need = "an even number of at least 4" if bidirectional else "at least 2"
        raise ValueError(
            f"num_buckets must be {need}: got num_buckets={num_buckets}, "
            f"bidirectional={bidirectional}"
        )

    buckets = num_buckets // 2 if bidirectional else num_buckets  # of one direction
    exact = buckets // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_distance must be above the {exact} distances with a bucket each: got "
            f"max_distance={max_distance}"
        )
    relative_position = relative_position.long()
    distance = relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)

    # The same float32 operations, in the same order, as the models were trained with: at a bucket's
    # edge the rounding decides. clamp keeps log(0) out of distances that take the exact branch
    # anyway.
    fraction = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    logarithmic = (exact + (fraction * (buckets - exact)).long()).clamp(max=buckets - 1)
    bucket = torch.where(distance < exact, distance, logarithmic)
    return bucket + buckets * (relative_position > 0) if bidirectional else bucket
