"""Proofs of the conventions of rotary embeddings: pairs, directions, configurations, temperature
(chapter 22)."""

import math
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from course_utils import rope

_LISTS = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
_TRAINED = {"original_max_position_embeddings": 256}
_METHODS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 8.0, **_TRAINED},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **_TRAINED},
    "longrope": {"factor": 4.0, **_LISTS, **_TRAINED},
}


def config(model: str, **settings: Any) -> Any:
    """Return the configuration of a model of transformers; ``settings`` may have any spelling that
    it takes."""
    import transformers

    return getattr(transformers, f"{model}Config")(**settings)


def small(model: str, dim: int = 16, window: int = 256, **settings: Any) -> Any:
    """Return the configuration of a small model: four heads of ``dim``, for ``window`` tokens."""
    sizes = {"hidden_size": 4 * dim, "num_attention_heads": 4, "max_position_embeddings": window}
    return config(model, **sizes, **settings)


def llama(dim: int = 16, window: int = 256, **settings: Any) -> Any:
    """Return a small Llama's configuration."""
    return small("Llama", dim, window, **settings)


def scaled(method: str, **settings: Any) -> Any:
    """Return a small Llama's configuration, trained at 256 tokens and scaled by ``method``.

    The factor is 8 for yarn, else 4. The window is the scaled one, but for dynamic NTK.
    """
    scaling = {"rope_type": method, **_METHODS[method], **settings}
    window = 256 if method == "dynamic" else round(256 * scaling["factor"])
    return llama(window=window, rope_scaling=scaling)


