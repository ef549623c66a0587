"""The command line of ``course checkpoints``: train the small models of chapter 15 again."""

import argparse
from pathlib import Path

import torch

from course_utils.book.progress_bar import ProgressBar
from course_utils.experiments import checkpoints
from course_utils.experiments.long_context import CHECKPOINTS, SEEDS, checkpoint_path, facts, train_from_scratch


def main(argv: list[str] | None = None) -> int:
    """Train and save; a seed that is interrupted leaves the others, and what was there before, as they are."""
    parser = argparse.ArgumentParser(
        prog="course checkpoints", description="Train the small models of chapter 15 and save them."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), metavar="SEED")
    parser.add_argument("--to", type=Path, default=CHECKPOINTS, metavar="FOLDER", help="default: %(default)s")
    arguments = parser.parse_args(argv)
    folder: Path = arguments.to
    if not folder.is_dir():
        parser.exit(2, f"course checkpoints: --to must be a folder that exists: got {folder}\n")
    torch.set_num_threads(1)  # with which models as small as these are fastest
    for seed in arguments.seeds:
        path = folder / checkpoint_path(seed).name
        try:
            with ProgressBar(f"seed {seed}", 1.0) as bar:
                model = train_from_scratch(seed, bar.show)
        except KeyboardInterrupt:
            parser.exit(130, f"course checkpoints: interrupted; {path.name} is as it was\n")
        checkpoints.save(model, path, {**facts(seed), "torch": torch.__version__})
        print(path)
    return 0
