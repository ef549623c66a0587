"""Every way to stretch RoPE, held against transformers over a grid, against arbitrary precision, and inside models."""

import itertools
import math
import random
import warnings
from fractions import Fraction

import mpmath
import pytest
import torch
import transformers
from transformers import Gemma3TextConfig, GPTNeoXConfig, HunYuanDenseV1Config, LlamaConfig, LlamaForCausalLM
from transformers import PhimoeConfig as PhiMoEConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import (
    HunYuanDenseV1ForCausalLM,
    HunYuanDenseV1RotaryEmbedding,
)
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

from course_utils.rope import (
    ROPE_TYPES,
    RopeWarning,
    blend,
    dynamic_ntk_factor,
    longrope_attention_factor,
    rope_frequencies,
    rope_inv_freq,
    rope_method,
    turns,
    yarn_attention_factor,
    yarn_correction_range,
    yarn_paper_ramp,
    yarn_ramp,
)
from course_utils.rope import scaling as rope_scaling

transformers.logging.set_verbosity_error()

BASES = (10_000.0, 500_000.0, 100.0)
HEAD_DIMS = (32, 64, 128)
# Bugs of transformers that a test records beside our answer; a later release may have mended them.
TRANSFORMERS_IS_5_23 = transformers.__version__.startswith("5.23")


def ours(parameters, head_dim, window, seq_len=None):
    """Ours without warnings: a grid holds many suspicious values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        return rope_frequencies(parameters, head_dim, window, seq_len)


def theirs(parameters, head_dim, window, seq_len=None):
    """The oracle: transformers' own function, from a configuration of the kind that holds these parameters."""
    sizes = {"hidden_size": 2 * head_dim, "num_attention_heads": 2, "max_position_embeddings": window}
    rope_type = parameters["rope_type"]
    if rope_type == "default":
        config = GPTNeoXConfig(**sizes, rope_parameters={"partial_rotary_factor": 1.0, **parameters})
        return GPTNeoXRotaryEmbedding.compute_default_rope_parameters(config)
    if rope_type == "ntk":  # dynamic scaling by a factor of 1 stretches by the ratio of the lengths, and by no more
        seq_len, rope_type = int(parameters["factor"] * window), "dynamic"
        parameters = {**parameters, "rope_type": "dynamic", "factor": 1.0}
    config = LlamaConfig(**sizes, head_dim=head_dim, rope_parameters=dict(parameters))
    return ROPE_INIT_FUNCTIONS[rope_type](config, seq_len=seq_len)


def combinations(rope_type, **choices):
    """Parameters for each combination of the choices; None leaves a key out."""
    for values in itertools.product(*choices.values()):
        given = {key: value for key, value in zip(choices, values, strict=True) if value is not None}
        yield {"rope_type": rope_type, **given}


def longrope_lists(pairs):
    draw = random.Random(pairs)
    long = sorted(draw.uniform(1, 40) for _ in range(pairs))
    return {"short_factor": [round(value**0.2, 3) for value in long], "long_factor": long}


YARN_OPTIONS = (
    {},
    {"truncate": False},
    {"beta_fast": 16, "beta_slow": 2.0},
    {"beta_fast": 4.0, "beta_slow": 4.0},
    {"attention_factor": 1.37, "mscale": 0.7, "mscale_all_dim": 1.0},
    {"mscale": 1.0, "mscale_all_dim": 1.0},
    {"mscale": 0.707, "mscale_all_dim": 1.3},
    {"mscale": 0.707},
    {"mscale": 0.707, "mscale_all_dim": 0.0},
    {"mscale_all_dim": 1.0},
)
LONGROPE_OPTIONS = ({}, {"factor": 8.0}, {"factor": 1.0}, {"attention_factor": 1.19})
LLAMA3_TURNS = ((1.0, 4.0), (0.125, 0.5), (2, 32))


