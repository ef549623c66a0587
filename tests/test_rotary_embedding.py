"""The rotary module: what a call gives depends on that call alone, and inside models it gives their logits."""

import copy
import io
import math
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
import transformers
from torch._subclasses import FakeTensorMode
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from course_utils.rope import RopeWarning, RotaryEmbedding, apply_rope, rope_cos_sin, rope_frequencies, rope_inv_freq
from course_utils.rope import embedding as rotary_embedding
from course_utils.rope.embedding import TABLE_ROWS

transformers.logging.set_verbosity_error()

WINDOW = 64
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 32,
    "short_factor": [1.0 + 0.1 * k for k in range(8)],
    "long_factor": [1.0 + k for k in range(8)],
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 2.0}
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
ALL_PARAMETERS = [None, LINEAR, {"rope_type": "ntk", "factor": 2.0}, DYNAMIC, YARN, LONGROPE, PROPORTIONAL]


def by_type(parameters):
    return parameters["rope_type"] if parameters else "none"


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rotary(parameters=None, **others):
    return RotaryEmbedding(16, rope_parameters=parameters, max_position_embeddings=WINDOW, **others)


# -- what is rotated ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("parameters", ALL_PARAMETERS, ids=by_type)
@pytest.mark.parametrize("length", [1, 33, 64, 200])
def test_it_rotates_by_the_frequencies_of_the_length(parameters, layout, length):
    x = randn(2, 3, length, 16)
    inv_freq, attention_factor = rope_frequencies(parameters, 16, WINDOW, length)
    cos_sin = rope_cos_sin(length, inv_freq, attention_factor)
    assert torch.equal(rotary(parameters, layout=layout)(x), apply_rope(x, *cos_sin, layout))


def test_partial_rotation_leaves_the_rest_of_the_head_alone():
    x = randn(5, 16)
    turned = rotary({"rope_type": "default", "partial_rotary_factor": 0.5})(x)
    assert torch.equal(turned[:, 8:], x[:, 8:])
    assert torch.equal(turned[:, :8], apply_rope(x[:, :8], *rope_cos_sin(5, rope_inv_freq(8))))


def test_the_attention_factor_scales_what_is_rotated():
    _, attention_factor = rope_frequencies(YARN, 16, WINDOW)
    x = randn(7, 16)
    torch.testing.assert_close(rotary(YARN)(x).norm(dim=-1), x.norm(dim=-1) * attention_factor)
    assert attention_factor == pytest.approx(0.1 * math.log(4) + 1)


@pytest.mark.parametrize("parameters", [None, YARN, LONGROPE], ids=by_type)
def test_decoding_token_by_token_gives_the_rows_of_the_whole(parameters):
    x, module = randn(2, 30, 16), rotary(parameters)
    whole = rotary(parameters)(x)
    for t in range(30):
        assert torch.equal(module(x[:, t : t + 1], positions=torch.tensor([t])), whole[:, t : t + 1])


@pytest.mark.parametrize("parameters", [DYNAMIC, LONGROPE], ids=by_type)
def test_the_last_position_tells_the_length_and_seq_len_may_tell_more(parameters):
    x = randn(1, 16)
    expected, factor = rope_frequencies(parameters, 16, WINDOW, 101)
    at_100 = apply_rope(x, *rope_cos_sin(torch.tensor([100]), expected, factor))
    assert torch.equal(rotary(parameters)(x, positions=torch.tensor([100])), at_100)

    at_5 = apply_rope(x, *rope_cos_sin(torch.tensor([5]), expected, factor))
    assert torch.equal(rotary(parameters)(x, positions=torch.tensor([5]), seq_len=101), at_5)
    assert not torch.equal(rotary(parameters)(x, positions=torch.tensor([5])), at_5)


def test_each_sequence_of_a_batch_can_have_its_own_positions():
    x, module = randn(2, 4, 5, 16), rotary()
    places = torch.stack((torch.arange(5), torch.arange(20, 25)))[:, None]  # (B, 1, T)
    together = module(x, positions=places)
    for b in range(2):
        assert torch.equal(together[b], rotary()(x[b], positions=places[b, 0]))


@pytest.mark.parametrize("leading", [(2,), (5, 3), (1, 2, 3)], ids=["a row per sequence", "another batch", "more axes"])
def test_positions_whose_leading_dimensions_do_not_fit_are_told_how_they_would(leading):
    places = torch.zeros(*leading, 5, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"must broadcast with those of x; for positions \(B, T\).* pass positions\[:, None\]: got x"
    ):
        rotary()(randn(2, 3, 5, 16), positions=places)


