"""The course's norms and RoPE inside transformers' own models: the same logits, whatever the model
is asked to do."""

import copy

import pytest
import torch
import transformers
from torch import nn

from course_utils import norms
from course_utils.rope import apply_rope, rope_cos_sin, rope_frequencies, rope_inv_freq
from course_utils.swap import compare_layers, compare_runs, swap

WINDOW = 64
SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": WINDOW,
    "pad_token_id": 0,
    "initializer_range": 0.2,  # logits of about 1, ten times what the default gives
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
MODELS = {
    "llama": (transformers.LlamaForCausalLM, GROUPED),
    "qwen3": (transformers.Qwen3ForCausalLM, GROUPED),
    "gpt_neox": (transformers.GPTNeoXForCausalLM, {}),
    "gemma": (transformers.GemmaForCausalLM, GROUPED),
    "gemma3": (
        transformers.Gemma3ForCausalLM,
        {**GROUPED, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}
WINDOWED = {"original_max_position_embeddings": WINDOW}
SCALINGS = {  # each by a factor of 4
    "linear": {},
    "dynamic": {},
    "yarn": WINDOWED,
    "llama3": {**WINDOWED, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {
        **WINDOWED,
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [1.0, 2.0, 3.0, 4.0],
    },
}


def build(name, **changes):
    """A model with random weights, those of its norms included, and its window in its config."""
    model, extra = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = model(model.config_class(**{**SMALL, **extra, **changes})).eval()
        for parameter_name, parameter in built.named_parameters():
            if "norm" in parameter_name:
                nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return built


def tokens(batch=2, length=40):
    return torch.randint(1, 64, (batch, length), generator=torch.Generator().manual_seed(1))


def assert_same(mine, wanted):
    """Within 1e-5 of the largest logit: transformers' angles are float32 products, the course's are
    float64."""
    assert wanted.abs().max() > 1  # not so small that the tolerance hides everything
    assert (mine - wanted).abs().max() <= 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("name", MODELS)
def test_every_norm_and_rotation_is_replaced_and_logits_cache_padding_and_gradients_stay(name):
    original = build(name)
    model = copy.deepcopy(original)
    swapped = swap(model)
    kinds = [type(module).__name__ for module in model.modules()]
    assert not [
        kind for kind in kinds if kind.endswith(("RMSNorm", "LayerNorm", "RotaryEmbedding"))
    ]
    assert not any(module.training for module in model.modules())
    assert model.state_dict().keys() == original.state_dict().keys()
    assert_same(model(tokens()).logits, original(tokens()).logits)
    found = compare_runs(model, original, tokens())
    assert list(found) == ["logits", "cached", "left-padded", "gradients"]
    assert max(found.values()) < 1e-5
    assert not any(
        parameter.grad is not None for parameter in (*model.parameters(), *original.parameters())
    )

    swapped.undo()
    assert [type(module) for module in model.modules()] == [
        type(module) for module in original.modules()
    ]
    assert torch.equal(model(tokens()).logits, original(tokens()).logits)


def build_scaled(scaling):
    """A Llama whose frequencies change, where they do, beyond 64 tokens."""
    window = WINDOW if scaling == "dynamic" else 4 * WINDOW
    parameters = {"rope_theta": 100.0, "rope_type": scaling, "factor": 4.0, **SCALINGS[scaling]}
    return build("llama", rope_parameters=parameters, max_position_embeddings=window)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_every_scaling_agrees_within_and_beyond_the_window_with_other_frequencies(scaling):
    original, calls = build_scaled(scaling), []

    def frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        calls.append((rope_parameters["rope_type"], head_dim, max_position_embeddings, seq_len))
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    course, own = copy.deepcopy(original), copy.deepcopy(original)
    swap(course)
    swapped = swap(own, frequencies=frequencies)
    assert (
        "model.rotary_emb",
        "LlamaRotaryEmbedding",
        f"{__name__}.frequencies",
    ) in swapped.replaced
    assert not swapped.left
    for length in (4 * WINDOW, WINDOW // 2, WINDOW + 1, WINDOW):
        # transformers keeps what a longer prompt left behind, see chapter 15: each of its answers
        # from a fresh model
        wanted = copy.deepcopy(original)(tokens(1, length)).logits
        assert_same(course(tokens(1, length)).logits, wanted)
        assert_same(own(tokens(1, length)).logits, wanted)
        assert calls[-1] == (scaling, 8, original.config.max_position_embeddings, length)


@pytest.mark.parametrize("name", ["llama", "gpt_neox"])
def test_a_learners_own_rope_is_called_with_positions_and_base(name):
    partial = {"partial_rotary_factor": 0.5} if name == "gpt_neox" else {}
    original = build(name, rope_parameters={"rope_type": "default", "rope_theta": 500.0, **partial})
    calls = []

    def rope(x, positions, base=10_000.0):
        calls.append((x.shape[-1], base))
        return apply_rope(x, *rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base)))

    model = copy.deepcopy(original)
    swap(model, rope=rope)
    assert_same(model(tokens()).logits, original(tokens()).logits)
    assert set(calls) == {(4 if name == "gpt_neox" else 8, 500.0)}


def test_the_first_layer_that_differs_is_named():
    original = build("llama")

    def forgets_eps(x, shape, weight=None, eps=None):
        return norms.rms_norm(x, shape, weight, 0.1)

    model = copy.deepcopy(original)
    swap(model, rms_norm=forgets_eps)
    layers = compare_layers(model, original, input_ids=tokens())
    assert layers.first == "model.layers.0.input_layernorm"
    with pytest.raises(
        AssertionError,
        match=r"model\.layers\.0\.input_layernorm is the first of \d+ layers to differ",
    ):
        layers.require()

    assert compare_layers(original, copy.deepcopy(original), input_ids=tokens()).ok


def test_what_cannot_be_replaced_is_left_and_said():
    with torch.random.fork_rng():
        config = transformers.GPTJConfig(
            vocab_size=64, n_embd=32, n_head=4, n_layer=1, rotary_dim=4
        )
        model = transformers.GPTJForCausalLM(config).eval()
    before = model(tokens()).logits
    swapped = swap(model)
    assert all(what == "LayerNorm" for _, what, _ in swapped.replaced)
    # since transformers 5.24 the model has the rotation, and its attention none
    assert {name: why for name, _, why in swapped.left}["transformer.h.0.attn"] in (
        "it is not built as Llama is",
        "it has no config to read",
    )
    torch.testing.assert_close(model(tokens()).logits, before, atol=1e-5, rtol=1e-5)

    class OddRMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(4)), 1e-6

        def forward(self, x):
            return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight

    odd = nn.Sequential(OddRMSNorm(), nn.RMSNorm(4, elementwise_affine=False))
    assert [why for _, _, why in swap(odd).left] == [
        "it computes something else",
        "it has no weight",
    ]
    assert [why for _, _, why in swap(odd, rms_norm=None, keep_rope=True).left] == [
        "as asked",
        "as asked",
    ]


def test_a_model_whose_angles_are_not_those_of_its_config_keeps_them():
    model = build(
        "llama",
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    )
    # transformers' Llama takes no notice of the factor
    assert model(tokens()).logits.shape == (2, 40, 64)
    assert {why for _, _, why in swap(model).left} == {
        "its angles are not those that its config asks for"
    }


def test_a_rope_of_ones_own_cannot_take_a_models_scaling_away_and_a_refused_model_is_as_it_was():
    model = build_scaled("linear")
    before = [type(module) for module in model.modules()]
    with pytest.raises(ValueError, match="rope must be None for a model with rope_type 'linear'"):
        swap(model, rope=lambda x, positions, base: x)
    assert [type(module) for module in model.modules()] == before
    with pytest.raises(ValueError, match="whose RoPE differs by layer"):
        swap(build("gemma3"), rope=lambda x, positions, base: x)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rope": apply_rope, "keep_rope": True},
        {"frequencies": rope_frequencies, "keep_rope": True},
        {"frequencies": rope_frequencies, "rope": apply_rope},
        {"frequencies": {}},
        {"rms_norm": "rms_norm"},
        {"rope": nn.Identity()},
        {"layer_norm": nn.LayerNorm},
    ],
)
def test_what_is_no_function_to_put_somewhere_is_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        swap(build("llama"), **arguments)


