"""A study small enough to see through, settings with which the course's own take a moment, and
their records."""

from chapters.contents import FOLDER
from course_utils import experiments
from course_utils.experiments import Study
from course_utils.experiments.study import grid

TOY = {
    "lstm-length": {"arm": "LN-LSTM", "length": 6, "batch": 4, "lr": 0.01, "steps": 25, "seed": 0},
    "batch-size": {
        "net": "CNN",
        "equal": "updates",
        "norm": "batch",
        "batch": 2,
        "updates": 4,
        "lr": 0.01,
        "seed": 0,
    },
    "gradient-depth": {"placement": "pre", "depth": 2, "seed": 0},
    "extrapolation": {
        "encoding": "rope",
        "lag": 1,
        "steps": 3,
        "tested": 16,
        "multiples": [1],
        "seed": 0,
    },
    "reading": {"encoding": "rope", "lr": 0.01, "steps": 2, "seed": 0},
    "qk-norm": {
        "qk_norm": True,
        "lr": 0.01,
        "norm": "layer norm",
        "depth": 1,
        "steps": 3,
        "seed": 0,
    },
    "vit-depth": {
        "placement": "post",
        "depth": 1,
        "lr": 0.001,
        "warm_up": 2,
        "updates": 3,
        "seed": 0,
    },
}


def toy(run=None):
    def own(settings, progress):
        progress(0.5)
        return {"loss": settings["seed"] + (10.0 if settings["arm"] == "b" else 0.0)}

    full, reduced = grid(arm="ab", seed=range(3)), grid(arm="ab", seed=range(2))
    return Study("toy", "does the toy run?", run or own, full, reduced)


def nothing(fraction):
    assert 0 <= fraction <= 1


def record(name):
    return experiments.read(next(FOLDER.glob(f"c*/recorded/{name}.jsonl")))