def test_positions_with_an_axis_for_each_of_xs_or_fewer_fit():
    x = randn(2, 3, 5, 16)
    for leading in ((), (3,), (1,), (1, 1), (2, 1), (1, 3), (2, 3)):
        places = torch.arange(5).expand(*leading, 5)
        assert torch.equal(rotary()(x, positions=places), rotary()(x))


@pytest.mark.parametrize("parameters", [None, YARN], ids=by_type)
@pytest.mark.parametrize(
    "positions",
    [
        torch.tensor([0.5, 1.5, 2.0]),  # interpolated
        torch.tensor([-3, -2, -1]),
        torch.tensor([TABLE_ROWS + 1, 5_000_000, 16_777_217]),
        torch.tensor([0, 2, 255], dtype=torch.uint8),
        torch.tensor([3, 1, 2], dtype=torch.int32),
    ],
    ids=["fractional", "negative", "beyond the table", "bytes", "int32"],
)
def test_positions_of_any_kind_are_rotated_as_the_formula_says(positions, parameters):
    x = randn(3, 16)
    expected = apply_rope(x, *rope_cos_sin(positions, *rope_frequencies(parameters, 16, WINDOW)))
    assert torch.equal(rotary(parameters)(x, positions=positions), expected)


@pytest.mark.parametrize("length", [10, 100])
def test_a_count_is_computed_where_it_is_asked_for(length):
    for cos_or_sin in rotary(DYNAMIC).cos_sin(length, device="meta"):  # a device that holds shapes and no numbers
        assert cos_or_sin.device.type == "meta"
        assert cos_or_sin.shape == (length, 8)


def test_a_count_of_the_tokens_is_their_positions_from_zero():
    x = randn(5, 16)
    assert torch.equal(rotary()(x, positions=5), rotary()(x, positions=torch.arange(5)))


def test_no_tokens_are_no_trouble():
    assert rotary()(randn(2, 0, 16)).shape == (2, 0, 16)
    assert rotary()(randn(0, 16), positions=torch.tensor([], dtype=torch.long)).shape == (0, 16)
    assert rotary(DYNAMIC)(randn(0, 4, 16)).shape == (0, 4, 16)


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ALL_PARAMETERS, ids=by_type)
def test_a_call_gives_what_a_fresh_module_gives_whatever_was_called_before(parameters):
    module, x = rotary(parameters), randn(300, 16)
    for length in (WINDOW + 1, 300, WINDOW, 10, 100, 32, 33, 300, 32, 299, WINDOW - 1):
        assert torch.equal(module(x[:length]), rotary(parameters)(x[:length])), length
        assert torch.equal(module.frequencies(length)[0], rotary(parameters).frequencies(length)[0])


def test_after_a_long_call_a_call_of_the_original_length_is_unscaled_where_transformers_keeps_the_stale_base():
    config = LlamaConfig(head_dim=16, hidden_size=32, num_attention_heads=2, max_position_embeddings=WINDOW)
    config.rope_parameters = {**DYNAMIC, "rope_theta": 1e4}
    stateful, module = LlamaRotaryEmbedding(config), rotary(DYNAMIC)

    def stale(length):
        fresh = LlamaRotaryEmbedding(config)
        return not all(
            torch.equal(a, b)
            for a, b in zip(*(m(torch.zeros(1), torch.arange(length)[None]) for m in (stateful, fresh)), strict=True)
        )

    is_stale = {}
    for length in (4 * WINDOW, WINDOW, 2 * WINDOW, 10):
        expected, _ = rope_frequencies(DYNAMIC, 16, WINDOW, length)
        cos, sin = module.cos_sin(length)
        assert torch.equal(cos, rope_cos_sin(length, expected)[0])
        assert torch.equal(sin, rope_cos_sin(length, expected)[1])
        is_stale[length] = stale(length)
    if transformers.__version__.startswith("5.23"):  # a later release may have mended it
        assert is_stale == {4 * WINDOW: False, WINDOW: True, 2 * WINDOW: True, 10: False}


