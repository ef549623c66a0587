"""Diagnose the published layers of ``layers.toml`` where their packages are installed, run the
defects of ``defects.toml`` again, record both, and print what has changed: ``make packages``.

The packages are no dependencies of the course. They lie in a folder of their own, given as the
first argument, and are installed without what they depend on; some of that is a stub here.
"""

import datetime
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tomllib
import types
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from chapters.c19_other_peoples_code import published
from course_utils.verify import diagnose

HERE = Path(__file__).parent
PARTS = ("timm", "torchtune")  # whose __init__ needs more than their files do
STUBS = ("torchvision", "torchao", "torchmetrics")
WRAPPERS = ("flax_layer", "mlx_layer")  # functions of float32 arrays
# what a function of float32 arrays cannot be asked: its weights, and any other dtype
HIDDEN = ("parameters", "float64", "bfloat16", "float16", "bfloat16 queries")
DISTRIBUTIONS = {"RoSE": "rotary-spatial-embeddings"}


def main(argv: list[str] | None = None) -> int:
    """Run every layer, or those of the packages named after the folder, and record the answers."""
    folder, *only = sys.argv[1:] if argv is None else argv
    _prepare(Path(folder))
    layers = tomllib.loads((HERE / "layers.toml").read_text("utf-8"))["layer"]
    before = {_key(row): row for row in published.layers()}
    rows = []
    for layer in layers:
        row = before.get(_key(layer))
        if not only or layer["package"] in only:
            row = _diagnosed(layer)
            for change in _changes(before.get(_key(layer)), row):
                print(f"{layer['package']} {layer['make']}: {change}", flush=True)
        if row is not None:
            rows.append(row)
    _write("layers", rows)
    print(f"{len(rows)} layers of {len({row['package'] for row in rows})} packages")
    runs = [
        _run_again(row) if not only or row["package"] in only else row for row in published.runs()
    ]
    _write("defects", [row for row in runs if "printed" in row])
    return 0


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    kept = [{key: row[key] for key in row if key not in published.TOLD} for row in rows]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
    (HERE / f"{name}.jsonl").write_text(text, encoding="utf-8")


def _run_again(run: dict[str, Any]) -> dict[str, Any]:
    """A defect's run in the version that is here; the row as it was where it cannot run."""
    try:
        printed = published.printed_by(run["code"])
    except Exception as error:
        print(f"{run['key']}: kept, for it does not run here: {str(error)[:100]}", flush=True)
        return run
    if printed != run.get("printed"):
        print(f"{run['key']}: {printed!r}, was {run.get('printed')!r}", flush=True)
    today = datetime.date.today().isoformat()
    version = _version(run["package"])
    new = {key: run[key] for key in ("key", "package")}
    return {**new, "version": version, "date": today, "printed": printed}


def make(layer: dict[str, str], size: int = 64) -> tuple[Any, Tensor]:
    """A published layer and an input of the shape that it takes."""
    names: dict[str, Any] = {"C": size, "D": size, "nn": nn, "torch": torch}
    names |= {"keras_layer": keras_layer, "flax_layer": flax_layer, "mlx_layer": mlx_layer}
    scope = vars(importlib.import_module(layer["module"])) | names
    return eval(layer["make"], scope), torch.zeros(eval(f"({layer['shape']})", names))


def _diagnosed(layer: dict[str, str]) -> dict[str, Any] | None:
    row: dict[str, Any] = {key: layer[key] for key in ("package", "make", "module")}
    row["version"] = _version(layer["package"])
    try:
        found = diagnose(*make(layer))
    except Exception as error:
        return {**row, "summary": f"{type(error).__name__}: {str(error)[:200]}", "answers": {}}
    row |= {"summary": found.summary, "answers": found.answers, "call": found.call or ""}
    return _without_wrapper(row) if any(name in layer["make"] for name in WRAPPERS) else row


def _without_wrapper(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what is the wrapper's answer and not the layer's."""
    answers = {key: "not asked" if key in HIDDEN else row["answers"][key] for key in row["answers"]}
    summary = row["summary"].replace(", no weight, float32 inside", "")
    return {**row, "summary": summary, "answers": answers}


def _changes(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    if old is None or new is None:
        return ["new: " + new["summary"]] if new else ["gone"]
    keys = old["answers"].keys() | new["answers"].keys()
    pairs = ((key, old["answers"].get(key), new["answers"].get(key)) for key in sorted(keys))
    changed = [f"{key}: {now}, was {was}" for key, was, now in pairs if was != now]
    if old["version"] != new["version"]:
        changed.append(f"version {new['version']}, was {old['version']}")
    return changed


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["package"], row["make"]


def _version(package: str) -> str:
    try:
        return version(DISTRIBUTIONS.get(package, package))
    except PackageNotFoundError:
        return "not installed"


# -- layers of other frameworks, as functions of a tensor


def keras_layer(layer: Any, shape: tuple[int, ...]) -> nn.Module:
    """A layer of Keras on torch, built for ``shape``."""
    layer.build((None, *shape[1:]))
    trains = type(layer).__name__.startswith("Batch")

    class Built(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x, training=self.training) if trains else self.inner(x)

    return Built()


def flax_layer(layer: Any) -> Any:
    """A layer of Flax with its first parameters."""
    import jax
    import numpy as np

    parameters = layer.init(jax.random.PRNGKey(0), np.ones((2, 5, 64), "float32"))

    def call(x: Tensor) -> Tensor:
        return torch.from_numpy(np.array(layer.apply(parameters, x.float().numpy())))

    return call


def mlx_layer(layer: Any) -> Any:
    """A layer of MLX."""
    import mlx.core as mx
    import numpy as np

    return lambda x: torch.from_numpy(np.array(layer(mx.array(x.float().numpy()))))


# -- packages without what they depend on


class _Anything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub


class _Stub(metaclass=_Anything):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        pass

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return args[0] if args and callable(args[0]) else self

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class _StubModule(types.ModuleType):
    __path__ = ()  # type: ignore[assignment]
    __version__ = "0.28.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Stub,), {})


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in STUBS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _prepare(folder: Path) -> None:
    """Put the folder last on the path, stub what lies nowhere, and open some packages by their
    files."""
    warnings.simplefilter("ignore")
    import transformers.models.llama.modeling_llama  # before the stubs: it looks for torchvision

    assert transformers
    os.environ.setdefault("KERAS_BACKEND", "torch")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.path.append(str(folder))
    sys.meta_path.insert(0, _Stubs())
    inner = ["modules", "models", "models.phi3", "models.gemma", "models.qwen2", "models.llama3_1"]
    for name in (*PARTS, *(f"torchtune.{part}" for part in inner)):
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


if __name__ == "__main__":
    sys.exit(main())