def grid(rope_type):
    """All the configurations of one method: (parameters, head_dim, window, seq_len)."""
    shapes = list(itertools.product(HEAD_DIMS, (1.0, 0.5)))
    everywhere = {"rope_theta": BASES}
    if rope_type == "default":
        shapes += itertools.product(HEAD_DIMS, (0.25,))
        options = [(p, 2048, None) for p in combinations("default", **everywhere)]
    elif rope_type in ("linear", "ntk"):
        options = [(p, 2048, None) for p in combinations(rope_type, **everywhere, factor=(1.0, 2.5, 8, 32.0))]
    elif rope_type == "dynamic":
        lengths = [(window, n) for window in (128, 8192) for n in (None, 100, window, window + 1, 4 * window)]
        options = [
            (p, window, n) for p in combinations("dynamic", **everywhere, factor=(2.0, 8)) for window, n in lengths
        ]
    elif rope_type == "yarn":
        trained = {"factor": (2.0, 32.0), "original_max_position_embeddings": (128, 4096)}
        options = [
            (p | extra, 8192, None) for p in combinations("yarn", **everywhere, **trained) for extra in YARN_OPTIONS
        ]
    elif rope_type == "llama3":
        trained = {"factor": (8.0, 32), "original_max_position_embeddings": (128, 8192)}
        options = [
            (p | {"low_freq_factor": low, "high_freq_factor": high}, 131_072, None)
            for p in combinations("llama3", **everywhere, **trained)
            for low, high in LLAMA3_TURNS
        ]
    elif rope_type == "longrope":
        options = [
            (p | extra, 131_072, n)
            for p in combinations("longrope", **everywhere, original_max_position_embeddings=(4096,))
            for extra in LONGROPE_OPTIONS
            for n in (None, 4096, 4097)
        ]
    else:
        options = [(p, 8192, None) for p in combinations("proportional", **everywhere, factor=(None, 4.0))]
        shapes = list(itertools.product(HEAD_DIMS, (None, 0.0, 0.25, 0.3, 1.0)))

    for (parameters, window, seq_len), (head_dim, partial) in itertools.product(options, shapes):
        complete = parameters if partial is None else {**parameters, "partial_rotary_factor": partial}
        if rope_type == "longrope":
            complete = {**complete, **longrope_lists(int(head_dim * partial) // 2)}
        yield complete, head_dim, window, seq_len


# -- against transformers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_frequencies_and_attention_factor_are_those_of_transformers(rope_type):
    for case in grid(rope_type):
        (inv_freq, attention_factor), (expected, expected_factor) = ours(*case), theirs(*case)
        assert inv_freq.dtype == torch.float64
        assert inv_freq.shape == expected.shape, case
        # transformers computes in float32: a power and a few products, each rounded by up to 6e-8 relatively, and
        # the logarithm of the base enters with the exponent.
        assert ((inv_freq - expected.double()).abs() <= 3e-6 * expected.double()).all(), case
        assert abs(attention_factor - expected_factor) < 1e-9, case


@pytest.mark.parametrize("alpha", [1.0, 8.0, 1000.0])
def test_ntk_is_what_transformers_does_for_hunyuan(alpha):
    parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": alpha, "factor": 1.0}
    config = HunYuanDenseV1Config(hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=parameters)
    expected = HunYuanDenseV1RotaryEmbedding(config).inv_freq
    inv_freq, _ = rope_frequencies({"rope_type": "ntk", "factor": alpha}, 128, None)
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)


def test_the_grid_holds_more_than_eight_hundred_configurations():
    assert sum(1 for rope_type in ROPE_TYPES for _ in grid(rope_type)) >= 800


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 4.0},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        {"rope_type": "longrope", **longrope_lists(10)},
    ],
    ids=lambda parameters: parameters["rope_type"],
)
def test_an_odd_rotary_dimension_is_rounded_up_as_in_transformers_with_a_warning(parameters):
    parameters = {**parameters, "rope_theta": 1e4, "partial_rotary_factor": 0.3}  # 0.3 of 64 is 19
    if parameters["rope_type"] in ("llama3", "longrope"):
        parameters["original_max_position_embeddings"] = 512
    with pytest.warns(RopeWarning, match=r"partial_rotary_factor=0.3, head_dim=64, so 19; it is rounded up to 20"):
        inv_freq, _ = rope_frequencies(parameters, 64, 1024, 4096)
    expected, _ = theirs(parameters, 64, 1024, 4096)
    assert ((inv_freq - expected.double()).abs() <= 3e-6 * expected.double()).all()


def test_an_odd_rotary_dimension_has_a_ramp_for_each_of_its_pairs_where_transformers_fails():
    parameters = {**YARN, "factor": 8.0, "rope_theta": 1e4, "partial_rotary_factor": 0.3}  # 0.3 of 64 is 19
    inv_freq, _ = ours(parameters, 64, 8192)
    trained = 1e4 ** (-2 * torch.arange(10, dtype=torch.float64) / 19)
    # 32 turns lie between pairs 1 and 2, one turn between 5 and 6.
    torch.testing.assert_close(inv_freq[:2], trained[:2], rtol=1e-14, atol=0)
    torch.testing.assert_close(inv_freq[6:], trained[6:] / 8, rtol=1e-14, atol=0)


def test_three_dimensions_are_two_pairs_and_enough_for_dynamic_scaling():
    parameters = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4, "partial_rotary_factor": 0.75}
    (inv_freq, _), (expected, _) = (f(parameters, 4, 1024, 4096) for f in (ours, theirs))
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)


def test_a_window_in_which_no_pair_makes_a_turn_has_a_ramp_without_a_slope_and_no_nan():
    parameters = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 6, "rope_theta": 1e4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inv_freq, _ = rope_frequencies(parameters, 32, 24)
    expected, _ = theirs(parameters, 32, 24)
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)


def test_yarn_without_a_factor_takes_the_ratio_of_the_lengths_as_transformers_does():
    parameters = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 512, "rope_theta": 1e4}
    (inv_freq, attention_factor), (expected, expected_factor) = (f(parameters, 64, 4096) for f in (ours, theirs))
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)
    assert abs(attention_factor - expected_factor) < 1e-9
    assert attention_factor == pytest.approx(0.1 * math.log(8) + 1)


@pytest.mark.parametrize("rope_type", ["yarn", "llama3", "longrope"])
def test_a_missing_original_length_is_the_window_as_in_transformers_with_a_warning(rope_type):
    parameters = {"rope_type": rope_type, "factor": 4.0, "rope_theta": 1e4}
    if rope_type == "llama3":
        parameters |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if rope_type == "longrope":
        parameters |= longrope_lists(32)
    message = "original_max_position_embeddings is missing .* max_position_embeddings=4096"
    with pytest.warns(RopeWarning, match=message) as caught:
        inv_freq, attention_factor = rope_frequencies(parameters, 64, 4096)
    assert len(caught) == 1
    expected, expected_factor = theirs(parameters, 64, 4096)
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)
    assert abs(attention_factor - expected_factor) < 1e-9