def test_tables_are_kept_per_regime_and_not_beyond_the_window_of_a_dynamic_method():
    module = rotary(LONGROPE)
    for length in (20, 100, 20, 60, 100):
        module(randn(length, 16))
    assert len(module._tables) == 2

    module = rotary(DYNAMIC)
    for length in range(10, 200):
        module(randn(1, 16), positions=torch.tensor([length]))
    assert len(module._tables) == 1
    assert max(len(cos) for cos, _ in module._tables.values()) == WINDOW


def test_a_table_grows_by_doubling_and_no_further_than_its_limit():
    module = RotaryEmbedding(2)
    for length, rows in ((1, 1), (3, 4), (4, 4), (5, 8), (TABLE_ROWS, TABLE_ROWS)):
        module.cos_sin(length)
        cos, _ = module._tables[(None, torch.float32, torch.device("cpu"))]
        assert len(cos) == rows
        module.cos_sin(length)
        assert module._tables[(None, torch.float32, torch.device("cpu"))][0] is cos  # nothing is computed twice
    module.cos_sin(TABLE_ROWS + 1)
    assert max(len(cos) for cos, _ in module._tables.values()) == TABLE_ROWS


def test_half_precision_leaves_the_frequencies_in_float64():
    module = rotary(YARN).half()
    assert module.frequencies()[0].dtype == torch.float64
    x = randn(40, 16).bfloat16()
    rotated = module(x)
    assert rotated.dtype == torch.bfloat16
    assert torch.equal(rotated, rotary(YARN)(x.float()).bfloat16())  # rounded once, at the end


def test_float64_inputs_are_rotated_in_float64():
    x = randn(40, 16, dtype=torch.float64)
    expected = apply_rope(x, *rope_cos_sin(40, rope_inv_freq(16), dtype=torch.float64))
    assert torch.equal(rotary()(x), expected)


def test_a_table_made_in_inference_mode_serves_a_training_step():
    with torch.inference_mode():
        module = rotary(YARN)
        module(randn(10, 16))
    x = randn(10, 16).requires_grad_()
    module(x).sum().backward()
    assert x.grad is not None


def test_the_gradient_is_the_rotation_back():
    x, dy = randn(6, 16, dtype=torch.float64).requires_grad_(), randn(6, 16, seed=1, dtype=torch.float64)
    rotary()(x).backward(dy)
    cos, sin = rope_cos_sin(6, rope_inv_freq(16), dtype=torch.float64)
    torch.testing.assert_close(x.grad, apply_rope(dy, cos, -sin), atol=1e-15, rtol=0)


@pytest.mark.parametrize("parameters", ALL_PARAMETERS, ids=by_type)
def test_copies_pickles_and_empty_state_dicts_rotate_alike(parameters):
    module, x = rotary(parameters), randn(100, 16)
    expected = module(x)
    assert module.state_dict() == {}
    saved = io.BytesIO()
    torch.save(module, saved)
    assert saved.tell() < 10_000  # without its tables
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), expected)
        assert repr(twin) == repr(module)


def test_what_it_gives_may_be_changed_without_changing_what_it_gives_next():
    module, x = rotary(), randn(5, 16)
    expected = module(x)
    module.frequencies()[0].zero_()
    for positions in (5, torch.arange(5)):
        for table in module.cos_sin(positions):
            table.zero_()
    assert torch.equal(module(x), expected)


# -- whole models ------------------------------------------------------------------------------------------------------


class InTheirPlace(torch.nn.Module):
    """Our module with the interface of transformers': half-split tables, each half written twice."""

    def __init__(self, ours):
        super().__init__()
        self.ours = ours

    def forward(self, x, position_ids):
        cos, sin = self.ours.cos_sin(position_ids, x.dtype)
        return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)


SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": WINDOW,
    "initializer_range": 0.1,
}


def logits(model, body=None, module=None):
    """Logits of a prompt that is longer than the window, with their rotary embedding or with ours in its place."""
    if module is not None:
        body.rotary_emb = InTheirPlace(module)
    with torch.no_grad():
        return model.eval()(torch.arange(100)[None] % 50).logits


@pytest.mark.parametrize("parameters", [LINEAR, DYNAMIC, YARN, LONGROPE, PROPORTIONAL], ids=by_type)
def test_a_whole_llama_has_the_same_logits_with_our_module(parameters):
    rope_parameters = {"rope_theta": 100.0, **parameters}
    model = LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16, rope_parameters=dict(rope_parameters)))
    theirs, ours = logits(model), logits(model, model.model, rotary(rope_parameters))
    # Their angles are float32: off by 4e-6 at position 99.
    assert (theirs - ours).abs().max() < 2e-5
    assert (theirs - logits(model, model.model, rotary({"rope_theta": 100.0}))).abs().max() > 1e-2


