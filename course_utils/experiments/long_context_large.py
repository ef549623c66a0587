"""The long-context experiment at 60 million parameters: `course train long-context --size gpu`.

The same task and the same methods as in ``long_context``, with more of everything: a window of 2,048 tokens and tests
at up to 32,768; more names, values and questions; heads of 64 dimensions and the base 10,000 that real models have. Its
fastest pair makes 326 turns in a window, so that YaRN's usual bounds, 32 turns and 1, mean what they do there.

Matrix products and attention are bfloat16. Angles are not: at position 32,767 bfloat16 numbers are 128 apart. They are
float64, their cosines and sines float32, as are the weights, the optimizer and what the blocks add up.

The models are trained first, by as many processes as `torchrun` started; the first process then tests them alone. To
train one takes 131 million tokens, and some 6 · 10¹⁶ floating-point operations: computed, not measured.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.book.progress_bar import ProgressBar
from course_utils.experiments import checkpoints, ranks, resumable
from course_utils.experiments.long_context import (
    MULTIPLES,
    SEEDS,
    apply_method,
    evaluate,
    finite,
    held_out_streams,
    methods_for,
)
from course_utils.experiments.resumable import Plan
from course_utils.experiments.study import Cell, Progress, Run
from course_utils.experiments.tags import Streams, Tags
from course_utils.models.decoder import Decoder

__all__ = ["LARGE", "Large", "cells", "methods", "prepare"]


@dataclass(frozen=True)
class Large:
    """The sizes of the experiment.

    Args:
        task: with the window of training.
        width, heads, depth, hidden, base: of the ``Decoder``.
        streams: in a shard of a batch, which is what is in memory at once.
        plan: of the training.
        seeds: a model for each.
        multiples: lengths of the tests, in windows.
        tested: streams in a test.
    """

    task: Tags
    width: int
    heads: int
    depth: int
    hidden: int
    base: float
    streams: int
    plan: Plan
    seeds: tuple[int, ...]
    multiples: tuple[int, ...]
    tested: int

    def new_model(self, seed: int | None) -> Decoder:
        """Return the untrained model of this seed, on the CPU; None: where and from what PyTorch's defaults say."""
        return Decoder(
            self.task.vocabulary,
            window=self.task.window,
            width=self.width,
            heads=self.heads,
            depth=self.depth,
            hidden=self.hidden,
            base=self.base,
            generator=None if seed is None else torch.Generator().manual_seed(seed),
        )

    @property
    def parameters(self) -> int:
        """The number of parameters of a model."""
        with torch.device("meta"):  # which has sizes and no memory
            return sum(parameter.numel() for parameter in self.new_model(None).parameters())

    def facts(self, seed: int) -> dict[str, Any]:
        """Return what weights must say of themselves to be the model of this seed."""
        tests = ("seeds", "multiples", "tested")
        return {
            "seed": seed,
            **{field.name: repr(getattr(self, field.name)) for field in fields(self) if field.name not in tests},
        }


LARGE = Large(
    task=Tags(window=2048, fillers=64, names=32, values=16, questions=64),
    width=640,
    heads=10,
    depth=12,
    hidden=2560,
    base=10_000.0,
    streams=8,
    plan=Plan(steps=1000, shards=8, learning_rate=6e-4, warm_up=100, save_every=100),
    seeds=SEEDS,
    multiples=MULTIPLES,
    tested=16,
)


def methods(large: Large) -> dict[str, dict[str, Any]]:
    """Return the ways of scaling: those of ``long_context``, with YaRN's usual bounds in place of chosen ones."""
    found = methods_for(large.base, {})
    del found["YaRN, β = 32"]  # is YaRN itself here
    return found


def cells(large: Large) -> list[Cell]:
    """Return the tests: each way of scaling at each length, for the model of each seed."""
    model = {"parameters": large.parameters, "window": large.task.window}
    return [
        {"method": method, "multiple": multiple, "seed": seed, "streams": large.tested, **model}
        for seed in large.seeds
        for multiple in large.multiples
        for method in methods(large)
    ]