def frequencies(model: Any, seq_len: int | None = None) -> tuple[Tensor, float]:
    """Return what a model's configuration comes to: inverse frequencies (dim/2,), and the factor on
    cos and sin."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    return ROPE_INIT_FUNCTIONS[model.rope_parameters["rope_type"]](model, seq_len=seq_len)


def plain(dim: int, base: float = 10_000.0) -> Tensor:
    """Return the frequencies (dim/2,) without scaling, in float32."""
    return rope.rope_inv_freq(dim, base).float()


def layout() -> str:
    half, interleaved = (
        ("llama", "mistral", "qwen3", "gemma", "phi", "gpt_neox"),
        ("cohere", "glm", "gptj"),
    )
    e0 = torch.eye(8)[0].reshape(1, 1, 1, 8)  # (B, T, H, D)
    for name in (*half, *interleaved):
        rotate = import_module(f"transformers.models.{name}.modeling_{name}").apply_rotary_pos_emb
        angle = torch.ones(1, 1, 4 if name == "gptj" else 8)  # every pair turns by the angle 1
        turned = (
            rotate(e0, angle.sin(), angle.cos())
            if name == "gptj"
            else rotate(e0, e0, angle.cos(), angle.sin())[0]
        )
        assert turned.flatten()[1:].argmax().item() + 1 == (4 if name in half else 1)
    return "of 8 dimensions: 4 in Llama and five others, 1 in Cohere, GLM and GPT-J"


def meta_weights() -> str:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    generator = torch.Generator().manual_seed(0)
    x, w_q, w_k = (
        torch.randn(size, 16, generator=generator, dtype=torch.float64) for size in (6, 32, 32)
    )
    cos, sin = rope.rope_cos_sin(6, rope.rope_inv_freq(8), dtype=torch.float64)

    def heads(weight: Tensor) -> Tensor:
        return (x @ weight.T).reshape(6, 4, 8).transpose(0, 1)  # (H, T, D)

    def llama_scores(w_q: Tensor, w_k: Tensor) -> Tensor:
        angles = (table.repeat(1, 2)[None] for table in (cos, sin))
        q, k = apply_rotary_pos_emb(heads(w_q)[None], heads(w_k)[None], *angles)
        return (q @ k.mT)[0]

    # neighbours are a number
    q, k = (torch.view_as_complex(heads(w).unflatten(-1, (4, 2))) for w in (w_q, w_k))
    turn = torch.complex(cos, sin)
    meta = ((q * turn) @ (k * turn).mH).real
    hub_q, hub_k = (rope.interleaved_to_half(w, num_heads=4) for w in (w_q, w_k))
    assert torch.allclose(llama_scores(hub_q, hub_k), meta, atol=1e-12)
    wrong = (llama_scores(w_q, w_k) - meta).abs()
    # a token and itself: the mistake is invisible
    assert wrong.diagonal(dim1=-2, dim2=-1).max() < 1e-12
    assert wrong.max() > 1
    return "the same scores within 1e-12; without it they are right at distance 0 only"


def direction() -> str:
    cos, sin = rope.rope_cos_sin(2, rope.rope_inv_freq(2))
    turned = rope.apply_rope(torch.tensor([[1.0, 0.0]] * 2), cos, sin)[1]
    assert torch.allclose(turned, torch.tensor([math.cos(1), math.sin(1)]))

    def score(m: int, n: int, sin: Tensor) -> Tensor:
        q, k = (rope.apply_rope(torch.tensor([x] * 2), cos, sin) for x in ([1.0, 0.0], [0.0, 1.0]))
        return q[m] @ k[n]

    assert torch.allclose(score(1, 0, -sin), score(0, 1, sin))  # the mirrored distance
    assert torch.allclose(score(1, 0, sin), torch.tensor(math.sin(1)))
    assert torch.allclose(score(1, 0, -sin), torch.tensor(-math.sin(1)))
    return (
        f"(1, 0) at position 1 is ({turned[0]:.2f}, {turned[1]:.2f}), not ({turned[0]:.2f}, "
        f"{-turned[1]:.2f})"
    )


def partial() -> str:
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding
    from transformers.models.gpt_neox.modeling_gpt_neox import (
        GPTNeoXRotaryEmbedding,
        apply_rotary_pos_emb,
    )
    from transformers.models.phi.modeling_phi import PhiRotaryEmbedding

    assert config("GPTNeoX", rotary_pct=0.5).rope_parameters["partial_rotary_factor"] == 0.5
    assert config("GPTJ").rotary_dim == 64
    partial = GPTNeoXRotaryEmbedding(small("GPTNeoX", 64, rotary_pct=0.25)).inv_freq
    phi = PhiRotaryEmbedding(small("Phi", 64, partial_rotary_factor=0.25)).inv_freq
    glm_config = small("Glm", 64, partial_rotary_factor=0.25, head_dim=64)
    glm = GlmRotaryEmbedding(glm_config).inv_freq
    assert torch.equal(phi, partial)
    assert torch.equal(glm, partial)
    # its first 16 dimensions turn by the angle 1
    head, once = torch.ones(1, 1, 1, 64), torch.ones(1, 1, 16)
    turned, _ = apply_rotary_pos_emb(head, head, once.cos(), once.sin())
    assert (turned != head).flatten().tolist() == [True] * 16 + [False] * 48
    gemma4 = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 10_000.0}
    proportional, _ = frequencies(llama(64, rope_parameters=gemma4))
    assert torch.allclose(partial, plain(16))
    assert torch.allclose(proportional[:8], plain(64)[:8])
    assert (len(proportional), proportional[8:].count_nonzero()) == (32, 0)
    return (
        f"a quarter of 64: slowest {partial[-1]:.1e} against {proportional[7]:.1e}, and 24 pairs "
        "at rest"
    )


def base() -> str:
    assert llama(rope_theta=5e5).rope_parameters == {"rope_theta": 5e5, "rope_type": "default"}
    assert llama().rope_parameters["rope_theta"] == 10_000.0
    assert config("GPTNeoX", rotary_emb_base=2e4).rope_parameters["rope_theta"] == 2e4
    return "rope_theta=500,000 is found in rope_parameters; without one, 10,000"


def spelling() -> str:
    new = llama(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0})
    for name in ("rope_type", "type"):
        old = llama(rope_scaling={name: "linear", "factor": 4.0})
        assert torch.equal(frequencies(old)[0], frequencies(new)[0])
        assert old.rope_parameters["rope_type"] == "linear"
    assert llama(rope_scaling=None).rope_parameters["rope_type"] == "default"
    return "three spellings, the same frequencies"


def methods() -> str:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    assert {"linear", "dynamic", "yarn", "llama3", "longrope", "proportional"} <= set(
        ROPE_INIT_FUNCTIONS
    )
    d, factor = 16, 4.0
    unscaled, ntk = plain(d), plain(d, 10_000.0 * factor ** (d / (d - 2)))
    pi, _ = frequencies(scaled("linear", factor=factor))
    assert torch.allclose(pi, unscaled / factor)
    assert math.isclose(ntk[-1], unscaled[-1] / factor, rel_tol=1e-5)
    assert ntk[0] == unscaled[0]
    return "PI divides all by 4; NTK-aware the slowest by 4, the fastest by 1"


def keys() -> str:
    needed: dict[str, dict[str, Any]] = {
        "linear": {"factor": 4.0},
        "dynamic": {"factor": 4.0},
        "yarn": {"factor": 4.0},
        "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "longrope": _LISTS,
    }
    refused = 0
    for method, settings in needed.items():
        for missing in settings:
            kept = {key: value for key, value in settings.items() if key != missing}
            try:
                llama(rope_scaling={"rope_type": method, **kept})
            except KeyError as error:
                refused += missing in str(error)
    assert refused == 8
    named = scaled("yarn", beta_fast=32.0, beta_slow=1.0)
    assert torch.equal(frequencies(scaled("yarn"))[0], frequencies(named)[0])
    return f"{refused} configs, each without one of these keys, are refused"


def trained_length() -> str:
    silent = llama(window=2048, rope_scaling={"rope_type": "yarn", "factor": 8.0})
    assert silent.rope_parameters["original_max_position_embeddings"] == 2048
    written = scaled("yarn")  # trained at 256
    assert not torch.equal(frequencies(silent)[0], frequencies(written)[0])
    lists = {"rope_type": "longrope", "factor": 8.0, **_LISTS}
    phi3 = small("Phi3", window=4096, original_max_position_embeddings=512, rope_scaling=lists)
    assert phi3.rope_parameters["original_max_position_embeddings"] == 512
    return "left out of a window of 2,048: 2,048, whatever the factor"


def static() -> str:
    unscaled, dynamic, longrope = plain(16), scaled("dynamic"), scaled("longrope")
    for static in (scaled("linear"), scaled("yarn"), scaled("llama3")):
        assert torch.equal(frequencies(static, 16)[0], frequencies(static, 2048)[0])
        assert not torch.allclose(frequencies(static, 16)[0], unscaled)
    assert torch.allclose(frequencies(dynamic, 256)[0], unscaled)
    assert not torch.allclose(frequencies(dynamic, 257)[0], unscaled)
    assert torch.allclose(frequencies(longrope, 256)[0], unscaled)
    assert torch.allclose(frequencies(longrope, 257)[0], unscaled / 4)
    return "linear, yarn and llama3 differ at length 16, dynamic and longrope from length 257 on"


def attention_factor() -> str:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    yarn = scaled("yarn")  # factor 8
    factor = 0.1 * math.log(8) + 1
    assert math.isclose(frequencies(yarn)[1], factor)
    q = torch.ones(1, 4, 1, 16)  # (B, H, T, D)
    cos, sin = LlamaRotaryEmbedding(yarn)(q, torch.tensor([[5]]))
    turned, _ = apply_rotary_pos_emb(q, q, cos, sin)
    gain = ((turned**2).sum() / (q**2).sum()).item()
    assert math.isclose(gain, factor**2, rel_tol=1e-5)
    return f"yarn at factor 8: {factor:.3f}, so logits grow by {gain:.3f}"


def default_factor() -> str:
    longrope = scaled("longrope")  # factor 4
    assert math.isclose(frequencies(longrope)[1], math.sqrt(1 + math.log(4) / math.log(256)))
    assert frequencies(scaled("yarn", attention_factor=1.5))[1] == 1.5
    for others in ("llama3", "linear", "dynamic"):
        assert frequencies(scaled(others))[1] == 1.0
    return f"longrope, 256 to 1,024: {frequencies(longrope)[1]:.3f}"


def mscale() -> str:
    both = scaled("yarn", mscale=1.0, mscale_all_dim=1.0)  # factor 8
    other = scaled("yarn", mscale=0.707, mscale_all_dim=1.0)
    assert frequencies(both)[1] == 1.0
    ratio = (0.1 * 0.707 * math.log(8) + 1) / (0.1 * math.log(8) + 1)
    assert math.isclose(frequencies(other)[1], ratio)
    return f"both 1: factor 1; 0.707 and 1: {ratio:.3f}"


def style() -> str:
    x = torch.arange(16.0).reshape(2, 8).cos()
    cos, sin = rope.rope_cos_sin(2, rope.rope_inv_freq(8))
    first, second = x.chunk(2, dim=-1)  # is_neox_style=True, interleaved=0, traditional=False
    neox = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    even, odd = x[:, ::2], x[:, 1::2]  # is_neox_style=False, interleaved=1, traditional=True
    gptj = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(1)
    for layout, theirs in (("neox", neox), ("gptj", gptj)):
        assert torch.allclose(rope.apply_rope(x, cos, sin, layout), theirs, atol=1e-6)
    assert (neox - gptj).abs().max() > 0.5
    return "both formulas, with the same cos and sin; one for the other is off by more than 0.5"


def gguf_pairs() -> str:
    heads, weight = 2, torch.arange(16.0 * 3).reshape(16, 3)  # 2 heads of 8
    # the converter's `permute`
    stored = weight.reshape(heads, 2, 4, 3).swapaxes(1, 2).reshape(weight.shape)
    assert torch.equal(rope.interleaved_to_half(stored, heads), weight)
    assert torch.equal(stored[:4], weight[[0, 4, 1, 5]])
    return "rows 0, 1, 2, 3 of a head of 8 hold the Hub's rows 0, 4, 1, 5"


def gguf_keys() -> str:
    stored = torch.tensor(1e-5).item()
    assert stored != 1e-5
    assert float(f"{stored:.6e}") == 1e-5
    return f"1e-5 comes back as {stored:.10g}"


def gguf_llama3() -> str:
    factors = plain(16) / frequencies(scaled("llama3"))[0]
    assert factors[0] == 1
    assert torch.isclose(factors[-1], torch.tensor(4.0))
    assert (factors.diff() >= -1e-6).all()
    return f"with a factor of 4: {', '.join(f'{factor:.3g}' for factor in factors)}"


def vllm_dynamic() -> str:
    s, window = 4.0, 256
    model = scaled("dynamic", factor=s)
    fixed = plain(16, 10_000.0 * (s * s - s + 1) ** (16 / 14))
    assert torch.allclose(frequencies(model, int(s) * window)[0], fixed)
    assert torch.allclose(frequencies(model, window)[0], plain(16))
    return (
        f"at 4 windows both; within one, the slowest pair turns {(plain(16) / fixed)[-1]:.0f} "
        "times as fast here"
    )


def output_order() -> str:
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 6, 16, generator=generator)
    cos, sin = rope.rope_cos_sin(6, plain(16))
    wide = (torch.cat((table, table), dim=-1)[None] for table in (cos, sin))
    theirs = deepseek.apply_rotary_pos_emb_interleave(q, k, *wide)
    ours = [rope.apply_rope(y, cos, sin, layout="interleaved") for y in (q, k)]
    assert torch.allclose(theirs[0] @ theirs[1].mT, ours[0] @ ours[1].mT, atol=1e-4)
    assert torch.allclose(theirs[0].unflatten(-1, (2, 8)).mT.flatten(-2), ours[0], atol=1e-5)
    assert not torch.allclose(theirs[0], ours[0], atol=1)
    return "the same scores, and q alone is another"


def _m2m100(positions: int, dim: int) -> Tensor:
    from transformers.models.m2m_100 import modeling_m2m_100 as m2m100

    return m2m100.M2M100SinusoidalPositionalEmbedding.get_embedding(positions, dim)


def sinusoid_order() -> str:
    sines, cosines = _m2m100(5, 8)[1:].chunk(2, dim=-1)
    assert torch.allclose(sines.square() + cosines.square(), torch.ones(4, 4))
    ours = rope.sinusoidal(5, 8)[1:]
    order = torch.cat((torch.arange(0, 8, 2), torch.arange(1, 8, 2)))
    sines, cosines = ours[:, order].chunk(2, dim=-1)
    assert torch.allclose(sines.square() + cosines.square(), torch.ones(4, 4))
    return "of 8 columns, cos 1 stands in 4 there, in 1 as published"


def sinusoid_step() -> str:
    d, ours, theirs = 8, rope.sinusoidal(2, 8)[1, 6], _m2m100(2, 8)[1, 3]
    assert math.isclose(theirs, 10_000 ** -(3 / (d / 2 - 1)), rel_tol=1e-3)
    assert math.isclose(ours, 10_000 ** -(3 / (d / 2)), rel_tol=1e-3)
    return f"of 8 columns the slowest turns by {theirs:.4f} there, by {ours:.3f} as published"


def alibi_key() -> str:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bloom = build_alibi_tensor(torch.ones(1, 6), 4, torch.float32).view(4, 1, 6)
    distance = rope.alibi_bias(4, 6, 6)
    causal = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1) > 0, -math.inf)
    assert torch.allclose((bloom + causal).softmax(-1), (distance + causal).softmax(-1), atol=1e-6)
    assert (bloom >= 0).all()
    assert not torch.allclose(bloom - distance, torch.zeros(1))
    return "other biases, the same weights"


def positions_dtype() -> str:
    assert torch.arange(514).bfloat16()[513] == 512
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    x = torch.zeros(1, 514, 16, dtype=torch.bfloat16)
    cos, _ = LlamaRotaryEmbedding(llama(window=1024))(x, torch.arange(514)[None])
    assert not torch.equal(cos[0, 512], cos[0, 513])
    return "512 and 513 have angles of their own, for bfloat16 queries too"


def learned_offset() -> str:
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

    ids = RobertaEmbeddings.create_position_ids_from_input_ids(torch.tensor([[5, 6, 1]]), 1)
    assert ids.tolist() == [[2, 3, 1]]
    opt = OPTLearnedPositionalEmbedding(8, 4)
    assert torch.equal(opt(torch.ones(1, 3, dtype=torch.long))[0], opt.weight[2:5])
    assert len(opt.weight) == 10
    return "three tokens, the last padding: rows 2, 3, 1 in RoBERTa; three tokens: 2, 3, 4 in OPT"


def _gemma2(**settings: Any) -> Any:
    from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention

    return Gemma2Attention(small("Gemma2", **settings), layer_idx=0)


def score_scale() -> str:
    from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention

    scales = [_gemma2(query_pre_attn_scalar=n).scaling for n in (144, 256)]
    assert scales == [1 / 12, 1 / 16]
    settings = {"head_dim": 16, "query_pre_attn_scalar": 36}
    gemma3 = Gemma3Attention(small("Gemma3Text", **settings), layer_idx=0)
    factor = (16 / 36) ** 0.5
    assert math.isclose(gemma3.scaling, factor / 16**0.5)
    q = torch.arange(64.0).reshape(4, 16).cos()  # as W_q gives it
    assert torch.allclose(gemma3.q_norm(factor * q), gemma3.q_norm(q), rtol=1e-4)
    normalized = gemma3.q_norm(q)
    with torch.no_grad():
        gemma3.q_norm.weight.copy_(factor * (1 + gemma3.q_norm.weight) - 1)
    assert torch.allclose(gemma3.q_norm(q), factor * normalized)
    return "144 and 256: scores times 1/12 and 1/16; a factor of W_q is undone by Gemma 3's norm"


def head_size() -> str:
    theirs = _gemma2(head_dim=32)  # of a width of 64, with four heads
    assert theirs.q_proj.weight.shape == (4 * 32, 64)
    assert llama(16).head_dim == 16
    return "width 64, four heads, head_dim 32: W_q is (128, 64); a Llama without the key has 16"
