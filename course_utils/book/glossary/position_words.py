"""The words of position, of RoPE above all."""

from course_utils.book.glossary.entry import Entry

__all__ = ["POSITION_WORDS"]

_ROPE = "transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS"

POSITION_WORDS = (
    Entry("ABF", "RoPE with a larger base, so that slow pairs turn more slowly", ("13", "14")),
    Entry(
        "ALiBi",
        "a bias on each score, proportional to the distance, its slope fixed by the head",
        ("11",),
        symbol="m_h",
    ),
    Entry("attention factor", "what scaled RoPE multiplies cos and sin by; scores get its square", ("13", "12")),
    Entry(
        "base",
        "what RoPE's speeds are powers of: 10,000, or more for long windows",
        ("12", "13"),
        symbol="\\text{base}",
    ),
    Entry("by parts", "keep the pairs that turn often, stretch those that do not, blend between", ("13", "14")),
    Entry(
        "cache",
        "keys and values of the tokens so far, kept for the next one",
        ("12", "15"),
        names=("transformers.DynamicCache",),
    ),
    Entry(
        "causal mask", "no token sees a later one", ("11",), names=("torch.nn.functional.scaled_dot_product_attention",)
    ),
    Entry("critical dimension", "the first dimension whose pair does not finish a turn in the window", ("14",)),
    Entry("decay with distance", "of a RoPE score: a bound for smooth content, and no promise for any other", ("12",)),
    Entry("drop-in", "a layer that takes the place of another without changing a result", ("15",)),
    Entry(
        "dynamic NTK",
        "NTK-aware scaling whose factor grows with the text",
        ("13", "14"),
        names=(f"{_ROPE}['dynamic']",),
    ),
    Entry(
        "equivariant",
        "when tokens swap places, outputs swap with them",
        ("11",),
        names=("torch.nn.MultiheadAttention",),
    ),
    Entry("fine-tune", "a short training at the longer window, after scaling", ("14",)),
    Entry(
        "half layout",
        "RoPE pairs dimension i with i + d/2; also called half-split",
        ("12",),
        names=("transformers.models.llama.modeling_llama.rotate_half",),
    ),
    Entry(
        "interleaved layout",
        "RoPE pairs dimensions 2i and 2i + 1",
        ("12",),
        names=("transformers.models.gptj.modeling_gptj.rotate_every_two",),
    ),
    Entry(
        "Llama 3",
        "its scaling: by parts with 1 and 4 turns, and no temperature",
        ("13",),
        names=(f"{_ROPE}['llama3']",),
    ),
    Entry(
        "LongRoPE",
        "a searched factor for each pair, one list for short texts and one for long",
        ("13", "14"),
        symbol="\\lambda",
        names=(f"{_ROPE}['longrope']",),
    ),
    Entry(
        "near order",
        "what a model knows of the tokens just before; far memory is the other half of a long context",
        ("14",),
    ),
    Entry("NTK-aware", "RoPE with the base that slows the slowest pair by the factor", ("13",)),
    Entry("pair", "two dimensions that RoPE turns together, at one speed", ("12", "13"), symbol="k"),
    Entry(
        "partial rotation",
        "RoPE on the first part of each head only",
        ("12",),
        names=("transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXRotaryEmbedding",),
    ),
    Entry(
        "PI",
        "position interpolation: every RoPE frequency divided by the factor",
        ("13", "14"),
        names=(f"{_ROPE}['linear']",),
    ),
    Entry(
        "proportional", "RoPE in which the slow pairs rest, at speed 0", ("13",), names=(f"{_ROPE}['proportional']",)
    ),
    Entry(
        "RoPE",
        "rotate each pair of a query and a key by its position times the pair's frequency",
        ("12", "13"),
        symbol="R_m",
        names=("transformers.models.llama.modeling_llama.LlamaRotaryEmbedding",),
    ),
    Entry(
        "sinusoidal code",
        "sines and cosines of the position at many speeds, added to the tokens",
        ("11",),
        symbol="p_t",
    ),
    Entry(
        "T5's bias",
        "a learned number for each head and bucket of distances, added to the score",
        ("11",),
        names=("transformers.models.t5.modeling_t5.T5Attention",),
    ),
    Entry("temperature", "YaRN's: scores are divided by t, which falls as the factor grows", ("13", "14"), symbol="t"),
    Entry("turns", "how often a RoPE pair goes round in the trained window", ("13",), symbol="r"),
    Entry("wavelength", "how many positions a RoPE pair takes for a turn", ("13",)),
    Entry(
        "window",
        "the longest text of training",
        ("13", "14"),
        symbol="L",
        names=("transformers.LlamaConfig.max_position_embeddings",),
    ),
    Entry(
        "YaRN",
        "by parts, with a ramp over the pairs' numbers, and a temperature",
        ("13", "14"),
        names=(f"{_ROPE}['yarn']",),
    ),
)
