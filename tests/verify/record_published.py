"""Record what published layers make of small inputs, for test_diagnosis.py: run as a script with
the folder that has the packages (see chapters/c19_other_peoples_code/packages.py)."""

import copy
import json
import sys
import tomllib
from pathlib import Path

import torch
from torch import nn

from chapters.c19_other_peoples_code import packages
from course_utils.session import generator
from course_utils.verify import diagnose


def record(folder):
    packages._prepare(Path(folder))
    rows = []
    layers = tomllib.loads((packages.HERE / "layers.toml").read_text("utf-8"))["layer"]
    for layer in layers:
        try:
            made, example = packages.make(layer, 16 if "D" in layer["shape"] else 8)
            found = diagnose(made, example)
            if not found.call or found.kind not in ("norm", "rotation"):
                continue
            rows.append(_row(layer, made, example, found))
        except Exception as error:
            print(
                layer["package"], layer["make"], type(error).__name__, str(error)[:80], flush=True
            )
    target = Path(__file__).parent / "published_layers.jsonl"
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(len(rows), {row["package"] for row in rows})


def _row(layer, made, example, found):
    shape = [min(n, 6) if n == 64 else n for n in example.shape]
    if found.kind == "norm":
        shape[0] = min(shape[0], 3)
    x = (2 * torch.randn(shape, generator=generator(3))).mul(100).round() / 100
    parameters = {}
    if isinstance(made, nn.Module):
        made = copy.deepcopy(made).float()
        for p in made.parameters():
            drawn = 0.5 + torch.rand(p.shape, generator=generator(4))
            p.data.copy_((100 * drawn).round() / 100)
        parameters = {n: _hundredths(p) for n, p in made.named_parameters()}
        if any(True for _ in made.buffers()):
            made.train()
    with torch.no_grad():
        y = made(x.clone())
    y = y[0] if isinstance(y, tuple) else y
    return {
        "package": layer["package"],
        "version": packages._version(layer["package"]),
        "layer": layer["make"],
        "call": found.call,
        "parameters": parameters,
        "x": _hundredths(x),
        "y": [round(v, 6) for v in y.flatten().tolist()],
    }


def _hundredths(x):
    """Numbers of two decimals, written so."""
    return x.detach().double().mul(100).round().div(100).tolist()


if __name__ == "__main__":
    record(sys.argv[1])