def test_truncate_is_honoured_per_layer_type_where_transformers_reads_it_from_the_wrong_place():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "rope_theta": 1e6}
    layers = {
        "full_attention": {**yarn, "truncate": False},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = Gemma3TextConfig(head_dim=256, max_position_embeddings=8192, rope_parameters=layers)
    nested, _ = ROPE_INIT_FUNCTIONS["yarn"](config, layer_type="full_attention")
    flat, _ = theirs(layers["full_attention"], 256, 8192)

    inv_freq, _ = ours(layers["full_attention"], 256, 8192)
    torch.testing.assert_close(inv_freq, flat.double(), rtol=3e-6, atol=0)
    if TRANSFORMERS_IS_5_23:
        truncated, _ = ours({**yarn, "truncate": True}, 256, 8192)
        torch.testing.assert_close(nested.double(), truncated, rtol=3e-6, atol=0)
        assert ((nested - inv_freq).abs() / inv_freq).max() > 0.03


def test_phimoe_has_attention_factors_of_its_own_and_transformers_never_reads_its_long_factors():
    parameters = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "original_max_position_embeddings": 128,
        "short_mscale": 1.1,
        "long_mscale": 1.3,
        **longrope_lists(16),
    }
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 1024}
    model = PhimoeRotaryEmbedding(PhiMoEConfig(**sizes, rope_parameters=dict(parameters)))
    for length, is_long in ((128, False), (129, True)):
        inv_freq, attention_factor = ours(parameters, 32, 1024, length)
        cos, sin = model(torch.zeros(1), torch.arange(length)[None])
        torch.testing.assert_close(torch.hypot(cos, sin), torch.full_like(cos, attention_factor), rtol=1e-5, atol=0)

        used = torch.atan2(sin[0, 1], cos[0, 1])[:16].double()
        short, _ = ours(parameters, 32, 1024)
        torch.testing.assert_close(used, short if TRANSFORMERS_IS_5_23 else inv_freq, rtol=1e-5, atol=0)
        assert torch.equal(inv_freq, short) != is_long


# -- whole models ------------------------------------------------------------------------------------------------------

MODEL_PARAMETERS = [
    {"rope_type": "default", "rope_theta": 500_000.0},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {
        "rope_type": "llama3",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
    {"rope_type": "longrope", "original_max_position_embeddings": 32, **longrope_lists(8)},
    {"rope_type": "proportional", "partial_rotary_factor": 0.25},
]


def tiny_llama(parameters):
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_dim=16,
        max_position_embeddings=64,
        initializer_range=0.1,  # attention that is far from uniform, so that positions matter
        rope_parameters={"rope_theta": 100.0, **parameters},
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("parameters", MODEL_PARAMETERS, ids=lambda parameters: parameters["rope_type"])
def test_a_whole_llama_has_the_same_logits_with_our_frequencies_patched_in(parameters, monkeypatch):
    tokens = torch.arange(100)[None] % 50  # longer than the window of 64
    rng = torch.get_rng_state()
    with torch.no_grad():
        expected = tiny_llama(parameters)(tokens).logits
        unscaled = tiny_llama({"rope_type": "default"})(tokens).logits

        calls = []

        def our_function(config, device=None, seq_len=None, layer_type=None):
            calls.append(seq_len)
            length = None if seq_len is None else int(seq_len)
            inv_freq, factor = ours(config.rope_parameters, config.head_dim, config.max_position_embeddings, length)
            return inv_freq.float(), factor

        rope_type = parameters["rope_type"]
        if rope_type == "default":
            monkeypatch.setattr(LlamaRotaryEmbedding, "compute_default_rope_parameters", staticmethod(our_function))
        else:
            monkeypatch.setitem(ROPE_INIT_FUNCTIONS, rope_type, our_function)
        logits = tiny_llama(parameters)(tokens).logits
    torch.set_rng_state(rng)

    assert calls
    # Both give float32 frequencies, which may differ in the last bits: 1e-7 of an angle of up to 100.
    assert (logits - expected).abs().max() < 1e-6
    assert (expected - unscaled).abs().max() > 1e-3


def test_a_whole_hunyuan_has_the_same_logits_with_our_static_ntk_patched_in():
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 16}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
    parameters = {"rope_type": "dynamic", "rope_theta": 100.0, "alpha": 8.0, "factor": 1.0}
    tokens = torch.arange(60)[None] % 50
    with torch.random.fork_rng(), torch.no_grad():
        config = HunYuanDenseV1Config(**sizes, initializer_range=0.1, rope_parameters=parameters)
        model = HunYuanDenseV1ForCausalLM(config).eval()
        expected = model(tokens).logits
        logits = {}
        for factor in (8.0, 1.0):
            inv_freq, _ = rope_frequencies({"rope_type": "ntk", "factor": factor, "rope_theta": 100.0}, 16, None)
            model.model.rotary_emb.inv_freq = inv_freq.float()
            logits[factor] = model(tokens).logits
    # Both are float32, and may differ in the last bit: 1e-7 of an angle of up to 59, behind norms of queries and keys.
    assert (logits[8.0] - expected).abs().max() < 6e-6
    assert (logits[1.0] - expected).abs().max() > 1e-3


