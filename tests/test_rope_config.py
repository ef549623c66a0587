"""Reading config.json: published files of real models, held against what transformers makes of the same fields."""

import copy
import importlib
import json
import warnings

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from course_utils.rope import RopeWarning, from_config, rope_frequencies, rope_inv_freq
from course_utils.rope.model_defaults import MODEL_DEFAULTS
from course_utils.widgets.scaling_examples import PUBLISHED as EXAMPLES

transformers.logging.set_verbosity_error()

TRANSFORMERS_IS_5_23 = transformers.__version__.startswith("5.23")

PHI35_LONG = [
    *(1.0800000429153442, 1.1100000143051147, 1.1399999856948853, 1.340000033378601, 1.5899999141693115),
    *(1.600000023841858, 1.6200000047683716, 2.620000123977661, 3.2300000190734863, 3.2300000190734863),
    *(4.789999961853027, 7.400000095367432, 7.700000286102295, 9.09000015258789, 12.199999809265137),
    *(17.670000076293945, 24.46000099182129, 28.57000160217285, 30.420001983642578, 30.840002059936523),
    *(32.590003967285156, 32.93000411987305, 42.320003509521484, 44.96000289916992, 50.340003967285156),
    *(50.45000457763672, 57.55000305175781, 57.93000411987305, 58.21000289916992, 60.1400032043457),
    *(62.61000442504883, 62.62000274658203, 62.71000289916992, 63.1400032043457, 63.1400032043457),
    *(63.77000427246094, 63.93000411987305, 63.96000289916992, 63.970001220703125, 64.02999877929688),
    *(64.06999969482422, 64.08000183105469, 64.12000274658203, 64.41000366210938, 64.4800033569336),
    *(64.51000213623047, 64.52999877929688, 64.83999633789062),
]
PHI35_SHORT = [
    *(1.0, 1.0199999809265137, 1.0299999713897705, 1.0299999713897705, *([1.0499999523162842] * 5)),
    *(1.0699999332427979, 1.0999999046325684, 1.1099998950958252, 1.1599998474121094, 1.1599998474121094),
    *(1.1699998378753662, 1.2899998426437378, 1.339999794960022, 1.679999828338623, 1.7899998426437378),
    *(1.8199998140335083, 1.8499997854232788, 1.8799997568130493, 1.9099997282028198, 1.9399996995925903),
    *(1.9899996519088745, *([2.0199997425079346] * 6), *([2.0299997329711914] * 9), 2.0799996852874756),
    *(2.0899996757507324, 2.189999580383301, 2.2199995517730713, 2.5899994373321533, 2.729999542236328),
    *(2.749999523162842, 2.8399994373321533),
]


def sized(model_type, hidden_size, num_attention_heads, max_position_embeddings, **others):
    return {
        "model_type": model_type,
        "hidden_size": hidden_size,
        "num_attention_heads": num_attention_heads,
        "max_position_embeddings": max_position_embeddings,
        **others,
    }


def llama3_scaling(factor):
    return {
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    }


