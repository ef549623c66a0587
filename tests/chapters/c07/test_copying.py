"""The copying experiment of chapter 07: the network is the one that is described, and what is
observed is true."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from chapters.c07_norms_of_models import copying
from chapters.c07_norms_of_models.copying import (
    LENGTH,
    LETTERS,
    NORMS,
    CausalAttention,
    Copier,
    logits_and_entropy,
    words,
)
from chapters.train import STUDIES

SETTINGS = {"qk_norm": False, "lr": 0.01, "norm": "layer norm", "depth": 1, "steps": 3, "seed": 0}


def batch(seed=0):
    return words(torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("qk_norm", [False, True], ids=["plain", "norms on q and k"])
def test_causal_attention_is_torchs_with_is_causal(qk_norm):
    mine = CausalAttention(8, 2, qk_norm).double()
    rng = torch.Generator().manual_seed(0)
    for parameter in mine.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    x = torch.randn(3, 5, 8, generator=rng, dtype=torch.float64)
    q, k, v = (part.view(3, 5, 2, 4).transpose(1, 2) for part in mine.qkv(x).split(8, dim=-1))
    if qk_norm:
        q, k = F.rms_norm(q, (4,), mine.norm_q.weight), F.rms_norm(k, (4,), mine.norm_k.weight)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(mine(x), mine.out(mixed.transpose(1, 2).reshape(3, 5, 8)), atol=1e-13, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_letter_is_foretold_from_earlier_letters_only(norm):
    letters, _ = batch()
    model = Copier(2, norm)
    changed = letters.clone()
    changed[:, 5] = (changed[:, 5] + 1) % LETTERS
    with torch.no_grad():
        moved = (model(changed) - model(letters)).abs().amax(dim=(0, 2))
    assert (moved[:5] == 0).all()
    assert (moved[5:] > 0).all()


def test_the_word_stands_before_the_mark_and_is_asked_for_after_it():
    letters, word = batch()
    assert torch.equal(letters[:, :LENGTH], word)
    assert (letters[:, LENGTH] == LETTERS).all()
    assert torch.equal(letters[:, LENGTH + 1 :], word[:, :-1])


def test_equal_logits_have_the_entropy_of_equal_weights():
    model = Copier(1)
    with torch.no_grad():
        model.blocks[0].attention.qkv.weight.zero_()
        model.blocks[0].attention.qkv.bias.zero_()
    largest, entropy = logits_and_entropy(model, batch()[0])
    assert largest == 0
    tokens = 2 * LENGTH
    assert entropy == pytest.approx(
        sum(math.log2(n) for n in range(1, tokens + 1)) / tokens, abs=1e-6
    )


@pytest.mark.parametrize("name", ["qk-norm", "norm-family"])
@pytest.mark.parametrize("size", ["reduced", "full"])
def test_a_study_compares_its_arms_on_the_same_seeds_rates_and_steps(name, size):
    arm = {"qk-norm": "qk_norm", "norm-family": "norm"}[name]
    settings = {}
    for run in getattr(STUDIES[name], size):
        settings.setdefault(run[arm], []).append({k: v for k, v in run.items() if k != arm})
    first, *others = settings.values()
    # a live run is said to be one seed
    assert size == "reduced" or len({run["seed"] for run in first}) >= 3
    assert others
    assert all(other == first for other in others)


def test_a_run_that_ends_in_nan_is_marked_as_diverged():
    settings = {**SETTINGS, "norm": "none", "depth": 2, "lr": 1e30, "steps": 5}
    assert copying.run(settings, lambda fraction: None) == copying.DIVERGED