# -- against arbitrary precision ---------------------------------------------------------------------------------------


def exact_frequencies(parameters, head_dim, window, seq_len):
    """The frequencies with 40 digits, pair by pair, from the formulas of the papers and of the reference code."""
    mp, factor = mpmath, mpmath.mpf(parameters.get("factor", 1))
    base, d = mp.mpf(parameters["rope_theta"]), int(head_dim * parameters.get("partial_rotary_factor", 1))
    kind, original = parameters["rope_type"], parameters.get("original_max_position_embeddings")
    if kind == "proportional":
        rotating, d = d // 2, head_dim
        return [(base ** (-mp.mpf(2 * k) / d) if k < rotating else mp.mpf(0)) / factor for k in range(d // 2)]
    if kind in ("ntk", "dynamic"):
        stretch = factor if kind == "ntk" else factor * max(seq_len, window) / window - (factor - 1)
        base *= stretch ** (mp.mpf(d) / (d - 2))
    frequencies = [base ** (-mp.mpf(2 * k) / d) for k in range(d // 2)]
    if kind == "linear":
        return [f / factor for f in frequencies]
    if kind == "longrope":
        factors = parameters["long_factor" if seq_len > original else "short_factor"]
        return [f / mp.mpf(each) for f, each in zip(frequencies, factors, strict=True)]
    if kind == "llama3":
        low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
        kept = [(original * f / (2 * mp.pi) - low) / (high - low) for f in frequencies]
    elif kind == "yarn":
        ends = [d * mp.log(original / (2 * mp.pi * n)) / (2 * mp.log(base)) for n in (32, 1)]
        first, last = max(mp.floor(ends[0]), 0), min(mp.ceil(ends[1]), d - 1)
        kept = [1 - (k - first) / (last - first) for k in range(d // 2)]
    else:
        return frequencies
    clamped = [min(max(share, mp.mpf(0)), mp.mpf(1)) for share in kept]
    return [share * f + (1 - share) * f / factor for share, f in zip(clamped, frequencies, strict=True)]


@pytest.mark.parametrize("rope_type", ROPE_TYPES)
@pytest.mark.parametrize(("head_dim", "partial"), [(64, 1.0), (128, 0.5)])
def test_frequencies_are_exact_to_float64(rope_type, head_dim, partial):
    parameters = {"rope_type": rope_type, "rope_theta": 500_000.0, "partial_rotary_factor": partial}
    if rope_type != "default":
        parameters["factor"] = 8.0
    if rope_type in ("yarn", "llama3", "longrope"):
        parameters["original_max_position_embeddings"] = 4096
    if rope_type == "llama3":
        parameters |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if rope_type == "longrope":
        parameters |= longrope_lists(32)
    with mpmath.workdps(40):
        exact = [float(value) for value in exact_frequencies(parameters, head_dim, 32_768, 50_000)]
    inv_freq, _ = ours(parameters, head_dim, 32_768, 50_000)
    # Only the rounding of a few float64 operations: any detour through float32 would leave 1e-8.
    torch.testing.assert_close(inv_freq, torch.tensor(exact, dtype=torch.float64), rtol=1e-13, atol=0)


def test_another_base_is_all_that_abf_changes():
    inv_freq, attention_factor = rope_frequencies({"rope_type": "default", "rope_theta": 500_000.0}, 64, 4096)
    assert torch.equal(inv_freq, rope_inv_freq(64, 500_000.0))
    assert attention_factor == 1.0
    assert inv_freq[0] == 1.0  # the fastest pair does not turn less
    assert (inv_freq[1:] < rope_inv_freq(64)[1:]).all()


# -- what the formulas mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head_dim", [4, 64, 128])
def test_ntk_keeps_the_first_pair_and_divides_the_last_by_the_factor(head_dim):
    trained = rope_inv_freq(head_dim)
    inv_freq, _ = rope_frequencies({"rope_type": "ntk", "factor": 8.0}, head_dim, None)
    assert inv_freq[0] == trained[0]
    assert float(inv_freq[-1] * 8 / trained[-1]) == pytest.approx(1, abs=1e-12)
    assert float(trained[-2] / inv_freq[-2]) < 8 or head_dim == 4


def test_dynamic_scaling_starts_at_the_window_and_is_not_its_factor_at_that_many_windows():
    assert dynamic_ntk_factor(8.0, 4096, 4096) == 1
    assert dynamic_ntk_factor(8.0, 8 * 4096, 4096) == 57
    short, _ = ours({"rope_type": "dynamic", "factor": 8.0}, 64, 4096, 17)
    assert torch.equal(short, rope_inv_freq(64))
    beyond, _ = ours({"rope_type": "dynamic", "factor": 8.0}, 64, 4096, 4097)
    assert (beyond[1:] < short[1:]).all()


def test_dynamic_scaling_takes_the_present_window_for_the_trained_one_and_says_what_it_ignores():
    parameters = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 1024}
    with pytest.warns(RopeWarning, match="original_max_position_embeddings: not known for rope_type='dynamic'"):
        inv_freq, _ = rope_frequencies(parameters, 64, 4096, 4096)
    assert torch.equal(inv_freq, rope_inv_freq(64))


def test_llama3_is_the_by_parts_ramp_of_the_yarn_paper():
    parameters = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "rope_theta": 5e5}
    llama3, attention_factor = ours({**parameters, "low_freq_factor": 1.0, "high_freq_factor": 4.0}, 128, 131_072)
    kept = []
    for f in rope_inv_freq(128, 5e5).tolist():  # eq. for γ, pair by pair
        r = 8192 / (2 * math.pi / f)
        kept.append(0.0 if r < 1 else 1.0 if r > 4 else (r - 1) / (4 - 1))
    gamma = torch.tensor(kept, dtype=torch.float64)
    by_parts = (1 - gamma) * rope_inv_freq(128, 5e5) / 8 + gamma * rope_inv_freq(128, 5e5)
    torch.testing.assert_close(llama3, by_parts, rtol=1e-14, atol=0)
    assert attention_factor == 1.0
    assert [(gamma == 1).sum(), ((gamma > 0) & (gamma < 1)).sum(), (gamma == 0).sum()] == [29, 6, 29]


def test_llama3_between_equal_factors_is_a_step_without_nan():
    base = 16.0
    length = 2 * math.pi * 4  # of 4 pairs, 1, 1/2, 1/4, 1/8 per position, the third makes one turn, to rounding
    inv_freq = rope_inv_freq(8, base)
    assert yarn_paper_ramp(inv_freq, length, 1.0, 1.0).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_yarn_as_printed_and_yarn_as_run_differ_by_up_to_a_factor_of_2_3():
    trained = rope_inv_freq(128)
    run, attention_factor = ours(
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}, 128, 32_768
    )
    printed = blend(trained, 8.0, yarn_paper_ramp(trained, 4096))
    assert attention_factor == yarn_attention_factor(8.0) == pytest.approx(0.1 * math.log(8) + 1)
    ratio = run / printed
    assert float(ratio.max()) == pytest.approx(2.305, abs=0.001)
    assert float(ratio.min()) > 0.97  # what is run keeps more nearly everywhere

    # Both agree where a pair makes more than 32 turns in the window, and nearly where it makes less than one.
    assert torch.equal(run[turns(trained, 4096) > 36], printed[turns(trained, 4096) > 36])
    torch.testing.assert_close(run[turns(trained, 4096) < 0.8], printed[turns(trained, 4096) < 0.8], rtol=1e-12, atol=0)

    # The paper's form can be asked for: it is llama3's with its own numbers of turns, and the temperature beside it.
    asked = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 4096}
    by_parts, _ = ours({**asked, "low_freq_factor": 1.0, "high_freq_factor": 32.0}, 128, 32_768)
    torch.testing.assert_close(by_parts, printed, rtol=1e-14, atol=0)


def test_rounding_the_ends_of_yarns_ramp_moves_frequencies_by_a_fifth():
    parameters = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
    rounded, _ = ours(parameters, 64, 32_768)
    sharp, _ = ours({**parameters, "truncate": False}, 64, 32_768)
    assert 0.1 < ((rounded - sharp).abs() / sharp).max() < 0.3


def test_yarns_ramp_may_end_beyond_the_last_pair_so_that_none_is_fully_stretched():
    low, high = yarn_correction_range(32, 100.0, 2048)
    assert (low, high) == (8, 21)  # of 16 pairs; a clamp to 15 would end the ramp there
    inv_freq, _ = ours(
        {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "original_max_position_embeddings": 2048}, 32, 16_384
    )
    assert float(rope_inv_freq(32, 100.0)[-1] / inv_freq[-1]) == pytest.approx(1.89, abs=0.01)


def test_with_a_small_base_yarns_ramp_runs_backwards_as_in_transformers_with_a_warning():
    parameters = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 10**6}
    with pytest.warns(RopeWarning, match="beta_fast=32 and beta_slow=1 turns fall on pairs 59 and 31: the ramp runs"):
        inv_freq, _ = rope_frequencies(parameters, 32, 8 * 10**6)
    expected, _ = theirs(parameters, 32, 8 * 10**6)
    torch.testing.assert_close(inv_freq, expected.double(), rtol=3e-6, atol=0)
    # Every pair makes more than 32 turns in the window, and yet all of them are stretched.
    assert (turns(rope_inv_freq(32, 10.0), 10**6) > 32).all()
    torch.testing.assert_close(inv_freq, rope_inv_freq(32, 10.0) / 8, rtol=1e-14, atol=0)


def test_yarns_ramp_is_one_where_it_keeps_and_zero_where_it_stretches():
    ramp = yarn_ramp(128, 10_000.0, 4096)
    low, high = yarn_correction_range(128, 10_000.0, 4096)
    assert (ramp[: int(low) + 1] == 1).all()
    assert (ramp[int(high) :] == 0).all()
    straight = 1 - (torch.arange(64, dtype=torch.float64) - low) / (high - low)
    torch.testing.assert_close(ramp, straight.clamp(0, 1), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("mscale", "all_dim", "expected"),
    [(1.0, 1.0, 1.0), (0.707, 1.0, (0.0707 * math.log(40) + 1) / (0.1 * math.log(40) + 1))],
)
def test_mscale_over_mscale_all_dim_is_the_attention_factor(mscale, all_dim, expected):
    parameters = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    _, attention_factor = rope_frequencies({**parameters, "mscale": mscale, "mscale_all_dim": all_dim}, 64, 163_840)
    assert attention_factor == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_where_nothing_is_stretched_cosine_and_sine_are_multiplied_by_one(factor):
    assert yarn_attention_factor(factor) == longrope_attention_factor(factor, 4096) == 1.0


def test_mscale_alone_is_ignored_as_in_transformers_with_a_warning():
    parameters = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 0.707}
    with pytest.warns(RopeWarning, match="mscale=0.707 and mscale_all_dim=0 have no effect"):
        _, attention_factor = rope_frequencies(parameters, 64, 163_840)
    assert attention_factor == pytest.approx(0.1 * math.log(40) + 1)


