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

STATISTICS = {
    "variance / n": lambda z, dims: z.var(dims, correction=0, keepdim=True),
    "variance / (n − 1)": lambda z, dims: z.var(dims, correction=1, keepdim=True),
    "mean square": lambda z, dims: z.square().mean(dims, keepdim=True),
    "sum of squares": lambda z, dims: z.square().sum(dims, keepdim=True),
    "mean |x|": lambda z, dims: z.abs().mean(dims, keepdim=True).square(),
}
CENTRED = {
    "mean square": "variance / n",
    "sum of squares": "sum of (x − mean)²",
    "mean |x|": "mean |x − mean|",
}
SETS = {  # shape of x, how its axes are split, which of them share, the axis of a weight; in words
    "the last axis": ((3, 5, 24), None, (-1,), 2),
    "axis 2 × the last axis": ((3, 8, 5, 4), None, (2, 3), 1),
    "axis 1": ((3, 12, 5, 4), None, (1,), 1),
    "the batch × axis 2 × the last axis": ((4, 12, 5, 4), None, (0, 2, 3), 1),
    "axis 1 (6 of 24) × the last axis": ((3, 24, 5), (1, (4, 6)), (2, 3), 1),
    "axis 1 × the last axis (6 of 24, every 4th)": ((3, 5, 24), (2, (6, 4)), (1, 2), 2),
}


class StrangeNorm(nn.Module):
    """A norm with the conventions of ``seed``; ``truth`` is what to answer."""

    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        self.where = draw.choice(list(SETS))
        self.shape, self.split, self.dims, axis = SETS[self.where]
        self.statistic = draw.choice(list(STATISTICS))
        self.centred = "variance" in self.statistic or draw.random() < 0.2
        self.eps = draw.choice([1e-3, 1e-5, 1e-6, 3e-7, 1e-8, 1e-12])
        self.place = draw.choice(["inside", "inside", "outside", "floor"])
        self.in_float32 = draw.random() < 0.5
        self.rounded_first = self.in_float32 and draw.random() < 0.3
        self.one_pass = self.statistic == "variance / n" and draw.random() < 0.3
        self.offset = draw.choice([None, 0, 0, 1])
        self.names = draw.choice([("weight", "bias"), ("g", "b"), ("scale", "shift")])
        kept = [n if d == axis else 1 for d, n in enumerate(self.shape)]
        self.kept = kept if axis < len(self.shape) - 1 else kept[-1:]
        if self.offset is not None:
            start = torch.full(self.kept, 1.0 - self.offset)
            self.register_parameter(self.names[0], nn.Parameter(start))
            self.register_parameter(self.names[1], nn.Parameter(torch.zeros(self.kept)))
        self.eval()

    def forward(self, x):
        z = x.float() if self.in_float32 else x
        z = z if self.split is None else z.unflatten(*self.split)
        mean = z.mean(self.dims, keepdim=True)
        square = STATISTICS[self.statistic](z - mean if self.centred else z, self.dims)
        if self.one_pass:
            square = z.square().mean(self.dims, keepdim=True) - mean.square()
        root = {
            "inside": lambda: (square + self.eps).sqrt(),
            "outside": lambda: square.sqrt() + self.eps,
            "floor": lambda: square.sqrt().clamp(min=self.eps),
        }[self.place]()
        y = ((z - mean if self.centred else z) / root).reshape(x.shape)
        y = y.to(x.dtype) if self.rounded_first else y
        if self.offset is not None:
            weight, bias = (getattr(self, name) for name in self.names)
            y = y * (self.offset + weight.to(y.dtype)) + bias.to(y.dtype)
        return y.to(x.dtype)

    @property
    def truth(self):
        """Question -> what the answer must contain."""
        gain = {None: "none", 0: f"{self.names[0]}: γ", 1: f"{self.names[0]}: 1 + γ"}[self.offset]
        truth = {
            "set": self.where,
            "mean": "subtracted" if self.centred else "not subtracted",
            "divides by": CENTRED.get(self.statistic, self.statistic)
            if self.centred
            else self.statistic,
            "parameters": gain if self.offset is None else f"{gain}; {self.names[1]}: β",
            "float64": "float32 inside" if self.in_float32 else "float64",
            "ε": {"inside": "inside the root", "outside": "outside", "floor": "floor"}[self.place],
        }
        if self.centred:
            truth["at an offset of 10,000"] = "E[x²] − E[x]²" if self.one_pass else "yes"
        if self.in_float32 and self.offset is not None and self.offset == 0:
            twice = "before the weight and after it" if self.rounded_first else "rounded once"
            truth["bfloat16"] = twice
        return truth

    def eps_of(self, answer):
        """ε by the answer, in the convention of the layer."""
        value, n = float(answer.split()[0]), torch.Size(self.set_sizes).numel()
        if "below the root" in answer:
            return value**0.5
        if "L2 norm" in answer:
            return value / n**0.5
        return value / n if "added to the sum" in answer else value

    @property
    def set_sizes(self):
        z = torch.empty(self.shape)
        z = z if self.split is None else z.unflatten(*self.split)
        return [z.shape[d] for d in self.dims]


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
