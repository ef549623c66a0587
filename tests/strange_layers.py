"""Norms and rotations with conventions drawn at random, what is true of them, and how often
diagnose says so."""

import inspect
import random
import re
from importlib import import_module
from pathlib import Path

import torch
import transformers
from torch import nn

from course_utils import rope
from course_utils.verify import diagnose


class StrangeRotation:
    """A rotation with the conventions of ``seed``; ``truth`` is what to answer."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.dim, self.rotary = draw.choice([(32, 32), (64, 64), (64, 32), (48, 24)])
        self.base = draw.choice([1e4, 1e4, 5e5, 1e6])
        self.layout = draw.choice(["half", "interleaved"])
        self.sign, self.first = draw.choice([1, 1, 1, -1]), draw.choice([0, 0, 0, 1])
        self.kind = draw.choice(["not scaled", "not scaled", "(linear)", "YaRN", "Llama 3"])
        self.factor = draw.choice([2.0, 4.0, 8.0])
        self.axis = draw.choice([1, 2])
        self.in_half = draw.random() < 0.3
        self.shape = [2, 64, 3, self.dim] if self.axis == 1 else [2, 3, 64, self.dim]

    def __call__(self, x):
        names = {"not scaled": "default", "(linear)": "linear", "YaRN": "yarn"}
        kind = names.get(self.kind, "llama3")
        parameters = {"rope_type": kind, "rope_theta": self.base, "factor": self.factor}
        if kind in ("yarn", "llama3"):
            parameters["original_max_position_embeddings"] = 4096
        if kind == "llama3":
            parameters |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        if kind == "default":
            parameters.pop("factor")
        frequencies, size = rope.rope_frequencies(parameters, self.rotary)
        positions = torch.arange(x.shape[self.axis], dtype=torch.float64) + self.first
        positions = positions.to(x.dtype).double() if self.in_half else positions
        tables = rope.rope_cos_sin(self.sign * positions, frequencies, size, torch.float64)
        cos, sin = (table.to(x.dtype) for table in tables)
        turned = rope.apply_rope(x.movedim(self.axis, -2), cos, sin, self.layout)
        return turned.movedim(-2, self.axis)

    @property
    def truth(self):
        """Question -> what the answer must contain."""
        return {
            "positions along": f"axis {self.axis}",
            "layout": self.layout,
            "turns": f"{self.rotary} of {self.dim}",
            "sign": "+" if self.sign == 1 else "−",
            "first position": f"{self.first}",
            "frequencies": self.kind,
            "length changes": "by " if self.kind == "YaRN" else "no",
            "bfloat16 queries": "wrong" if self.in_half else "the same angles",
        }


def verdicts(layer, x):
    """Right, wrong or unsure for every property of a layer with a truth."""
    answers = diagnose(layer, x).answers
    for question, expected in layer.truth.items():
        answer = answers.get(question, "unsure: no answer")
        right = expected == answer if question in ("set", "mean") else expected in answer
        right = right and "unsure" not in answer
        if question == "ε" and right:
            right = abs(layer.eps_of(answer) / layer.eps - 1) < 1e-2
        yield question, "right" if right else "unsure" if "unsure" in answer else "wrong", answer


def tally(layers):
    """How many properties are right, unsure and wrong, and which are not right."""
    counts, wrong = {"right": 0, "unsure": 0, "wrong": 0}, []
    for layer in layers:
        for question, verdict, answer in verdicts(layer, torch.zeros(layer.shape)):
            counts[verdict] += 1
            if verdict != "right":
                wrong.append((vars(layer), question, answer))
    return counts, wrong


def norms_of_transformers():
    """Every class of a norm in the models of the installed transformers, by the file's folder."""
    folder = Path(transformers.__file__).parent / "models"
    for file in sorted(folder.glob("*/modeling_*.py")):
        found = re.findall(r"^class (\w*(?:RMSNorm|LayerNorm))\(", file.read_text("utf-8"), re.M)
        if found:
            yield f"transformers.models.{file.parent.name}.{file.stem}", found


def tally_of_transformers(modules):
    """Right, wrong and unsure, of the classes that are made with a size and ε; the reasons."""
    counts, others = {"right": 0, "unsure": 0, "wrong": 0}, []
    for module, names in modules:
        for name in names:
            cls = getattr(import_module(module), name)
            try:
                layer = cls(16, eps=3e-4)
                found = diagnose(layer)
            except (TypeError, ValueError):
                continue  # needs other arguments
            source = inspect.getsource(cls)
            is_layer_norm = (
                isinstance(layer, nn.LayerNorm) or "layer_norm(" in source or ("- mean" in source)
            )
            expected = {
                "mean": "subtracted" if is_layer_norm else "not subtracted",
                "ε": "0.0003 inside the root",
                "parameters": "1 + γ" if re.search(r"1(\.0)? \+ self\.weight", source) else "γ",
            }
            for question, answer in expected.items():
                got = found.answers.get(question, "unsure")
                right = answer == got if question == "mean" else answer in got
                verdict = "right" if right else "unsure" if "unsure" in got else "wrong"
                counts[verdict] += 1
                if verdict != "right":
                    others.append((module, name, question, got))
    return counts, others