def test_longrope_switches_lists_one_past_the_original_length_and_measures_it_in_its_logarithm():
    lists = longrope_lists(16)
    parameters = {"rope_type": "longrope", "original_max_position_embeddings": 128, **lists}
    for seq_len, key in ((None, "short_factor"), (128, "short_factor"), (129, "long_factor")):
        inv_freq, attention_factor = rope_frequencies(parameters, 32, 1024, seq_len)
        expected = rope_inv_freq(32) / torch.tensor(lists[key], dtype=torch.float64)
        torch.testing.assert_close(inv_freq, expected, rtol=1e-15, atol=0)
        assert attention_factor == pytest.approx(math.sqrt(1 + math.log(8) / math.log(128)))


def test_proportional_keeps_the_wavelengths_of_the_whole_head_and_partial_squeezes_them():
    whole = rope_inv_freq(64)
    proportional, _ = rope_frequencies({"rope_type": "proportional", "partial_rotary_factor": 0.25}, 64, 4096)
    partial, _ = rope_frequencies({"rope_type": "default", "partial_rotary_factor": 0.25}, 64, 4096)
    assert torch.equal(proportional[:8], whole[:8])
    assert torch.equal(proportional[8:], torch.zeros(24, dtype=torch.float64))
    assert torch.equal(partial, rope_inv_freq(16))
    assert float(partial[-1] / proportional[7]) < 1e-2


