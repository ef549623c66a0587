"""The conventions of rotary embeddings: which pairs turn, and which way."""

import math

import torch
from torch import Tensor

from course_utils.conventions.rope_oracle import config, frequencies, llama, plain
from course_utils.conventions.rows import Convention, convention
from course_utils.rope import rotation as positions

__all__ = ["ROPE_CONVENTIONS"]

ROPE_CONVENTIONS: list[Convention] = []

_PAIRS = "RoPE's pairs"


@convention(
    ROPE_CONVENTIONS,
    _PAIRS,
    "Who is dimension 0's partner?",
    "d/2, the half-split layout: Llama, Mistral, Qwen, Gemma, Phi, GPT-NeoX",
    "1, the interleaved layout: RoFormer, Meta's Llama, GPT-J, Cohere, GLM",
    "reorder the rows of $W_q$ and $W_k$, head by head; never only one of them",
)
def _layout() -> str:
    from transformers.models.cohere import modeling_cohere as cohere
    from transformers.models.gemma import modeling_gemma as gemma
    from transformers.models.glm import modeling_glm as glm
    from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
    from transformers.models.gptj import modeling_gptj as gptj
    from transformers.models.llama import modeling_llama
    from transformers.models.mistral import modeling_mistral as mistral
    from transformers.models.phi import modeling_phi as phi
    from transformers.models.qwen3 import modeling_qwen3 as qwen3

    half, interleaved = (modeling_llama, mistral, qwen3, gemma, phi, gpt_neox), (cohere, glm)
    e0 = torch.eye(8)[0].reshape(1, 1, 1, 8)  # (B, T, H, D)
    once = torch.ones(1, 1, 8)  # every pair turns by the angle 1
    turned = {
        module: module.apply_rotary_pos_emb(e0, e0, once.cos(), once.sin())[0] for module in (*half, *interleaved)
    }
    turned[gptj] = gptj.apply_rotary_pos_emb(e0, once[..., :4].sin(), once[..., :4].cos())
    partner = {module: turned[module].flatten()[1:].argmax().item() + 1 for module in turned}
    assert partner == dict.fromkeys(half, 4) | dict.fromkeys((*interleaved, gptj), 1)
    return "of 8 dimensions: 4 in Llama and five others, 1 in Cohere, GLM and GPT-J"


@convention(
    ROPE_CONVENTIONS,
    _PAIRS,
    "Meta's file or the Hub's?",
    "weights on the Hub are reordered for half-split pairs",
    "Meta's own files (`consolidated.00.pth`): interleaved",
    "`positions.interleaved_to_half(weight, num_heads)`, for $W_q$ and $W_k$",
)
def _meta_weights() -> str:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    generator = torch.Generator().manual_seed(0)
    x, w_q, w_k = (torch.randn(size, 16, generator=generator, dtype=torch.float64) for size in (6, 32, 32))
    cos, sin = positions.rope_cos_sin(6, positions.rope_inv_freq(8), dtype=torch.float64)

    def heads(weight: Tensor) -> Tensor:
        return (x @ weight.T).reshape(6, 4, 8).transpose(0, 1)  # (H, T, D)

    def llama_scores(w_q: Tensor, w_k: Tensor) -> Tensor:
        angles = (table.repeat(1, 2)[None] for table in (cos, sin))
        q, k = apply_rotary_pos_emb(heads(w_q)[None], heads(w_k)[None], *angles)
        return (q @ k.mT)[0]

    q, k = (torch.view_as_complex(heads(w).unflatten(-1, (4, 2))) for w in (w_q, w_k))  # neighbours are a number
    turn = torch.complex(cos, sin)
    meta = ((q * turn) @ (k * turn).mH).real
    hub_q, hub_k = (positions.interleaved_to_half(w, num_heads=4) for w in (w_q, w_k))
    assert torch.allclose(llama_scores(hub_q, hub_k), meta, atol=1e-12)
    wrong = (llama_scores(w_q, w_k) - meta).abs()
    assert wrong.diagonal(dim1=-2, dim2=-1).max() < 1e-12  # a token and itself: the mistake is invisible
    assert wrong.max() > 1
    return "the same scores within 1e-12; without it they are right at distance 0 only"


@convention(
    ROPE_CONVENTIONS,
    _PAIRS,
    "Which way does a pair turn?",
    "(x, y) to (x cos − y sin, x sin + y cos), by +position·frequency",
    "the other way round: each distance scores as its mirror image, $m - n$ as $n - m$",
    "conjugate: `sin → −sin` for queries and keys together",
)
def _direction() -> str:
    cos, sin = positions.rope_cos_sin(2, positions.rope_inv_freq(2))
    turned = positions.apply_rope(torch.tensor([[1.0, 0.0]] * 2), cos, sin)[1]
    assert torch.allclose(turned, torch.tensor([math.cos(1), math.sin(1)]))

    def score(m: int, n: int, sin: Tensor) -> Tensor:
        q, k = (positions.apply_rope(torch.tensor([x] * 2), cos, sin) for x in ([1.0, 0.0], [0.0, 1.0]))
        return q[m] @ k[n]

    assert torch.allclose(score(1, 0, -sin), score(0, 1, sin))  # the mirrored distance
    assert torch.allclose(score(1, 0, sin), torch.tensor(math.sin(1)))
    assert torch.allclose(score(1, 0, -sin), torch.tensor(-math.sin(1)))
    return f"(1, 0) at position 1 is ({turned[0]:.2f}, {turned[1]:.2f}), not ({turned[0]:.2f}, {-turned[1]:.2f})"


@convention(
    ROPE_CONVENTIONS,
    _PAIRS,
    "What turns when only a part does?",
    "the first `partial_rotary_factor · head_dim` dimensions, with frequencies of that many (GPT-NeoX, Phi, GLM)",
    "`rotary_pct` (GPT-NeoX files), `rotary_dim` (GPT-J: a count, not a share). `proportional` (Gemma 4): "
    "frequencies of the whole head, the slow ones 0",
    "`partial_rotary_factor = rotary_dim / head_dim`",
)
def _partial() -> str:
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb
    from transformers.models.phi.modeling_phi import PhiRotaryEmbedding

    assert config("GPTNeoX", rotary_pct=0.5).rope_parameters["partial_rotary_factor"] == 0.5
    assert config("GPTJ").rotary_dim == 64
    four_heads, quarter = {"hidden_size": 256, "num_attention_heads": 4}, {"partial_rotary_factor": 0.25}
    partial = GPTNeoXRotaryEmbedding(config("GPTNeoX", **four_heads, rotary_pct=0.25)).inv_freq
    phi = PhiRotaryEmbedding(config("Phi", **four_heads, **quarter)).inv_freq
    glm = GlmRotaryEmbedding(config("Glm", **four_heads, **quarter, head_dim=64)).inv_freq
    assert torch.equal(phi, partial)
    assert torch.equal(glm, partial)
    head, once = torch.ones(1, 1, 1, 64), torch.ones(1, 1, 16)  # its first 16 dimensions turn by the angle 1
    turned, _ = apply_rotary_pos_emb(head, head, once.cos(), once.sin())
    assert (turned != head).flatten().tolist() == [True] * 16 + [False] * 48
    gemma4 = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 10_000.0}
    proportional, _ = frequencies(llama(64, rope_parameters=gemma4))
    assert torch.allclose(partial, plain(16))
    assert torch.allclose(proportional[:8], plain(64)[:8])
    assert (len(proportional), proportional[8:].count_nonzero()) == (32, 0)
    return f"a quarter of 64: slowest {partial[-1]:.1e} against {proportional[7]:.1e}, and 24 pairs at rest"
