import ast
import json
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama import modeling_llama
from transformers.models.phi import modeling_phi

from chapters.c22_words_and_conventions import conventions
from chapters.c22_words_and_conventions.conventions import CONVENTIONS, THEMES, Convention, Proofs
from chapters.c22_words_and_conventions.conventions import rope as proofs_of_rope
from chapters.contents import NOTEBOOKS, chapter_of
from course_utils import rope as positions

ROWS = {row.question: row for row in CONVENTIONS}


def test_no_question_is_asked_twice():
    assert len(ROWS) == len(CONVENTIONS)


@pytest.mark.parametrize("row", CONVENTIONS, ids=lambda row: row.question)
def test_a_proof_asserts_and_its_code_is_what_is_shown(row):
    tree = ast.parse("def proof():\n" + textwrap.indent(row.code, "    "))
    body = tree.body[0].body
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    assert isinstance(body[-1], ast.Return)


def keras_momentum(x, mean, variance, *args, momentum=0.1, real=F.batch_norm, **kwargs):
    return real(x, mean, variance, *args, momentum=1 - momentum, **kwargs)


def eps_outside(x, shape, weight=None, bias=None, eps=1e-5):
    # over the last axis alone
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps)


COS_SIN = positions.rope_cos_sin

# the row, what is sabotaged, with what
SABOTAGE = [
    ("Whose share is momentum?", F, "batch_norm", keras_momentum),
    ("Inside the root or outside?", F, "layer_norm", eps_outside),
    ("What does ONNX take for granted?", F, "layer_norm", eps_outside),
    (
        "What are the scores divided by?",
        Gemma3RMSNorm,
        "forward",
        lambda self, x: x * (1 + self.weight),
    ),
    ("Or as a floor?", F, "normalize", lambda x: x / (x.norm() + 1e-12)),
    ("What shape is the weight?", nn, "RMSNorm", lambda shape: nn.LayerNorm(shape[-1:])),
    (
        "weight, or 1 + weight?",
        GemmaRMSNorm,
        "forward",
        lambda self, x: F.rms_norm(x, (4,), self.weight, 1e-6),
    ),
    (
        "What turns when only a part does?",
        modeling_phi,
        "PhiRotaryEmbedding",
        modeling_llama.LlamaRotaryEmbedding,
    ),
    (
        "ALiBi by distance, or by key?",
        positions,
        "alibi_bias",
        lambda h, q, k: torch.zeros(h, q, k),
    ),
    ("Down to which frequency?", proofs_of_rope, "_m2m100", positions.sinusoidal),
    (
        "Meta's file or the Hub's?",
        positions,
        "interleaved_to_half",
        lambda weight, num_heads: weight,
    ),
    (
        "Is dynamic NTK dynamic?",
        proofs_of_rope,
        "frequencies",
        lambda config, length: (proofs_of_rope.plain(16), 1),
    ),
    (
        "Which way does a pair turn?",
        positions,
        "rope_cos_sin",
        lambda n, f: COS_SIN(-torch.arange(n), f),
    ),
]


@pytest.mark.parametrize(
    ("question", "place", "name", "wrong"), SABOTAGE, ids=[row[0] for row in SABOTAGE]
)
def test_a_proof_fails_where_the_convention_is_another(question, place, name, wrong, monkeypatch):
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError, match="does not hold with what is installed here: «"):
        Proofs([ROWS[question]])


def test_proofs_show_what_they_found_as_text_and_their_code_as_html():
    row = Convention("a", "Is 1 < 2?", "", "`yes`", "", "", ROWS["Is a LayerNorm one?"].proof)
    proofs = Proofs([row])
    assert repr(proofs) == "checked  Is 1 < 2?  T5LayerNorm equals nn.RMSNorm"
    html = proofs._repr_html_()
    assert "Is 1 &lt; 2?" in html
    assert "x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])" in html
    assert "def _t5" not in html


def test_an_unknown_theme_is_refused():
    with pytest.raises(
        ValueError, match=r"theme must be one of Running statistics, .*: got 'norms'"
    ):
        conventions.table("norms")


def test_the_page_shows_and_proves_every_theme():
    cells = json.loads((NOTEBOOKS / chapter_of("22").file).read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for theme in THEMES:
        place = code.index(f'conventions.table("{theme}")')
        assert code[place + 1] == f'conventions.proofs("{theme}")'
