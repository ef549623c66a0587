"""Norms with conventions drawn at random, a zoo on which probes are tried, and what is true of
each."""

import random

import torch
from torch import nn

__all__ = ["StrangeNorm"]

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
    """A norm with the conventions of ``seed``; ``truth`` is what to answer.

    ``chosen`` are conventions by name, in place of those drawn: ``place="inside"``.
    """

    def __init__(self, seed, **chosen):
        super().__init__()
        draw = random.Random(seed)
        self.where = draw.choice(list(SETS))
        self.statistic = draw.choice(list(STATISTICS))
        self.centred = "variance" in self.statistic or draw.random() < 0.2
        self.eps = draw.choice([1e-3, 1e-5, 1e-6, 3e-7, 1e-8, 1e-12])
        self.place = draw.choice(["inside", "inside", "outside", "floor"])
        self.in_float32 = draw.random() < 0.5
        self.rounded_first = self.in_float32 and draw.random() < 0.3
        self.one_pass = self.statistic == "variance / n" and draw.random() < 0.3
        self.offset = draw.choice([None, 0, 0, 1])
        self.names = draw.choice([("weight", "bias"), ("g", "b"), ("scale", "shift")])
        vars(self).update(chosen)
        self.shape, self.split, self.dims, axis = SETS[self.where]
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