def test_a_whole_gpt_neox_with_partial_rotation_has_the_same_logits_with_our_module():
    rope_parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0, "partial_rotary_factor": 0.25}
    model = GPTNeoXForCausalLM(GPTNeoXConfig(**SIZES, rope_parameters=dict(rope_parameters)))
    theirs, ours = logits(model), logits(model, model.gpt_neox, rotary(rope_parameters))
    assert (theirs - ours).abs().max() < 2e-5
    whole = rotary({**rope_parameters, "partial_rotary_factor": 1.0})
    assert (theirs - logits(model, model.gpt_neox, whole)).abs().max() > 1e-2


# -- construction ------------------------------------------------------------------------------------------------------


def test_rope_theta_wins_over_the_default_base_and_must_not_contradict_another():
    assert torch.equal(RotaryEmbedding(16, base=500.0).frequencies()[0], rope_inv_freq(16, 500.0))
    assert torch.equal(rotary({"rope_theta": 500.0}).frequencies()[0], rope_inv_freq(16, 500.0))
    assert torch.equal(rotary({"rope_theta": 500.0}, base=500.0).frequencies()[0], rope_inv_freq(16, 500.0))
    assert torch.equal(rotary({"rope_theta": None}, base=500.0).frequencies()[0], rope_inv_freq(16, 500.0))
    with pytest.raises(ValueError, match=r"base and rope_theta must agree: got base=300\.0, rope_theta=500\.0"):
        rotary({"rope_theta": 500.0}, base=300.0)


def test_it_warns_once_when_it_is_made_and_never_when_it_is_called():
    with pytest.warns(RopeWarning, match="betafast: not known for rope_type='dynamic'") as caught:
        module = RotaryEmbedding(16, rope_parameters={**DYNAMIC, "betafast": 3}, max_position_embeddings=WINDOW)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(randn(100, 16))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rotary(layout="split"), "layout must be one of half, interleaved: got layout='split'"),
        (lambda: rotary({"rope_type": "nkt"}), "rope_type must be one of default, linear"),
        (lambda: RotaryEmbedding(16, rope_parameters=DYNAMIC), "max_position_embeddings must be a whole number"),
        (lambda: RotaryEmbedding(15), "whole pairs within the head"),
        (lambda: rotary()(randn(4, 8)), r"x must end in head_dim=16: got x \(4, 8\)"),
        (lambda: rotary()(randn(4, 32)), r"x must end in head_dim=16: got x \(4, 32\)"),
        (
            lambda: rotary()(randn(1, 16), positions=29),
            r"the 1 tokens of x: .* for token 29 pass torch.tensor\(\[29\]\)",
        ),
        (lambda: rotary()(randn(1, 16), positions=[29]), r"positions must be a tensor or a count .*: got \[29\]"),
        (lambda: rotary().cos_sin(-1), "positions must be a tensor or a count of at least 0: got -1"),
        (lambda: rotary()(randn(1, 16), positions=torch.tensor([True])), "positions must hold real numbers"),
        (lambda: rotary()(randn(1, 16), positions=torch.tensor([1j])), "positions must hold real numbers"),
    ],
)
def test_bad_input_is_told_what_came_and_what_is_needed(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_its_repr_says_what_it_does():
    assert repr(rotary(LINEAR)) == (
        "RotaryEmbedding(16, rope_parameters={'rope_type': 'linear', 'factor': 2.0, 'rope_theta': 10000.0}, "
        "max_position_embeddings=64, layout='half')"
    )


def test_positions_has_the_class_without_loading_its_module_before_it_is_asked_for():
    script = (
        "import sys; import course_utils.rope.rotation as p; assert 'course_utils.rope.embedding' not in sys.modules; "
        "assert p.RotaryEmbedding.__name__ == 'RotaryEmbedding'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert rotary_embedding.RotaryEmbedding is RotaryEmbedding


def test_a_table_made_under_a_tracer_is_not_kept():
    rotary, x = RotaryEmbedding(8), torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    with FakeTensorMode(allow_non_fake_inputs=True):
        rotary(x)
    assert torch.equal(rotary(x), RotaryEmbedding(8)(x))
