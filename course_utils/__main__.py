"""The command ``course``, also ``python -m course_utils``: one word chooses what to do."""

import sys
from importlib import import_module

# the word -> the module whose main(argv) does it, and what to say about it
COMMANDS = {
    "doctor": ("tools.doctor", "can this machine run the course? a line for each thing, OK or what to do"),
    "bench": ("course_utils.timing.bench", "time every implementation of the ladder and record it"),
    "train": ("course_utils.experiments.command", "run an experiment of the course in its full form and record it"),
    "checkpoints": ("course_utils.experiments.pretrain", "train the small models of chapter 14 again and save them"),
    "grade": ("tools.grading.command", "run the checks over a folder of submitted notebooks"),
}


def main(argv: list[str] | None = None) -> int:
    """Run the command that the first argument names; return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: course COMMAND [options]\n")
        print("\n".join(f"  {name:<12} {what}" for name, (_, what) in COMMANDS.items()))
        return 0
    if arguments[0] not in COMMANDS:
        print(f"course: unknown command {arguments[0]!r}; known are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module, _ = COMMANDS[arguments[0]]
    return import_module(module).main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
