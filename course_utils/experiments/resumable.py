"""Training that goes on where it ended, whatever ended it, and comes out the same on one process or several.

Every batch is a fixed number of *shards*, and what is in a shard follows from the seed, the step and the shard alone.
So there is no state of a generator to keep; and R processes share a batch by taking every R-th shard each, passing them
through one at a time and adding up the gradients, so that the memory is a shard's.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.experiments import checkpoints, ranks
from course_utils.experiments.fitting import new_optimizer, warm_up_and_cool_down

__all__ = ["Plan", "train"]


@dataclass(frozen=True)
class Plan:
    """How to train: ``steps`` of AdamW on batches of ``shards``.

    The learning rate rises to ``learning_rate`` over ``warm_up`` steps and falls along a cosine. The state is saved
    every ``save_every`` steps.
    """

    steps: int
    shards: int
    learning_rate: float
    warm_up: int
    save_every: int


def train(
    model: nn.Module,
    loss: Callable[[nn.Module, int, int], Tensor],
    plan: Plan,
    state: Path,
    facts: Mapping[str, Any],
    after_step: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train ``model``, in place, from where ``state`` has it, or from the start.

    Ctrl-C, or a request to end, is met when the step is over and the state is saved. On a CPU with one thread the
    result is the same bit for bit, interrupted or not.

    Args:
        model: on its device.
        loss: from the model, the step and the shard to the mean loss over the shard.
        plan: how to train.
        state: the file that weights, optimizer and step are kept in meanwhile; the caller deletes it.
        facts: what it takes to make the model again (JSON): a state with others is not continued.
        after_step: told the number of steps done.

    Raises:
        CheckpointError: ``state`` is damaged or belongs to another training.
        KeyboardInterrupt: interrupted, and the state saved.
        RuntimeError: gradients that are not finite; what was saved before stays.
        ValueError: processes that cannot share the shards evenly.
    """
    if plan.shards % ranks.count():
        raise ValueError(f"processes must divide the {plan.shards} shards of a batch: got {ranks.count()}")
    optimizer = new_optimizer(model, plan.learning_rate)
    done = _restore(model, optimizer, state, facts) if state.is_file() else 0
    ranks.require_same(done, f"state of training in {state.name}, at the same step")
    replica = DistributedDataParallel(model) if ranks.count() > 1 else model
    model.train()
    with _interruption_noted() as interrupted:
        for step in range(done, plan.steps):
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate * warm_up_and_cool_down(
                    (step + 1) / plan.steps, plan.warm_up / plan.steps
                )
            norm = _step(replica, optimizer, loss, step, plan.shards)
            after_step(step + 1)
            stop = interrupted() and ranks.rank() == 0  # the others go on until it has saved: it needs them for a step
            if stop or (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
                if not norm.isfinite():
                    raise RuntimeError(f"gradients must be finite: got a norm of {norm.item()} at step {step + 1}")
                if ranks.rank() == 0:
                    _save(model, optimizer, state, {**facts, "step": step + 1})
            if stop:
                raise KeyboardInterrupt
    model.eval()


def _step(
    replica: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[nn.Module, int, int], Tensor],
    step: int,
    shards: int,
) -> Tensor:
    """Take one step on this process's shards; return the norm of the gradient of the whole batch."""
    optimizer.zero_grad()
    mine = range(ranks.rank(), shards, ranks.count())
    for shard in mine:
        last = shard == mine[-1]  # with it, the sums of all processes are averaged
        with nullcontext() if last or not isinstance(replica, DistributedDataParallel) else replica.no_sync():
            (loss(replica, step, shard) / len(mine)).backward()
    norm = nn.utils.clip_grad_norm_(replica.parameters(), 1.0)
    optimizer.step()
    return norm


def _save(model: nn.Module, optimizer: torch.optim.Optimizer, path: Path, facts: Mapping[str, Any]) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for i, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{key}": tensor for key, tensor in moments.items()}
    checkpoints.write(tensors, path, facts)


def _restore(model: nn.Module, optimizer: torch.optim.Optimizer, path: Path, facts: Mapping[str, Any]) -> int:
    """Bring model and optimizer to where ``path`` has them; return the number of steps done."""
    weights, parameters = model.state_dict(), list(model.parameters())
    moments = {"step": torch.zeros(()), "exp_avg": None, "exp_avg_sq": None}  # AdamW's; None: of the parameter's shape
    like = {f"model.{name}": tensor for name, tensor in weights.items()}
    for i, parameter in enumerate(parameters):
        like |= {f"optimizer.{i}.{key}": parameter if tensor is None else tensor for key, tensor in moments.items()}
    tensors, found = checkpoints.read(path, facts, like, "delete it to train from the start")
    model.load_state_dict({name: tensors[f"model.{name}"] for name in weights})
    state = {i: {key: tensors[f"optimizer.{i}.{key}"] for key in moments} for i in range(len(parameters))}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(found["step"])


@contextmanager
def _interruption_noted() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C or a request to end (SIGTERM) in place of acting on it; a second one acts as ever.

    Outside the main thread, where Python delivers no signals, nothing is noted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        came.append(number)
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()