@pytest.mark.parametrize("rope_type", ["linear", "dynamic", "longrope"])
def test_frequencies_are_a_copy_that_the_caller_may_change(rope_type):
    lists = longrope_lists(8) if rope_type == "longrope" else {}
    original = {"original_max_position_embeddings": 32} if rope_type == "longrope" else {}
    method = rope_method({"rope_type": rope_type, "factor": 2.0, **original, **lists}, 16, 64)
    method.frequencies()[0].zero_()
    assert (method.frequencies()[0] > 0).all()


@pytest.mark.parametrize(
    ("parameters", "rotary_dim", "factor", "trained_length"),
    [
        ({"rope_type": "default", "partial_rotary_factor": 0.25}, 16, 1.0, 4096),
        ({"rope_type": "default", "partial_rotary_factor": 0.3}, 20, 1.0, 4096),
        ({"rope_type": "ntk", "factor": 4}, 64, 4.0, 4096),
        ({"rope_type": "dynamic", "factor": 4}, 64, 4.0, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 64, 4.0, 1024),
        ({"rope_type": "longrope", "original_max_position_embeddings": 1024, **longrope_lists(32)}, 64, 4.0, 1024),
        ({"rope_type": "proportional", "partial_rotary_factor": 0.25}, 64, 1.0, 4096),
    ],
)
def test_a_method_says_how_far_it_stretches_which_window(parameters, rotary_dim, factor, trained_length):
    method = rope_method({**parameters, "rope_theta": 500.0}, 64, 4096)
    assert (method.rotary_dim, method.factor, method.trained_length) == (rotary_dim, factor, trained_length)
    assert (method.rope_type, method.base, method.head_dim) == (parameters["rope_type"], 500.0, 64)


# -- errors and warnings -----------------------------------------------------------------------------------------------

LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 1024, **longrope_lists(32)}