GEMMA4_LAYERS = EXAMPLES["Gemma 4 E2B"]["text_config"]["rope_parameters"]
# The fields that bear on RoPE, as the models' publishers wrote them, and fields beside them that lead a reader astray.
PUBLISHED = {
    **EXAMPLES,
    "gpt-oss 20B": {
        **EXAMPLES["gpt-oss 20B"],
        "initial_context_length": 4096,
        "num_hidden_layers": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "Gemma 3 27B": {
        "model_type": "gemma3",
        "text_config": {
            **EXAMPLES["Gemma 3 27B"]["text_config"],
            "num_hidden_layers": 62,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
        },
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model", "num_attention_heads": 16},
    },
    "Gemma 4 E2B": {
        "model_type": "gemma4",
        "text_config": {
            **EXAMPLES["Gemma 4 E2B"]["text_config"],
            "num_hidden_layers": 35,
            "layer_types": ["sliding_attention"] * 4 * 7 + ["full_attention"] * 7,
        },
    },
    "Llama 2 7B": sized("llama", 4096, 32, 4096, rope_scaling=None),
    "Llama 3.2 1B": sized(
        "llama", 2048, 32, 131_072, head_dim=64, rope_theta=500_000.0, rope_scaling=llama3_scaling(32.0)
    ),
    "Llama 4 Scout": {
        "model_type": "llama4",
        "text_config": sized(
            "llama4_text",
            5120,
            40,
            10_485_760,
            head_dim=128,
            rope_theta=500_000.0,
            rope_scaling={**llama3_scaling(16.0), "high_freq_factor": 1.0},
        ),
    },
    "Llama 3.3 70B": sized("llama", 8192, 64, 131_072, rope_theta=500_000.0, rope_scaling=llama3_scaling(8.0)),
    "Code Llama 7B": sized("llama", 4096, 32, 16_384, rope_scaling=None, rope_theta=1_000_000),
    "Mistral 7B v0.1": sized("mistral", 4096, 32, 32_768, rope_theta=10_000.0, sliding_window=4096),
    "Qwen3 8B": sized("qwen3", 4096, 32, 40_960, head_dim=128, rope_theta=1_000_000, rope_scaling=None),
    "Phi-3.5 mini": sized(
        "phi3",
        3072,
        32,
        131_072,
        original_max_position_embeddings=4096,
        rope_theta=10_000.0,
        rope_scaling={"long_factor": PHI35_LONG, "short_factor": PHI35_SHORT, "type": "longrope"},
    ),
    "Gemma 3 1B": sized(
        "gemma3_text",
        1152,
        4,
        32_768,
        head_dim=256,
        rope_local_base_freq=10_000,
        rope_theta=1_000_000,
        rope_scaling=None,
    ),
    "GLM-4 9B 0414": sized("glm4", 4096, 32, 32_768, head_dim=128, partial_rotary_factor=0.5, rope_theta=10_000.0),
    "GPT-J 6B": {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048, "rotary_dim": 64},
}
ROTARY_CLASSES = {
    "llama": "llama.modeling_llama.LlamaRotaryEmbedding",
    "llama4_text": "llama4.modeling_llama4.Llama4TextRotaryEmbedding",
    "mistral": "mistral.modeling_mistral.MistralRotaryEmbedding",
    "qwen2": "qwen2.modeling_qwen2.Qwen2RotaryEmbedding",
    "qwen3": "qwen3.modeling_qwen3.Qwen3RotaryEmbedding",
    "phi3": "phi3.modeling_phi3.Phi3RotaryEmbedding",
    "deepseek_v3": "deepseek_v3.modeling_deepseek_v3.DeepseekV3RotaryEmbedding",
    "gpt_oss": "gpt_oss.modeling_gpt_oss.GptOssRotaryEmbedding",
    "gemma2": "gemma2.modeling_gemma2.Gemma2RotaryEmbedding",
    "gemma3_text": "gemma3.modeling_gemma3.Gemma3RotaryEmbedding",
    "gemma4_text": "gemma4.modeling_gemma4.Gemma4TextRotaryEmbedding",
    "glm4": "glm4.modeling_glm4.Glm4RotaryEmbedding",
    "gpt_neox": "gpt_neox.modeling_gpt_neox.GPTNeoXRotaryEmbedding",
    "modernbert": "modernbert.modeling_modernbert.ModernBertRotaryEmbedding",
    "olmo3": "olmo3.modeling_olmo3.Olmo3RotaryEmbedding",
    "hunyuan_v1_dense": "hunyuan_v1_dense.modeling_hunyuan_v1_dense.HunYuanDenseV1RotaryEmbedding",
    "stablelm": "stablelm.modeling_stablelm.StableLmRotaryEmbedding",
    "zamba2": "zamba2.modeling_zamba2.Zamba2RotaryEmbedding",
}


def their_embedding(config):
    """The rotary module that transformers builds from the same fields."""
    text = copy.deepcopy(config.get("text_config", config))
    scaling = text.get("rope_scaling") or {}
    if scaling.get("type") == "su":  # LongRoPE's first name, which Phi3Config of 5.23 maps and then stumbles over
        scaling["type"] = "longrope"
    module, name = ROTARY_CLASSES[text["model_type"]].rsplit(".", 1)
    rotary_class = getattr(importlib.import_module(f"transformers.models.{module}"), name)
    return rotary_class(CONFIG_MAPPING[text.pop("model_type")](**text))


def assert_same_frequencies(read, theirs):
    for layer_type in read.layers:
        prefix = "" if layer_type == "all" else f"{layer_type}_"
        inv_freq, attention_factor = read.frequencies(layer_type=layer_type)
        expected = getattr(theirs, f"{prefix}inv_freq").double()
        assert inv_freq.shape == expected.shape
        assert ((inv_freq - expected).abs() <= 3e-6 * expected).all()  # theirs are float32
        assert abs(attention_factor - getattr(theirs, f"{prefix}attention_scaling")) < 1e-9


def silently(config, **given):
    """What is read, when not a word of warning is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return from_config(config, **given)


def quietly(config):
    """What is read, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        return from_config(config)


# -- published files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "GPT-J 6B"])
def test_a_published_file_gives_the_frequencies_that_transformers_gives(name):
    assert_same_frequencies(quietly(PUBLISHED[name]), their_embedding(PUBLISHED[name]))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_read_without_a_warning_but_for_scouts_ramp_that_is_a_step(name):
    expected = ["high_freq_factor and low_freq_factor are both 1"] if name == "Llama 4 Scout" else []
    assert [message.split(":")[0] for message in quietly(PUBLISHED[name]).warnings] == expected


EXPECTED = {
    "Llama 2 7B": ("default", 10_000.0, 128, 4096, 1.0, 4096, 128),
    "Llama 3.1 8B": ("llama3", 500_000.0, 128, 131_072, 8.0, 8192, 128),
    "Llama 3.2 1B": ("llama3", 500_000.0, 64, 131_072, 32.0, 8192, 64),
    "Llama 4 Scout": ("llama3", 500_000.0, 128, 10_485_760, 16.0, 8192, 128),
    "Llama 3.3 70B": ("llama3", 500_000.0, 128, 131_072, 8.0, 8192, 128),
    "Code Llama 7B": ("default", 1_000_000, 128, 16_384, 1.0, 16_384, 128),
    "Mistral 7B v0.1": ("default", 10_000.0, 128, 32_768, 1.0, 32_768, 128),
    "Qwen2.5 7B with YaRN": ("yarn", 1_000_000.0, 128, 32_768, 4.0, 32_768, 128),
    "Qwen3 8B": ("default", 1_000_000, 128, 40_960, 1.0, 40_960, 128),
    "Phi-3 mini 128k": ("longrope", 10_000.0, 96, 131_072, 32.0, 4096, 96),
    "Phi-3.5 mini": ("longrope", 10_000.0, 96, 131_072, 32.0, 4096, 96),
    "DeepSeek-V3": ("yarn", 10_000, 64, 163_840, 40.0, 4096, 64),
    "gpt-oss 20B": ("yarn", 150_000, 64, 131_072, 32.0, 4096, 64),
    "Gemma 3 1B": ("default", 1_000_000, 256, 32_768, 1.0, 32_768, 256),
    "Gemma 3 27B": ("linear", 1_000_000.0, 128, 131_072, 8.0, 32_768, 128),
    "Gemma 4 E2B": ("proportional", 1_000_000.0, 512, 131_072, 1.0, 131_072, 512),
    "GLM-4 9B 0414": ("default", 10_000.0, 128, 32_768, 1.0, 32_768, 64),
    "Pythia 70M": ("default", 10_000, 64, 2048, 1.0, 2048, 16),
    "GPT-J 6B": ("default", 10_000.0, 256, 2048, 1.0, 2048, 64),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_read_as_the_model_is_described(name):
    read = quietly(PUBLISHED[name])
    method = read.method()
    assert EXPECTED[name] == (
        read.rope_parameters["rope_type"],
        read.rope_parameters["rope_theta"],
        read.head_dim,
        read.max_position_embeddings,
        method.factor,
        method.trained_length,
        method.rotary_dim,
    )


@pytest.mark.parametrize("name", ["Gemma 3 1B", "Gemma 3 27B"])
def test_gemma3s_sliding_layers_turn_at_their_own_base_unscaled(name):
    read = silently(PUBLISHED[name])
    assert list(read.layers) == ["sliding_attention", "full_attention"]
    sliding = read.layers["sliding_attention"]
    assert sliding.rope_parameters == {"rope_type": "default", "rope_theta": 10_000}
    assert sliding.head_dim == read.head_dim


def test_gemma4s_layers_differ_in_base_method_and_head_dimension():
    read = silently(PUBLISHED["Gemma 4 E2B"])
    assert {name: layer.head_dim for name, layer in read.layers.items()} == {
        "full_attention": 512,
        "sliding_attention": 256,
    }
    inv_freq, _ = read.frequencies()
    assert (inv_freq[:64] > 0).all()
    assert (inv_freq[64:] == 0).all()
    assert torch.equal(read.frequencies(layer_type="sliding_attention")[0], rope_inv_freq(256))


def test_phi3s_long_list_serves_beyond_the_original_length():
    read, scaling = silently(PUBLISHED["Phi-3 mini 128k"]), PUBLISHED["Phi-3 mini 128k"]["rope_scaling"]
    for seq_len, factors in ((4096, "short_factor"), (4097, "long_factor")):
        expected = rope_inv_freq(96) / torch.tensor(scaling[factors], dtype=torch.float64)
        torch.testing.assert_close(read.frequencies(seq_len)[0], expected, rtol=1e-15, atol=0)


def test_deepseeks_mscale_leaves_cosine_and_sine_alone():
    assert silently(PUBLISHED["DeepSeek-V3"]).frequencies()[1] == 1.0


@pytest.mark.parametrize(
    "name", ["Llama 3.1 8B", "Phi-3.5 mini", "gpt-oss 20B", "Gemma 3 27B", "Gemma 4 E2B", "Pythia 70M", "GLM-4 9B 0414"]
)
def test_a_file_saved_by_todays_transformers_is_read_as_the_one_it_was_made_from(name, tmp_path):
    published = copy.deepcopy(PUBLISHED[name])
    CONFIG_MAPPING[published.pop("model_type")](**published).save_pretrained(tmp_path)
    saved, original = silently(tmp_path), silently(PUBLISHED[name])
    assert saved.max_position_embeddings == original.max_position_embeddings
    assert saved.layers.keys() == original.layers.keys()
    for layer_type, layer in saved.layers.items():
        assert layer.head_dim == original.layers[layer_type].head_dim
        for ours, theirs in zip(
            saved.frequencies(None, layer_type), original.frequencies(None, layer_type), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


# -- other spellings ---------------------------------------------------------------------------------------------------

OTHER_SPELLINGS = {
    "OLMo 3, whose rope_scaling is for the full layers alone": sized(
        "olmo3",
        4096,
        32,
        65_536,
        rope_theta=500_000,
        rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
    ),
    "ModernBERT, with two named bases": sized(
        "modernbert", 768, 12, 8192, global_rope_theta=160_000.0, local_rope_theta=10_000.0
    ),
    "ModernBERT stretched, in both kinds of layers": sized(
        "modernbert",
        768,
        12,
        8192,
        global_rope_theta=160_000.0,
        local_rope_theta=10_000.0,
        rope_scaling={"rope_type": "linear", "factor": 2.0},
    ),
    "Hunyuan without alpha": sized(
        "hunyuan_v1_dense",
        64,
        4,
        256,
        head_dim=16,
        rope_theta=10_000.0,
        rope_scaling={"type": "dynamic", "factor": 2.0},
    ),
    "Gemma 2, whose heads are wider than its sizes say": {
        "model_type": "gemma2",
        "hidden_size": 2304,
        "num_attention_heads": 8,
    },
    "Hunyuan's alpha": sized(
        "hunyuan_v1_dense",
        4096,
        32,
        32_768,
        head_dim=128,
        rope_theta=10_000.0,
        rope_scaling={"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "type": "dynamic"},
    ),
    "today's spelling": sized(
        "llama", 64, 4, 256, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    ),
    "rope_theta outside, the rest inside": sized(
        "llama", 64, 4, 256, rope_theta=500.0, rope_parameters={"rope_type": "linear", "factor": 2.0}
    ),
    "partial rotation outside": sized("stablelm", 2560, 32, 4096, rope_theta=10_000, partial_rotary_factor=0.5),
    "dynamic, with its older key": sized("llama", 64, 4, 256, rope_scaling={"type": "dynamic", "factor": 4.0}),
    "both keys, and they agree": sized(
        "llama",
        64,
        4,
        256,
        rope_theta=500.0,
        rope_scaling={"rope_type": "linear", "factor": 2.0},
        rope_parameters={"rope_type": "linear", "factor": 2.0},
    ),
    "a null head_dim": sized("mistral", 64, 4, 256, head_dim=None, rope_theta=1e6),
    "Zamba2, whose heads have another name": sized(
        "zamba2", 3584, 32, 4096, attention_head_dim=224, attention_hidden_size=7168, rope_theta=10_000.0
    ),
}


@pytest.mark.parametrize("spelling", OTHER_SPELLINGS)
def test_another_spelling_gives_the_frequencies_that_transformers_gives(spelling):
    assert_same_frequencies(silently(OTHER_SPELLINGS[spelling]), their_embedding(OTHER_SPELLINGS[spelling]))


@pytest.mark.parametrize("model_type", MODEL_DEFAULTS)
def test_what_a_file_leaves_out_is_what_transformers_takes(model_type):
    sizes = {} if "hidden_size" in MODEL_DEFAULTS[model_type] else {"hidden_size": 64, "num_attention_heads": 4}
    read, theirs = silently({"model_type": model_type, **sizes}), CONFIG_MAPPING[model_type](**sizes)
    assert read.max_position_embeddings == getattr(theirs, "max_position_embeddings", None)
    assert read.assumptions
    if model_type == "gptj":
        assert read.method().rotary_dim == theirs.rotary_dim
        return
    parameters = theirs.rope_parameters
    for name, part in parameters.items() if len(read.layers) > 1 else [("all", parameters)]:
        config = theirs.per_layer_config[name] if model_type == "gemma4_text" else theirs
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        assert read.layers[name].head_dim == head_dim
        neutral = {"partial_rotary_factor": 1.0}
        assert {**neutral, **read.layers[name].rope_parameters} == {**neutral, **part}


@pytest.mark.parametrize(
    "model_type", ["bamba", "glm4_moe", "glm4v_moe_text", "qwen3_5_moe_text", "qwen3_5_text", "recurrent_gemma"]
)
def test_the_share_that_rotates_is_the_models_own_where_the_file_leaves_it_out(model_type):
    scaling = {"type": "linear", "factor": 2.0}
    config = sized(model_type, 512, 4, 8192, rope_theta=1e4, rope_scaling=scaling)
    theirs = CONFIG_MAPPING[model_type](**copy.deepcopy(config)).rope_parameters["partial_rotary_factor"]
    assert silently(config, head_dim=128).rope_parameters["partial_rotary_factor"] == theirs < 1


@pytest.mark.skipif(not TRANSFORMERS_IS_5_23, reason="a later release may have mended it")
def test_olmo3s_sliding_layers_turn_at_the_files_base_where_transformers_gives_them_its_default():
    config = sized("olmo3", 4096, 32, 65_536, rope_theta=1_000_000.0)
    read, theirs = silently(config), CONFIG_MAPPING["olmo3"](**config).rope_parameters
    assert {name: layer.rope_parameters["rope_theta"] for name, layer in read.layers.items()} == {
        "sliding_attention": 1_000_000.0,
        "full_attention": 1_000_000.0,
    }
    assert theirs["full_attention"]["rope_theta"] == 1_000_000.0
    assert theirs["sliding_attention"]["rope_theta"] == 500_000.0


def test_a_llava_file_whose_text_part_names_only_its_window_is_read_with_llamas_sizes():
    read = silently({"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}})
    assert (read.head_dim, read.max_position_embeddings, read.model_type) == (128, 4096, "llama")


def test_a_text_model_two_parts_deep_is_read():
    text = sized("qwen2_5_omni_text", 3584, 28, 32_768, rope_theta=1_000_000.0)
    read = silently({"model_type": "qwen2_5_omni", "thinker_config": {"rope_theta": 5.0, "text_config": text}})
    assert read.rope_parameters["rope_theta"] == 1_000_000.0
    assert read.assumptions[0] == "the text model, thinker_config.text_config, is read"


def test_a_part_of_the_file_that_speaks_of_rope_and_is_not_read_is_named():
    part = {"model_type": "dbrx", "attn_config": {"rope_theta": 500_000}, "ffn_config": {"size": 1}}
    unread = "attn_config, which speaks of rotary embeddings, is not read"
    with pytest.raises(ValueError, match=f"num_attention_heads=None; {unread}$"):
        from_config(part)
    with pytest.warns(RopeWarning, match=f"rope_theta=10000 is assumed: none is given, and {unread}$"):
        from_config(part, head_dim=128)


def test_an_images_sections_leave_the_text_frequencies_alone():
    scaling = {"type": "mrope", "mrope_section": [16, 24, 24]}
    read = silently(sized("qwen2_vl", 3584, 28, 32_768, rope_theta=1_000_000.0, rope_scaling=scaling))
    assert torch.equal(read.frequencies()[0], rope_inv_freq(128, 1_000_000.0))
    assert "rope_type='mrope' is an older name for 'default'" in read.assumptions


def test_both_keys_of_the_type_that_agree_are_no_trouble():
    scaling = {"type": "linear", "rope_type": "linear", "factor": 2.0}
    assert silently(sized("llama", 64, 4, 256, rope_scaling=scaling)).rope_parameters["factor"] == 2.0


@pytest.mark.parametrize(
    "part",
    [
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 500.0},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}},
    ],
)
def test_the_part_of_a_file_that_speaks_of_rope_is_enough_with_a_head_dimension(part):
    read = silently(part, head_dim=64, max_position_embeddings=512)
    assert (read.head_dim, read.max_position_embeddings) == (64, 512)
    assert read.rope_parameters == {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}


def test_a_pasted_dictionary_of_layer_types_is_read_too():
    read = silently(GEMMA4_LAYERS, head_dim=256)
    assert list(read.layers) == ["full_attention", "sliding_attention"]
    assert read.max_position_embeddings is None


def test_what_the_file_says_wins_over_what_is_given():
    for name, head_dim, window in (
        ("Qwen3 8B", 128, 40_960),
        ("Gemma 3 1B", 256, 32_768),  # wider than the sizes say
        ("Llama 2 7B", 128, 4096),  # the sizes that it follows from
    ):
        read = silently(PUBLISHED[name], head_dim=32, max_position_embeddings=7)
        assert (read.head_dim, read.max_position_embeddings) == (head_dim, window)
    assert silently({"model_type": "new", "hidden_size": 64, "rope_theta": 1e4}, head_dim=32).head_dim == 32


def test_the_result_is_what_rope_frequencies_takes():
    for name, published in PUBLISHED.items():
        if name == "Llama 4 Scout":  # it warns
            continue
        read = silently(published)
        inv_freq, factor = rope_frequencies(read.rope_parameters, read.head_dim, read.max_position_embeddings, 10_000)
        assert torch.equal(inv_freq, read.frequencies(10_000)[0])
        assert factor == read.frequencies(10_000)[1]


def test_reading_leaves_the_dictionary_as_it_was():
    before = copy.deepcopy(PUBLISHED)
    for published in PUBLISHED.values():
        read = quietly(published)
        read.rope_parameters["rope_theta"] = 1.0
    assert before == PUBLISHED


@pytest.mark.parametrize("index", ["01", 1], ids=["as saved", "as a number"])
def test_per_layer_configurations_give_the_head_dimensions(index):
    config = sized("gemma4_text", 64, 4, 256, head_dim=16, global_head_dim=64, rope_parameters=GEMMA4_LAYERS)
    config["per_layer_config"] = {"00": {"sliding_window": 4}, index: {"head_dim": 32}}
    assert silently(config).layers["full_attention"].head_dim == 64  # it numbers layers that the file does not list
    config["layer_types"] = ["sliding_attention", "full_attention"]
    assert {name: layer.head_dim for name, layer in silently(config).layers.items()} == {
        "full_attention": 32,
        "sliding_attention": 16,
    }


def test_a_layer_type_without_rotation_is_left_out_and_said_so():
    layers = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": None}
    read = silently(sized("beam", 64, 4, 256, rope_parameters=layers))
    assert list(read.layers) == ["sliding_attention"]
    assert "layers of type full_attention have no rotary embedding" in read.assumptions


def test_keys_beside_the_layer_types_are_ignored_as_in_transformers():
    layers = {**GEMMA4_LAYERS, "rope_theta": None, "rope_type": "default"}
    read = silently(sized("gemma4_text", 64, 4, 256, head_dim=16, rope_parameters=layers))
    assert list(read.layers) == ["full_attention", "sliding_attention"]
    assert "rope_type beside the types of layers are ignored, as in transformers" in read.assumptions
    assert not any("have no rotary embedding" in assumption for assumption in read.assumptions)


@pytest.mark.parametrize(("rotary_dim", "head_dim"), [(64, 256), (30, 44), (2, 6), (64, 64)])
def test_a_rotary_dim_is_what_rotates_whatever_its_share_rounds_to(rotary_dim, head_dim):
    config = {"model_type": "gptj", "n_embd": 4 * head_dim, "n_head": 4, "n_positions": 64, "rotary_dim": rotary_dim}
    assert silently(config).method().rotary_dim == rotary_dim


@pytest.mark.parametrize(
    ("parts", "partial", "head_dim"),
    [
        ({"qk_nope_head_dim": 64, "qk_rope_head_dim": 64}, 0.5, 128),
        ({"qk_nope_head_dim": 64, "qk_rope_head_dim": 64}, 1.0, 64),
        ({"qk_rope_head_dim": 64}, 0.5, 16),
        ({"qk_nope_head_dim": 64}, 0.5, 16),
    ],
    ids=["a share of the whole head", "all of the part that rotates", "no part beside it", "no part that rotates"],
)
def test_latent_attention_with_a_partial_factor_keeps_the_whole_head(parts, partial, head_dim):
    latent = sized("mistral4", 64, 4, 256, rope_theta=1e4, **parts)
    read = silently({**latent, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": partial}})
    assert (read.head_dim, read.method().rotary_dim) == (head_dim, head_dim * partial)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": ["llama"]},
        {"text_config": "elsewhere"},
        {"type": "causal"},
        {"rope_ratio": None},
        {"alibi": False},
        {"position_embedding_type": "rope"},
        {"position_embedding_type": "absolute"},  # as ModernBERT's file says it
        {"factor": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_key_that_says_nothing_of_rope_changes_nothing(change):
    read = silently({**TINY, **change})
    assert (read.rope_parameters, read.head_dim) == ({"rope_type": "default", "rope_theta": 1e4}, 16)


def test_a_second_base_is_read_in_a_model_that_is_not_known():
    fields = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e6, "rope_local_base_freq": 500.0}
    known, unknown = (silently({"model_type": name, "head_dim": 16, **fields}) for name in ("gemma3_text", "mystery"))
    assert known.layers == unknown.layers
    assert torch.equal(unknown.frequencies(layer_type="sliding_attention")[0], rope_inv_freq(16, 500.0))


# -- from disk ---------------------------------------------------------------------------------------------------------


def test_a_path_its_directory_and_its_contents_are_read_alike(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED["Llama 3.1 8B"]), encoding="utf-8")
    read = silently(PUBLISHED["Llama 3.1 8B"])
    assert read == silently(path) == silently(str(path)) == silently(tmp_path) == silently(path.read_text())


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "config must be a config.json, its directory, its text or a dictionary: got .*config.json"),
        (b"{rope", "config must be JSON: got .*config.json: Expecting property name"),
        (b"\xff\xfe", "config must be JSON: got .*config.json: 'utf-8' codec"),
        (b"[1, 2]", "config must hold a JSON object: got .*config.json with a list"),
        (b'{"hidden_size": 64, "num_attention_heads": 4, "rope_theta": NaN}', "rope_theta must be a number above 1"),
    ],
)
def test_an_unreadable_file_is_an_error_that_names_it(tmp_path, contents, message):
    if contents is not None:
        (tmp_path / "config.json").write_bytes(contents)
    with pytest.raises(ValueError, match=message):
        from_config(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"rope_theta": 1e4,', "config must be JSON: got text: "),
        ("no such file", "got 'no such file': .*No such file"),
        ("x" * 10_000, "its directory, its text or a dictionary: got 'xxx.*name too long"),
        (None, "its directory, its text or a dictionary: got None"),
    ],
)
def test_what_is_no_configuration_is_told_what_is(config, message):
    with pytest.raises(ValueError, match=message):
        from_config(config)


