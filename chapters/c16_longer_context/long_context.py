"""What does each way of scaling RoPE do to a small model on lengths that it never saw?

A transformer of 0.3 million parameters learns the task of ``tags`` at 128 tokens, and is then
tested at up to 16 times that, with its rotary frequencies scaled in every way of chapter 15. Near
order and far memory are measured apart, since one number for both would reward forgetting: the
sliding window is there to show it.

Its base is 100, so that at 128 tokens about as large a share of its pairs completes a turn (11 of
16) as in Llama at 4,096 (46 of 64).
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chapters.c16_longer_context import checkpoints, load
from chapters.c16_longer_context.tags import TASK, Score, Streams, Tags
from course_utils.experiments.study import Progress, Settings, planned
from course_utils.experiments.training import fit
from course_utils.models import Decoder
from course_utils.progress_bar import ProgressBar
from course_utils.rope import rope_frequencies
from course_utils.session import generator

BASE = 100.0
SEEDS = (0, 1, 2)
MULTIPLES = (1, 2, 4, 8, 16)
STEPS, WARM_UP, BATCH, LEARNING_RATE = 600, 50, 32, 3e-3
CHECKPOINTS = Path(__file__).with_name("long_context")

# the types for which the model's window is the extended one, and a key of their own holds the
# original
NAME_BOTH_WINDOWS = ("yarn", "llama3", "longrope")


# what each method puts into `rope_parameters`, but for a factor that depends on the length
_ALL_METHODS = tomllib.loads(Path(__file__).with_name("methods.toml").read_text(encoding="utf-8"))
METHODS: dict[str, dict[str, Any]] = _ALL_METHODS["tags"]
SMOLLM2_METHODS: dict[str, dict[str, Any]] = _ALL_METHODS["smollm2"]


def methods_of(seed: int) -> dict[str, dict[str, Any]]:
    """Return ``METHODS`` and "LongRoPE": the factors that the recorded search found for the model
    of this seed.

    They were searched for at eight windows, on streams of their own, and are used as a model's
    ``config.json`` would: beyond the window, at whatever length; within it nothing is stretched,
    and the attention factor stays.
    """
    searches = load("longrope-search").select(objective="all tokens", seed=seed)
    longest = max(searches, key=lambda row: row["budget"])
    if first_tokens := longest["first_tokens"]:
        raise ValueError(
            f"first_tokens of the recorded search must be 0 to fit a config: got {first_tokens}"
        )
    longrope = {
        "rope_theta": BASE,
        "rope_type": "longrope",
        "factor": 8.0,
        "short_factor": [1.0] * len(longest["factors"]),
        "long_factor": longest["factors"],
    }
    return {**METHODS, "LongRoPE": longrope}


def rope_parameters(
    method: str,
    factor: float,
    methods: Mapping[str, Mapping[str, Any]] = METHODS,
    window: int = TASK.window,
) -> dict[str, Any]:
    """Return the ``rope_parameters`` of a method, for inputs of ``factor`` times the window, at
    least 1."""
    parameters = dict(methods[method])
    if parameters["rope_type"] == "default" or (factor == 1 and "factor" not in parameters):
        # nothing to stretch
        return {
            "rope_theta": parameters["rope_theta"],
            "rope_type": "default",
        }
    parameters.setdefault("factor", float(factor))
    if parameters["rope_type"] in NAME_BOTH_WINDOWS:
        parameters["original_max_position_embeddings"] = window
    return parameters


def frequencies(
    parameters: Mapping[str, Any], head_dim: int, window: int, length: int
) -> tuple[Tensor, float]:
    """Return the frequencies of ``parameters`` for ``length`` tokens, and the attention factor, of
    a model that was trained at ``window`` tokens."""
    if parameters["rope_type"] in NAME_BOTH_WINDOWS:
        window = round(window * parameters["factor"])
    return rope_frequencies(parameters, head_dim, window, seq_len=length)


def apply_method(
    model: Decoder, method: str, length: int, methods: Mapping[str, Mapping[str, Any]] = METHODS
) -> Decoder:
    """Set the model's frequencies and attention window for inputs of ``length`` tokens, and return
    it.

    Methods whose factor is not fixed stretch by ``length`` over the window, at least 1.
    """
    parameters = rope_parameters(method, max(1.0, length / model.window), methods)
    model.set_attention_window(model.window if method == "sliding window" else None)
    return model.set_rope(*frequencies(parameters, model.head_dim, model.window, length))


def new_model(seed: int, nope_layers: tuple[int, ...] = ()) -> Decoder:
    """Return the untrained model of this seed; the layers ``nope_layers`` are not rotated."""
    return Decoder(
        TASK.vocabulary,
        window=TASK.window,
        base=BASE,
        nope_layers=nope_layers,
        generator=generator(seed),
    )


def train_from_scratch(
    seed: int, progress: Progress = lambda fraction: None, model: Decoder | None = None
) -> Decoder:
    """Return the model of this seed, or ``model``, trained at ``TASK.window`` tokens as the shipped
    one was."""
    model = model or new_model(seed)
    optimizer = new_optimizer(model, LEARNING_RATE)

    def schedule(step: int) -> float:
        done = (step + 1) / STEPS
        return LEARNING_RATE * (
            min(1.0, done * STEPS / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * done))
        )

    loss_of = next_token_loss(TASK.window, BATCH, seed + 10)
    fit(model.train(), loss_of, optimizer, STEPS, schedule=schedule, clip=1.0, progress=progress)
    return model.eval()


def new_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """Return the optimizer of every training in this chapter."""
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )


def next_token_loss(length: int, streams: int, seed: int) -> Callable[[nn.Module], Tensor]:
    """Return a function that gives a model's loss on ``streams`` new streams of ``length`` tokens
    each time."""
    rng = generator(seed)

    def loss_of(model: nn.Module) -> Tensor:
        tokens = TASK.draw(streams, length, rng).tokens  # (B, T)
        logits = model(tokens)[:, :-1]  # (B, T - 1, V)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return loss_of


def checkpoint_path(seed: int) -> Path:
    """Return the file of the shipped checkpoint of this seed."""
    return CHECKPOINTS / f"seed-{seed}.safetensors"


def facts(seed: int) -> dict[str, Any]:
    """Return what a checkpoint must say of itself to be the model of this seed."""
    return {
        "task": repr(TASK),
        "base": BASE,
        "seed": seed,
        "steps": STEPS,
        "batch": BATCH,
        "lr": LEARNING_RATE,
    }


def pretrained(seed: int, path: Path | None = None) -> Decoder:
    """Return the trained model of this seed, one of ``SEEDS``, from the checkpoint that comes with
    the course."""
    model = new_model(seed)
    remedy = f"`python -m {__name__}` makes all of them again, train_from_scratch({seed}) this one"
    checkpoints.load(model, path or checkpoint_path(seed), facts(seed), remedy)
    return model.eval()


def held_out_streams(multiple: int, streams: int, seed: int = 77) -> Streams:
    """Return the streams that every method is tested on, ``multiple`` windows long; none of them
    was trained on."""
    return TASK.draw(streams, multiple * TASK.window, generator(1000 * seed + multiple))


@torch.no_grad()
def evaluate(model: nn.Module, streams: Streams, task: Tags = TASK) -> Score:
    """Return what ``model`` is worth on ``streams``."""
    # streams, so that the memory does not grow with their length
    at_once = max(1, 16_384 // streams.tokens.shape[1])
    logits = torch.cat([model(part) for part in streams.tokens.split(at_once)])
    return task.score(logits, streams)


def finite(score: Score) -> dict[str, Any]:
    """Return the score for a record, which has no NaN: None where no needle was within, or none
    beyond, the window."""
    shares = {
        name: None if math.isnan(getattr(score, name)) else getattr(score, name)
        for name in ("near", "far")
    }
    return {
        **score._asdict(),
        **shares,
        "asked": list(score.asked),
        "answered": list(score.answered),
    }


def _run(settings: Settings, progress: Progress) -> dict[str, Any]:
    streams = held_out_streams(settings["multiple"], settings["streams"])
    seed, length = settings["seed"], settings["multiple"] * TASK.window
    model = apply_method(pretrained(seed), settings["method"], length, methods_of(seed))
    return finite(evaluate(model, streams))


def _warm(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Return the scores of a method at eight windows with YaRN's temperature, which is not its
    own."""
    model = apply_method(pretrained(settings["seed"]), settings["method"], 8 * TASK.window)
    model.set_rope(model.inv_freq, 0.1 * math.log(8) + 1)
    return finite(evaluate(model, held_out_streams(8, settings["streams"])))


ZERO_SHOT = planned("long-context", _run)
TEMPERATURE = planned("long-context-temperature", _warm)


if __name__ == "__main__":  # train the models that come with the course again, and save them
    torch.set_num_threads(1)  # with which models as small as these are fastest
    for each_seed in SEEDS:
        with ProgressBar(f"seed {each_seed}", 1.0) as bar:
            trained = train_from_scratch(each_seed, bar.show)
        made = {**facts(each_seed), "torch": torch.__version__}
        checkpoints.save(trained, checkpoint_path(each_seed), made)