def without(parameters, key):
    return {name: value for name, value in parameters.items() if name != key}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"rope_type": "nkt"},
            "one of default, linear, dynamic, ntk, yarn, llama3, longrope, proportional: got rope_ty",
        ),
        ({"type": "nkt"}, "got type='nkt'$"),
        ({"rope_type": "axial"}, "got rope_type='axial'; an image's axial frequencies are positions.axial_rope_2d"),
        ({"factor": 4.0}, "rope_type must be one of .*: got none, with factor"),
        ("yarn", "rope_parameters must be a dictionary or None: got 'yarn'"),
        ({"full_attention": LINEAR}, "one layer type: got one of dictionaries, pass that of one of full_attention"),
        (without(LINEAR, "factor"), "factor must be a number of at least 1 for rope_type='linear': got none"),
        ({**LINEAR, "factor": "4"}, "factor must be a number of at least 1 .*: got factor='4'"),
        ({**LINEAR, "factor": 0.5}, "factor must be a number of at least 1 .*: got factor=0.5"),
        ({**LINEAR, "factor": True}, "factor must be a number of at least 1 .*: got factor=True"),
        ({**LINEAR, "factor": math.nan}, "factor must be a number of at least 1 .*: got factor=nan"),
        ({**LINEAR, "factor": math.inf}, "factor must be a number of at least 1 .*: got factor=inf"),
        *(
            ({**LINEAR, "rope_type": rope_type, "factor": 0.5}, f"at least 1 for rope_type='{rope_type}': got factor=")
            for rope_type in ("ntk", "dynamic", "proportional")
        ),
        ({**LINEAR, "factor": "x" * 78}, "got factor='x{78}'$"),
        ({**LINEAR, "factor": "x" * 79}, "got factor='x{79}…$"),
        ({**LINEAR, "rope_theta": 0}, "rope_theta must be a number above 1 .*: got rope_theta=0"),
        ({**LINEAR, "partial_rotary_factor": 1.5}, "partial_rotary_factor must be a number above 0 and of at most 1"),
        ({**LINEAR, "partial_rotary_factor": 0.01}, "whole pairs within the head: .*head_dim=64, so 0"),
        ({**YARN, "factor": 0.5}, "factor must be a number of at least 1 for rope_type='yarn': got factor=0.5"),
        ({**YARN, "original_max_position_embeddings": 10.5}, "original_max_position_embeddings must be a whole number"),
        ({**YARN, "original_max_position_embeddings": 1}, "must be a whole number of at least 2: got original_max_p"),
        ({**YARN, "beta_fast": 1, "beta_slow": 32}, "must be at least beta_slow: got beta_fast=1, beta_slow=32"),
        ({**YARN, "beta_fast": 0}, "beta_fast must be a number above 0 .*: got beta_fast=0"),
        ({**YARN, "attention_factor": -1.0}, "attention_factor must be a number above 0 .*: got attention_factor=-1.0"),
        ({**YARN, "mscale": "1"}, "mscale must be a number of at least 0 .*: got mscale='1'"),
        ({**YARN, "mscale_all_dim": -1}, "mscale_all_dim must be a number of at least 0 .*: got mscale_all_dim=-1"),
        ({**YARN, "truncate": "no"}, "truncate must be true or false for rope_type='yarn': got truncate='no'"),
        (without(LLAMA3, "low_freq_factor"), "low_freq_factor must be a number above 0 .*: got none"),
        ({**LLAMA3, "high_freq_factor": 0.5}, "must be at least low_freq_factor: got high_freq_factor=0.5, low_freq_f"),
        ({**LLAMA3, "factor": 0.5}, "factor must be a number of at least 1 for rope_type='llama3': got factor=0.5"),
        *(
            ({**LONGROPE, key: -1.0}, f"{key} must be a number above 0 .*: got {key}=-1.0")
            for key in ("attention_factor", "short_mscale", "long_mscale")
        ),
        *(
            ({"rope_type": "proportional", "partial_rotary_factor": share}, "of at least 0 and of at most 1 .*: got pa")
            for share in (-0.5, 1.5)
        ),
        (without(LONGROPE, "long_factor"), "long_factor must be a list of 32 positive numbers, .*: got none"),
        ({**LONGROPE, "long_factor": [1.0]}, "long_factor must be a list of 32 positive numbers, .*: got 1"),
        ({**LONGROPE, "short_factor": [0.0] * 32}, r"one per rotary pair: got short_factor\[0\]=0.0"),
        ({**LONGROPE, "short_factor": 2.0}, "short_factor must be a list of 32 positive numbers, .*: got 2.0"),
        ({**LONGROPE, "original_max_position_embeddings": 8192}, "got none, and max_position_embeddings / .* = 0.5"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_key_and_what_is_expected(parameters, message):
    with pytest.raises(ValueError, match=message):
        ours(parameters, 64, 4096)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rope_frequencies(LINEAR, 63, 4096), "whole pairs within the head: .*head_dim=63, so 63"),
        (lambda: rope_frequencies(LINEAR, 0, 4096), "head_dim must be a whole number of at least 2: got head_dim=0"),
        (lambda: rope_frequencies({"rope_type": "proportional"}, 63, 4096), "dim must be a positive even number"),
        (
            lambda: rope_frequencies({**LINEAR, "rope_type": "ntk"}, 2, 64),
            "must be above 2 for NTK-aware scaling: got 2",
        ),
        (lambda: rope_method({**LINEAR, "rope_type": "dynamic"}, 2, 64), "must be above 2 for NTK-aware"),
        (
            lambda: rope_frequencies({**LINEAR, "rope_type": "dynamic"}, 64, None),
            "max_position_embeddings must be a wh",
        ),
        (lambda: rope_frequencies(LINEAR, 64, -4), "at least 2: got max_position_embeddings=-4"),
        (
            lambda: rope_frequencies(without(YARN, "factor"), 64, None),
            "or follow from max_position_embeddings: got nei",
        ),
        (
            lambda: rope_frequencies(without(YARN, "original_max_position_embeddings"), 64, None),
            "original_max_position_embeddings must be given for rope_type='yarn': got none",
        ),
        (lambda: rope_frequencies(LINEAR, 64, 4096, seq_len=0), "seq_len must be a whole number of at least 1"),
        (lambda: rope_frequencies(LINEAR, 64, 4096, seq_len="9"), "seq_len must be a whole number .*: got seq_len='9'"),
        *(
            (lambda seq_len=seq_len: rope_method(LINEAR, 64, 4096).frequencies(seq_len), "seq_len must be a whole num")
            for seq_len in (-5, 0, 4096.5, "8192", True)
        ),
    ],
)
def test_a_bad_size_is_an_error_that_names_it(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("parameters", "window", "message"),
    [
        (
            {**LINEAR, "betafast": 3},
            4096,
            "betafast: not known for .*; it knows factor, original_max_position_embeddings, partial_rotary_factor, "
            "rope_theta, rope_type$",
        ),
        ({**LINEAR, "d": 1, "b": 1, "c": 1, "a": 1}, 4096, "a, b, c, d: not known for rope_type='linear' and ignored"),
        ({"rope_type": "default", "factor": 4.0}, 4096, "factor: not known for rope_type='default' and ignored"),
        (YARN, 8192, r"factor=4 disagrees with .* = 8192 / 1024 = 8: factor is used, as transformers does"),
        ({**LONGROPE, "factor": 32.0}, 4096, r"factor=32 disagrees with .* = 4096 / 1024 = 4: factor is used"),
        (
            {**LLAMA3, "high_freq_factor": 1.0},
            4096,
            "are both 1: pairs of that many turns and more are kept, all others",
        ),
        (LLAMA3, 1024, "original_max_position_embeddings=1024 should be below max_position_embeddings=1024"),
        ({**LINEAR, "type": "dynamic"}, 4096, "rope_type='linear' is used, and type='dynamic' is ignored"),
    ],
)
def test_a_suspicious_value_is_a_warning_that_says_what_was_assumed(parameters, window, message):
    with pytest.warns(RopeWarning, match=message) as caught:
        rope_frequencies(parameters, 64, window)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at the caller