def test_a_model_is_swapped_once_until_it_is_given_back():
    model = build("llama")
    swapped = swap(model, keep_rope=True)
    with pytest.raises(ValueError, match="model must not be swapped already"):
        swap(model, rms_norm=norms.rms_norm)
    swapped.undo()
    assert swap(model).replaced


def test_a_function_that_was_put_nowhere_is_among_what_was_left():
    def mine(x, *arguments):
        return x

    for name, model in (
        ("layer_norm", build("llama")),
        ("frequencies", nn.Sequential(nn.Linear(2, 2))),
    ):
        assert swap(model, **{name: mine}).left == [
            (name, f"{__name__}.mine", "the model has no place for it")
        ]


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, input):
        return self.factor * input


def test_an_error_is_relative_to_the_references_largest_value_and_infinite_for_another_shape():
    x = torch.ones(2, 3)
    layers = compare_layers(nn.Sequential(Scale(101.0)), nn.Sequential(Scale(100.0)), input=x)
    assert [name for name, _ in layers.errors] == ["0", "logits"]  # the model itself counts too
    assert [error for _, error in layers.errors] == pytest.approx([0.01, 0.01], rel=1e-6)
    flat = compare_layers(nn.Sequential(nn.Flatten(0)), nn.Sequential(nn.Identity()), input=x)
    assert flat.errors == [("0", float("inf")), ("logits", float("inf"))]
    assert compare_layers(Scale(0.0), Scale(0.0), input=x).ok  # zero beside zero is no NaN


def test_trials_tell_a_fault_of_the_cache_from_one_of_every_way():
    def ignores_what_came_before(x, positions, base):
        return apply_rope(x, *rope_cos_sin(positions.shape[-1], rope_inv_freq(x.shape[-1], base)))

    original = build("llama")
    cache, scale = (copy.deepcopy(original) for _ in range(2))
    swap(cache, rope=ignores_what_came_before)
    scale.lm_head.weight.data *= 1.5
    cache, scale = (compare_runs(model, original, tokens()) for model in (cache, scale))
    assert {name for name, error in cache.items() if error > 1e-3} == {"cached"}
    assert [scale[name] for name in ("logits", "cached", "left-padded")] == pytest.approx(
        [0.5] * 3, rel=1e-4
    )
    assert scale["gradients"] > 0.1


def test_what_cannot_be_compared_is_refused():
    model = build("llama")
    for call, message in (
        (
            lambda: compare_runs(model, model, torch.ones(2, 3, dtype=torch.long)),
            "ids must be tokens",
        ),
        (
            lambda: compare_layers(nn.Identity(), nn.Identity(), input=torch.ones(2).long()),
            "layers of the same names",
        ),
        (
            lambda: compare_layers(model, model, input_ids=tokens(), within=1),
            r"arguments of mine\.forward: got within",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert compare_layers(
        model, model, input_ids=tokens(), attention_mask=None, output_attentions=False
    ).ok
