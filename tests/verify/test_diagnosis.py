"""diagnose: right on layers that others wrote and on layers with random conventions, and clear
where it cannot say."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from strange_layers import (
    StrangeRotation,
    norms_of_transformers,
    tally,
    tally_of_transformers,
)
from torch import nn

from chapters.c19_other_peoples_code.strange_layers import StrangeNorm
from course_utils import norms, rope
from course_utils.verify import diagnose
from course_utils.verify.command import main


@pytest.mark.parametrize(("kind", "count"), [(StrangeNorm, 60), (StrangeRotation, 24)])
def test_of_layers_with_random_conventions_nearly_all_is_found_and_nothing_wrong_said(kind, count):
    """A thousand of each in tests/soak."""
    counts, others = tally(map(kind, range(count)))
    assert not counts["wrong"], others
    assert counts["right"] >= 0.97 * sum(counts.values()), others


class WeightBefore(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(16))

    def forward(self, x):
        return F.rms_norm((1 + self.w) * x, (16,), eps=3e-4)


CALLS = [
    (
        nn.LayerNorm(16),
        "norms.layer_norm(x, (16,), weight=layer.weight, bias=layer.bias, eps=1e-05)",
    ),
    (nn.RMSNorm(16, eps=1e-6), "norms.rms_norm(x, (16,), weight=layer.weight, eps=1e-06)"),
    (
        nn.GroupNorm(4, 16),
        "norms.group_norm(x, 4, weight=layer.weight, bias=layer.bias, eps=1e-05)",
    ),
    (F.normalize, "norms.l2_norm(x, dim=1, eps=1e-12)"),
    (WeightBefore(), "norms.rms_norm((x * (1 + layer.w)), (16,), eps=0.0003)"),
    (lambda x: x / x.square().mean(-1, keepdim=True).sqrt(), "norms.rms_norm(x, (64,), eps=0.0)"),
    (rope.RotaryEmbedding(32, layout="interleaved"), "layout='interleaved')"),
]


@pytest.mark.parametrize(("layer", "call"), CALLS, ids=lambda value: type(value).__name__)
def test_the_course_s_own_call_is_named_where_it_computes_the_same(layer, call):
    found = (
        diagnose(layer) if layer is not CALLS[-1][0] else diagnose(layer, torch.zeros(2, 3, 64, 32))
    )
    assert found.call.endswith(call), found
    assert not found.unlike


def axial(x):
    return rope.apply_rope(x, *rope.axial_rope_2d(8, 8, 32))


def xpos(x):
    return rope.apply_rope(x, *rope.xpos_cos_sin(x.shape[-2], 32))


class GroupGain(nn.GroupNorm):
    def __init__(self):
        super().__init__(4, 16, affine=False)
        self.gain = nn.Parameter(torch.full((4, 1), 2.0))

    def forward(self, x):
        return (super().forward(x).unflatten(1, (4, 4)).flatten(2) * self.gain).reshape(x.shape)


BATCH_NORM = nn.BatchNorm2d(8, momentum=0.2)
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}


@pytest.mark.parametrize(
    ("layer", "example", "question", "answer"),
    [
        (norms.DynamicTanh(8), (), "function", "tanh(0.5·x)"),
        (
            BATCH_NORM,
            (),
            "buffer running_var",
            "the variance / (n − 1), the new with a share of 0.2",
        ),
        (BATCH_NORM, (), "different in eval", "it takes the running statistics"),
        (nn.BatchNorm1d(8, momentum=None), (), "buffer running_mean", "the mean, all batches"),
        (GroupGain(), ((3, 16, 5),), "parameters", "gain: γ, holds 2"),
        (axial, ((2, 64, 32),), "angles", "8 columns wide; 8 pairs by row, rows first"),
        (xpos, ((2, 64, 32),), "length changes", "with the position: xPos for queries, scale base"),
        (
            rope.RotaryEmbedding(32, rope_parameters=DYNAMIC, max_position_embeddings=512),
            ((2, 64, 32),),
            "a longer text",
            "has other frequencies at 4,096 positions",
        ),
        (rope.alibi_slopes, (8,), "slopes", "ALiBi's"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_rarer_conventions_have_their_answer(layer, example, question, answer):
    example = [torch.zeros(e) if isinstance(e, tuple) else e for e in example]
    assert diagnose(layer, *example)[question].startswith(answer)


def test_a_norm_that_the_course_has_not_is_shown_to_be_none_by_a_small_input():
    def bessel(x):
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)

    found = diagnose(bessel, torch.zeros(2, 3, 8))
    assert found.call is None
    assert found.unlike.startswith(
        "unlike anything known in course_utils.norms: of a single 1 among zeros it makes "
    )
    assert found.summary.endswith("`torch.nn.LayerNorm` but for the divisor and ε")


def test_an_upside_down_ramp_is_found():
    trained, scaled = rope.rope_inv_freq(128), rope.rope_inv_freq(128) / 4
    kept = rope.yarn_ramp(128, 1e4, 4096)
    turn = lambda x, f: rope.apply_rope(x, *rope.rope_cos_sin(x.shape[-2], f))  # noqa: E731
    upside_down = trained * (1 - kept) + scaled * kept
    found = diagnose(lambda x: turn(x, upside_down), torch.zeros(1, 2, 64, 128))
    assert "the FAST pairs divided by 4" in found["frequencies"]
    assert "pair 0 turns by 0.25" in found.unlike


def test_a_cache_in_half_precision_is_found():
    table = {}

    def cached(x):
        if len(table.get("t", ())) < x.shape[-2]:
            table["t"] = torch.arange(x.shape[-2]).to(x.dtype)
        return rope.apply_rope(
            x, *rope.rope_cos_sin(table["t"][: x.shape[-2]], rope.rope_inv_freq(32))
        )

    found = diagnose(cached, torch.zeros(1, 2, 64, 32))
    assert "wrong" in found["bfloat16 queries"]
    assert "wrong" in found["float32 after bfloat16, one object"]


RELATIVE = torch.arange(160) - torch.arange(160)[:, None]
LEARNED = torch.arange(64.0).reshape(32, 2)  # of two heads
T5 = "rope.t5_relative_bucket(relative_position, True, 32, 128)"


@pytest.mark.parametrize(
    ("example", "answer"),
    [
        ((rope.alibi_bias, 8, 12, 12), "rope.alibi_bias(8, 12, 12)"),
        ((rope.sinusoidal, 64, 32), "rope.sinusoidal(torch.arange(64) + 0, 32, 10000) * 1"),
        ((rope.t5_relative_bucket, torch.arange(-600, 601)), T5),
        ((LEARNED[rope.t5_relative_bucket(RELATIVE)].movedim(-1, 0),), T5),
    ],
    ids=["ALiBi", "sinusoids", "T5", "T5's values"],
)
def test_biases_and_codes_are_known(example, answer):
    assert diagnose(*example).call == answer


class OverwritesItsInput(nn.Module):
    def forward(self, x):
        return x.div_(x.square().mean(-1, keepdim=True).add(1e-6).sqrt())


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            (nn.Linear(4, 4),),
            "Linear is neither a norm nor a position: it is linear, and adds a bias",
        ),
        ((nn.Identity(),), "Identity is neither .*: it is x, or a constant"),
        ((nn.Embedding(4, 4),), "Embedding needs other arguments than a lone x: give an example"),
        ((rope.apply_rope, torch.zeros(2, 2)), "cannot be called with this example: TypeError"),
        ((lambda x: x.cuda(),), "runs only on a GPU"),
    ],
    ids=["linear", "identity", "embedding", "arguments", "GPU"],
)
def test_what_is_neither_or_cannot_be_called_gets_one_sentence(example, message):
    if torch.cuda.is_available() and "GPU" in message:
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message) as raised:
        diagnose(*example)
    assert "\n" not in str(raised.value)


def test_a_layer_that_changes_its_input_is_said_to_and_none_is_changed():
    x = torch.ones(2, 3, 8)
    assert diagnose(OverwritesItsInput(), x)["its input"].startswith("is overwritten")
    assert (x == 1).all()
    layer = nn.LayerNorm(8)
    before, random_state = layer.weight.clone(), torch.random.get_rng_state()
    assert repr(diagnose(layer)) == repr(diagnose(layer))
    assert torch.equal(layer.weight, before)
    assert torch.equal(torch.random.get_rng_state(), random_state)


# -- layers that nobody here wrote -----------------------------------------------------------------


RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "published_layers.jsonl").read_text("utf-8").splitlines()
]


class Recorded(nn.Module):
    """What a published layer computed by its record, with the parameters that it had."""

    def __init__(self, row):
        super().__init__()
        self.call = row["call"]
        for name, value in row["parameters"].items():
            without_dots = name.replace(".", ":")
            self.call = self.call.replace(name, without_dots)
            self.register_parameter(without_dots, nn.Parameter(torch.tensor(value)))

    @torch.no_grad()
    def forward(self, x, call=None):
        names = {"norms": norms, "rope": rope, "torch": torch, "layer": self, "x": x}
        return eval(call or self.call, names)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['package']}: {row['layer']}")
def test_a_published_layer_is_known_again_by_a_call_that_gives_what_it_gave(row):
    layer, x, y = Recorded(row), torch.tensor(row["x"]), torch.tensor(row["y"])
    for call in (layer.call, diagnose(layer, torch.zeros(x.shape)).call):
        mine = layer(x, call).flatten().float()
        torch.testing.assert_close(mine, y, rtol=1e-5, atol=1e-5)


def test_enough_was_recorded():
    assert len(RECORDED) >= 50
    assert len({row["package"] for row in RECORDED}) >= 12


COMMON = ("cohere", "gemma", "gpt_neox", "llama", "olmo2", "qwen3", "t5")


def test_norms_of_transformers_on_which_nothing_was_tuned():
    chosen = [(m, names) for m, names in norms_of_transformers() if m.split(".")[2] in COMMON]
    counts, others = tally_of_transformers(chosen)
    assert counts["right"] >= 12
    assert not counts["wrong"], others


def test_the_command_prints_the_table_and_says_what_is_wrong(capsys):
    assert main(["torch.nn:RMSNorm", "--args", "16", "eps=1e-6"]) == 0
    assert "weight γ: `torch.nn.RMSNorm`" in capsys.readouterr().out
    assert main(["torch.nn.RMSNorm", "--args", "16", "eps=1e-6"]) == 0
    assert main(["torch.nn:RMSNorm.forward", "--args", "16", "eps=1e-6", "--shape", "2,3,16"]) == 0
    assert "ε 1e-06 inside the root" in capsys.readouterr().out
    assert main(["torch.nn:Linear", "--args", "4", "4"]) == 2
    assert "neither a norm nor a position" in capsys.readouterr().err