@pytest.mark.parametrize(
    ("parameters", "window"),
    [
        (None, 4096),
        ({}, None),
        ({"rope_type": "default", "factor": None}, 4096),
        ({"type": "linear", "factor": 4.0}, 4096),
        ({"rope_type": "default", "mrope_section": [8, 12, 12]}, 4096),
        (YARN, 4096),
        (YARN, 1024),  # Qwen's advice: the file keeps its window
        (YARN, None),
        ({**LLAMA3, "factor": 8.0}, 131_072),  # Llama 3.1's factor is not the ratio of its lengths
        (LONGROPE, 32_768),
        ({**YARN, "original_max_position_embeddings": 1024.0}, 4096),
        (without(YARN, "factor"), 1024),  # a ratio of 1
        (without(YARN, "factor"), 1536),
        ({**LINEAR, "type": "linear"}, 4096),
        ({**LINEAR, "rope_type": "dynamic", "factor": 1.5}, 4096),
        ({**LLAMA3, "factor": 1.5}, 8192),
        ({**LINEAR, "factor": Fraction(5, 2)}, 4096),
    ],
)
def test_sound_parameters_pass_without_a_word(parameters, window):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rope_frequencies(parameters, 64, window)


def test_the_module_has_every_name_that_it_promises():
    assert all(hasattr(rope_scaling, name) for name in rope_scaling.__all__)


@pytest.mark.parametrize(
    ("parameters", "window", "message"),
    [
        ({"rope_type": "ntk", "factor": 1e300}, 64, r"factor must be .* and of at most 1e\+15 .*: got factor=1e\+300"),
        (
            {"rope_type": "linear", "factor": 10**400},
            64,
            r"factor must be .* of at most 1e\+15 .*: got factor=10\*\*400",
        ),
        ({**LINEAR, "factor": -(10**400)}, 64, r"factor must be a number of at least 1 .*: got factor=-10\*\*400"),
        ({"rope_type": "default", "rope_theta": 10**400}, 64, r"rope_theta must be .*: got rope_theta=10\*\*400"),
        ({**LONGROPE, "long_factor": [10**400] * 32}, 4096, r"long_factor\[0\]=10\*\*400"),
        (
            {**YARN, "original_max_position_embeddings": 10**400},
            4096,
            r"at most 1e\+15: got original_max_position_embedd",
        ),
        (LINEAR, 10**400, r"max_position_embeddings must be a whole number of at most 1e\+15"),
    ],
)
def test_a_number_beyond_all_models_is_an_error_before_it_overflows(parameters, window, message):
    with pytest.raises(ValueError, match=message):
        ours(parameters, 64, window)
    with pytest.raises(ValueError, match="head_dim must be a whole number of at most 65536"):
        rope_frequencies(LINEAR, 10**6, 64)


def test_whatever_the_values_the_answer_is_finite_frequencies_or_a_valueerror():
    draw = random.Random(0)
    values = [
        0,
        1,
        -1,
        2,
        0.5,
        1e300,
        1e-300,
        10**400,
        "x",
        True,
        None,
        [],
        {},
        [1.0] * 8,
        64,
        math.nan,
        math.inf,
        2**63,
    ]
    keys = [
        *(
            "rope_theta",
            "factor",
            "original_max_position_embeddings",
            "partial_rotary_factor",
            "beta_fast",
            "beta_slow",
        ),
        *("mscale", "mscale_all_dim", "truncate", "low_freq_factor", "high_freq_factor", "short_factor", "long_factor"),
        *("attention_factor", "short_mscale", "long_mscale"),
    ]
    sound = {**YARN, **LLAMA3, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    refused = 0
    for _ in range(3000):
        parameters = {key: value for key, value in sound.items() if draw.random() < 0.9}
        parameters["rope_type"] = draw.choice(ROPE_TYPES)
        parameters |= {draw.choice(keys): draw.choice(values) for _ in range(draw.randint(0, 2))}
        try:
            inv_freq, attention_factor = ours(
                parameters, 16, draw.choice([64, 4096, None]), draw.choice([None, 10, 10**6])
            )
        except ValueError:
            refused += 1
        else:
            assert inv_freq.isfinite().all()
            assert (inv_freq >= 0).all()
            assert math.isfinite(attention_factor)
    assert 500 < refused < 2500