def prepare(large: Large, folder: Path, *, progress: bool = True, device_type: str = "cuda") -> Run:
    """Train the models that are not yet in ``folder``, and return what runs the tests.

    Args:
        large: the sizes.
        folder: keeps ``seed-N.safetensors``, the weights; and while a model is being trained its state,
            ``seed-N.state``, about six times that. All processes must see the same folder.
        progress: whether to show a bar.
        device_type: "cuda", or "cpu" for small sizes.

    Raises:
        CheckpointError: a file of the folder is damaged, or belongs to other sizes.
        RuntimeError: processes that see different folders, or a training that diverged.
    """
    folder.mkdir(exist_ok=True)
    device, plan = ranks.device(device_type), large.plan
    with ranks.joined(device):
        ranks.require_same(sorted(path.name for path in folder.iterdir()), f"files in {folder}")
        total, shown = len(large.seeds) * plan.steps, progress and ranks.rank() == 0
        with ProgressBar(f"training, {total} steps", total, shown=shown) as bar:
            for i, seed in enumerate(large.seeds):
                after_step = functools.partial(lambda before, steps: bar.show(before + steps), i * plan.steps)
                _train(large, seed, folder, device, after_step)

    @functools.lru_cache(maxsize=1)
    def trained(seed: int) -> Decoder:
        return _on(device, _trained(large, seed, folder))

    def run(cell: Cell, progress: Progress) -> dict[str, Any]:
        length = cell["multiple"] * large.task.window
        model = apply_method(trained(cell["seed"]), cell["method"], length, methods(large))
        streams = held_out_streams(cell["multiple"], cell["streams"], task=large.task)
        with _bfloat16(device):
            return finite(evaluate(model, Streams(*(part.to(device) for part in streams)), task=large.task))

    return run


def _train(large: Large, seed: int, folder: Path, device: torch.device, after_step: Callable[[int], None]) -> None:
    """Leave the weights of the model of this seed in ``folder``."""
    if _weights(folder, seed).is_file():
        _trained(large, seed, folder)  # stops now rather than when its turn to be tested comes
        return
    model, state = _on(device, large.new_model(seed)), folder / f"seed-{seed}.state"
    loss = functools.partial(_loss, large, device, seed)
    resumable.train(model, loss, large.plan, state, large.facts(seed), after_step)
    if ranks.rank() == 0:
        checkpoints.save(model, _weights(folder, seed), {**large.facts(seed), "torch": torch.__version__})
        state.unlink()


def _trained(large: Large, seed: int, folder: Path) -> Decoder:
    """Return the model of this seed as ``folder`` has it; as float16, so that resumed runs test the same weights."""
    model = large.new_model(seed)
    checkpoints.load(model, _weights(folder, seed), large.facts(seed), "delete it to train again")
    return model.eval()


def _weights(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}.safetensors"


def _on(device: torch.device, model: Decoder) -> Decoder:
    """Move a model, and its frequencies too: from the CPU they would make every forward pass wait for the GPU."""
    return model.to(device).set_rope(model.inv_freq.to(device))


def _bfloat16(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16)


def _loss(large: Large, device: torch.device, seed: int, model: nn.Module, step: int, shard: int) -> Tensor:
    """Return the mean loss over the streams of a shard, drawn on the CPU while the GPU works on the one before."""
    number = ((seed + 1) * 10**6 + step) * 10**3 + shard  # never that of the test streams, which are smaller
    generator = torch.Generator().manual_seed(number)
    tokens = large.task.draw(large.streams, large.task.window, generator).tokens
    if device.type == "cuda":
        tokens = tokens.pin_memory().to(device, non_blocking=True)  # from other memory the copy would wait for the GPU
    with _bfloat16(device):
        logits = model(tokens)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