# -- errors, warnings, assumptions -------------------------------------------------------------------------------------

TINY = sized("llama", 64, 4, 256, rope_theta=1e4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "head_dim must be given, or hidden_size and num_attention_heads: got none of head_dim, hidden_size=None"),
        ({**TINY, "model_type": None, "num_attention_heads": None}, "hidden_size=64, num_attention_heads=None"),
        ({**TINY, "model_type": None, "hidden_size": None}, "hidden_size=None, num_attention_heads=4"),
        ({**TINY, "hidden_size": "big"}, "hidden_size must be a whole number of at least 2: got hidden_size='big'"),
        ({**TINY, "num_attention_heads": 0}, "num_attention_heads must be a whole number of at least 1"),
        ({**TINY, "head_dim": 15}, "the rotary dimension must be whole pairs within the head: .*head_dim=15"),
        ({**TINY, "max_position_embeddings": -1}, "at least 2: got max_position_embeddings=-1"),
        ({**TINY, "rope_scaling": "yarn"}, "rope_scaling must be a dictionary or null: got rope_scaling='yarn'"),
        ({**TINY, "rope_parameters": [1]}, r"rope_parameters must be a dictionary or null: got rope_parameters=\[1\]"),
        ({**TINY, "rope_scaling": {"type": "nkt", "factor": 2.0}}, "one of default, .*: got rope_type='nkt'"),
        ({**TINY, "rope_scaling": {"type": ["yarn"], "factor": 2.0}}, r"one of default, .*: got rope_type=\['yarn'\]"),
        ({**TINY, "rope_scaling": {"factor": 2.0}}, "rope_type must be one of .*: got none, with factor"),
        (
            {"head_dim": 64, "factor": 8.0, "low_freq_factor": 1.0},
            "rope_type must be given with factor, low_freq_factor",
        ),
        *(
            (
                {
                    **TINY,
                    "rope_parameters": GEMMA4_LAYERS,
                    "layer_types": ["a"],
                    "per_layer_config": {i: {"head_dim": 8}},
                },
                f"per_layer_config must number the 1 layers of layer_types from 0: got '{i}'",
            )
            for i in ("1", "-1", "x")
        ),
        ({**TINY, "rope_scaling": {"type": "linear"}}, "factor must be a number of at least 1 .*: got none"),
        (
            {**TINY, "rope_parameters": {**GEMMA4_LAYERS, "sliding_attention": {"rope_type": "linear"}}},
            "sliding_attention: factor must be a number of at least 1",
        ),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_key(config, message):
    with pytest.raises(ValueError, match=message):
        from_config({key: value for key, value in config.items() if value is not None})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {**TINY, "rope_scaling": {"type": "yarn", "factor": 4.0}},
            "original_max_position_embeddings is missing for rope_type='yarn': max_position_embeddings=256 is taken",
        ),
        (
            {**TINY, "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}},
            "factor=2 disagrees with .* = 256 / 64 = 4",
        ),
        (
            {**TINY, "rope_scaling": {"type": "linear", "factor": 2.0, "temperature": 3}},
            "temperature: not known for rope_type='linear' and ignored",
        ),
        (
            {**TINY, "rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2.0}},
            "rope_type='linear' is used, and type='dynamic' is ignored",
        ),
        ({**TINY, "rope_ratio": 50, "layer_rope_theta": [1]}, "layer_rope_theta, rope_ratio: not known and ignored"),
        (
            {**TINY, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
            "rope_theta=500000.0 in the dictionary is used, and 10000.0 outside it ignored",
        ),
        (
            {**TINY, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}},
            "rope_scaling and rope_parameters differ: rope_scaling is used, as transformers does",
        ),
        (
            {
                **TINY,
                "original_max_position_embeddings": 64,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
            },
            "original_max_position_embeddings=64 outside the dictionary is used, and 128 in it ignored",
        ),
        *(
            ({**TINY, key: {"type": "linear", "factor": 2.0}}, f"{key}: not known and ignored; is rope_scaling meant")
            for key in ("rop_scaling", "Rope_scaling", "rope-scaling")
        ),
        (sized("llama", 64, 4, 256, ROPE_THETA=5e5), "ROPE_THETA: not known and ignored; is rope_theta meant"),
        ({**TINY, "MyRope": 1}, "MyRope: not known and ignored"),
        ({**TINY, "MyRotary": 1}, "MyRotary: not known and ignored"),
        (
            {**TINY, "global_rope_theta": 1e5},
            "global_rope_theta: ignored, since models of this model_type do not read it$",
        ),
        (
            {**TINY, "rope_local_base_freq": 1e4, "rope_parameters": GEMMA4_LAYERS},
            "rope_local_base_freq, rope_theta: ignored, since rope_parameters has its own for each type of layer$",
        ),
        *(
            ({**TINY, key: value}, f"{key}={value!r}: with this a model has no rotary embeddings; they are read all")
            for key, value in (("alibi", True), ("position_embedding_type", "nope"))
        ),
        *(
            (
                {**TINY, "model_type": model_type, "rope_scaling": {"type": kind, "factor": 2.0, "alpha": 1000.0}},
                f"alpha: not known for rope_type='{kind}' and ignored",  # Hunyuan's alone, and there for one type
            )
            for model_type, kind in (("llama", "dynamic"), (None, "dynamic"), ("hunyuan_v1_dense", "linear"))
        ),
        (
            {**TINY, "factor": 8.0, "low_freq_factor": 1.0},
            "factor, low_freq_factor: ignored outside rope_scaling and rope_parameters",
        ),
        (
            {**TINY, "num_attention_heads": 5},
            "hidden_size=64 should be a multiple of num_attention_heads=5: head_dim=12 is rounded down",
        ),
        (
            sized("mystery", 64, 4, 256, rope_scaling={"type": "linear", "factor": 2.0}),
            "rope_theta=10000 is assumed: none is given, and what model_type='mystery' takes is not known here",
        ),
        (
            {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_positions": 1024},
            "no key speaks of rotary embeddings; does the model have them at all",
        ),
        (
            {
                **TINY,
                "rope_parameters": {**GEMMA4_LAYERS, "sliding_attention": {"rope_type": "default", "factor": 2.0}},
                "rope_theta": None,
            },
            "sliding_attention: factor: not known for rope_type='default'",
        ),
    ],
)
def test_a_suspicious_file_is_read_with_a_warning_that_says_what_was_assumed(config, message):
    with pytest.warns(RopeWarning, match=message) as caught:
        read = from_config(config)
    assert [str(warning.message) for warning in caught] == list(read.warnings)
    assert len(read.warnings) == 1
    assert caught[0].filename == __file__


def test_a_base_alone_in_the_dictionary_is_a_default_that_says_so():
    read = silently(sized("llama", 64, 4, 256, rope_parameters={"rope_theta": 5e5}))
    assert read.rope_parameters == {"rope_type": "default", "rope_theta": 5e5}


def test_a_null_base_in_the_dictionary_leaves_the_one_outside_it():
    scaling = {"rope_type": "linear", "factor": 2.0, "rope_theta": None}
    read = silently({**TINY, "rope_theta": 500.0, "rope_scaling": scaling})
    assert read.rope_parameters == {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}


def test_conflicts_are_settled_as_transformers_settles_them():
    inside_and_outside = {**TINY, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    both = {**TINY, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}}
    original = {
        **TINY,
        "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    }
    for config in (inside_and_outside, both, original):
        with pytest.warns(RopeWarning):
            read = from_config(config)
        assert_same_frequencies(read, their_embedding(config))


@pytest.mark.parametrize(
    ("name", "assumption"),
    [
        ("Llama 2 7B", "rope_theta=10000 is assumed: none is given, and transformers takes it for model_type='llama'"),
        ("Llama 2 7B", "head_dim=128 is hidden_size / num_attention_heads = 4096 / 32"),
        ("DeepSeek-V3", "head_dim is qk_rope_head_dim=64, the part of a head that rotates"),
        ("Phi-3 mini 128k", "rope_type='su' is an older name for 'longrope'"),
        ("Gemma 3 27B", "the text model, text_config, is read"),
        (
            "Gemma 3 27B",
            "original_max_position_embeddings=32768, with which model_type='gemma3_text' was trained",
        ),
        ("Gemma 3 27B", "rope_theta=1000000.0, which transformers takes for model_type='gemma3_text'"),
        (
            "Qwen2.5 7B with YaRN",
            "max_position_embeddings=32768 is the original length; stretched by factor=4 the model reaches 131072 "
            "positions",
        ),
    ],
)
def test_what_was_assumed_is_said(name, assumption):
    assert assumption in silently(PUBLISHED[name]).assumptions


DICTIONARY = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}


@pytest.mark.parametrize(
    ("config", "assumptions"),
    [
        (TINY, ["head_dim=16 is hidden_size / num_attention_heads = 64 / 4"]),
        ({**TINY, "head_dim": 16}, []),
        ({"head_dim": 16, "rope_parameters": DICTIONARY}, []),
        (
            PUBLISHED["DeepSeek-V3"],
            ["head_dim is qk_rope_head_dim=64, the part of a head that rotates"],
        ),
        (
            PUBLISHED["Gemma 3 1B"],
            ["sliding_attention layers turn at rope_local_base_freq, full_attention layers at rope_theta"],
        ),
        (sized("new", 64, 4, 256, head_dim=16, rope_parameters=GEMMA4_LAYERS), []),
        (
            {**OTHER_SPELLINGS["Hunyuan's alpha"]},
            [
                "Hunyuan's 'dynamic' with alpha=1000.0 is static NTK-aware scaling by it",
                "max_position_embeddings=32768 is taken for the window before stretching by factor=1000; if it is the "
                "one after, the model reaches 32768 positions, and no more",
            ],
        ),
    ],
    ids=["sizes", "a head", "the part that speaks of RoPE", "YaRN", "two bases", "types of layers", "alpha"],
)
def test_nothing_is_said_to_be_assumed_that_was_not(config, assumptions):
    assert list(silently(config).assumptions) == assumptions


@pytest.mark.parametrize("rope_type", ["linear", "ntk", "proportional"])
def test_a_stretched_window_that_the_file_may_mean_is_said(rope_type):
    said = "max_position_embeddings=256 is taken for the window before stretching by factor=2; if it is the one after"
    for scaling, expected in (
        ({"factor": 2.0}, True),
        ({"factor": 1.0}, False),
        *([({"factor": 2.0, "original_max_position_embeddings": 128}, False)] if rope_type == "linear" else []),
    ):
        read = silently({**TINY, "rope_scaling": {"rope_type": rope_type, **scaling}})
        assert any(assumption.startswith(said) for assumption in read.assumptions) is expected


def test_a_bare_dictionary_is_said_to_be_taken_for_the_parameters():
    assumptions = silently(DICTIONARY, head_dim=16).assumptions
    assert assumptions == ("the dictionary is taken for rope_parameters itself",)


def test_an_unknown_layer_type_is_told_the_known_ones():
    with pytest.raises(ValueError, match="layer_type must be one of full_attention, sliding_attention: got 'global'"):
        silently(PUBLISHED["Gemma 4 E2B"]).frequencies(layer_type="global")


def test_where_no_layers_see_everything_the_first_ones_are_shown_as_the_main_ones_and_it_is_said():
    layers = {
        "sliding": {"rope_type": "default", "rope_theta": 1e4},
        "hybrid": {"rope_type": "default", "rope_theta": 5e6},
    }
    read = silently(sized("zaya", 64, 4, 256, rope_parameters=layers))
    assert "sliding layers are shown as the main ones: none is full_attention" in read.assumptions
    assert read.main is read.layers["sliding"]
